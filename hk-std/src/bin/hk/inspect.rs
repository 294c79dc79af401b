//! `hk inspect`.

use std::process::ExitCode;

use hk_std::Result;

/// Show a file's header, metadata and tensors
#[derive(clap::Args)]
pub struct Args {}

/// Runs the command.
pub fn run(_args: &Args) -> Result<ExitCode> {
    Ok(ExitCode::SUCCESS)
}
