//! `hk verify`.

use std::process::ExitCode;

use hk_std::Result;

/// Check everything about a file's structure
#[derive(clap::Args)]
pub struct Args {}

/// Runs the command.
pub fn run(_args: &Args) -> Result<ExitCode> {
    Ok(ExitCode::SUCCESS)
}
