//! `hk kernels`.

use std::process::ExitCode;

use hk_std::Result;

/// Show CPU features and backends
#[derive(clap::Args)]
pub struct Args {}

/// Runs the command.
pub fn run(_args: &Args) -> Result<ExitCode> {
    Ok(ExitCode::SUCCESS)
}
