//! `hk convert`.

use std::process::ExitCode;

use hk_std::Result;

/// Convert a GGUF file to HK
#[derive(clap::Args)]
pub struct Args {}

/// Runs the command.
pub fn run(_args: &Args) -> Result<ExitCode> {
    Ok(ExitCode::SUCCESS)
}
