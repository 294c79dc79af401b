//! `hk dequantize`.

use std::process::ExitCode;

use hk_std::Result;

/// Write a tensor's weights as f32
#[derive(clap::Args)]
pub struct Args {}

/// Runs the command.
pub fn run(_args: &Args) -> Result<ExitCode> {
    Ok(ExitCode::SUCCESS)
}
