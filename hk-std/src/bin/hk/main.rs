//! The program `hk`: a thin layer over the library, one file a subcommand.

mod convert;
mod dequantize;
mod inspect;
mod kernels;
mod verify;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Look into, check, decode and make HK model files.
#[derive(Parser)]
#[command(name = "hk", version, propagate_version = true)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Inspect(inspect::Args),
    Dequantize(dequantize::Args),
    Convert(convert::Args),
    Verify(verify::Args),
    Kernels(kernels::Args),
}

fn main() -> ExitCode {
    let result = match Args::parse().command {
        Command::Inspect(args) => inspect::run(&args),
        Command::Dequantize(args) => dequantize::run(&args),
        Command::Convert(args) => convert::run(&args),
        Command::Verify(args) => verify::run(&args),
        Command::Kernels(args) => kernels::run(&args),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("hk: {error}");
            ExitCode::FAILURE
        }
    }
}
