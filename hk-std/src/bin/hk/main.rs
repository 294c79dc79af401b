//! The program `hk`: a thin layer over the library, one file a subcommand.

mod appendix;
mod bench;
mod convert;
mod dequantize;
mod edit;
mod inspect;
mod interrupt;
mod kernels;
mod metadata;
mod output;
mod progress;
mod rewrite;
mod table;
mod text;
mod values;
mod verify;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use hk_std::Error;
use hk_std::hk_core::ErrorKind;

const EXAMPLES: &str = "\
Examples:
  hk convert model.gguf model.hk            make an HK file
  hk inspect model.hk                       what is in it
  hk verify model.hk                        whether it is sound
  hk quantize model.hk small.hk --type q4_k
  hk metadata set model.hk general.name \"My model\"
  hk dequantize model.hk output.weight -o output.f32

Exit status: 0 done, 1 failed, 2 wrong usage.
Environment: HK_KERNELS=NAME forces a backend; `hk kernels` lists them.";

/// Look into, check, decode and make HK model files
#[derive(Parser)]
#[command(name = "hk", version, propagate_version = true, after_help = EXAMPLES)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Inspect(inspect::Args),
    Dequantize(dequantize::Args),
    Convert(convert::Args),
    Quantize(rewrite::quantize::Args),
    Prune(rewrite::prune::Args),
    Pack(rewrite::pack::Args),
    Metadata(metadata::Args),
    Appendix(appendix::Args),
    Seal(edit::SealArgs),
    Unseal(edit::UnsealArgs),
    Repair(edit::RepairArgs),
    Verify(verify::Args),
    Kernels(kernels::Args),
    Bench(bench::Args),
}

fn main() -> ExitCode {
    let result = match Args::parse().command {
        Command::Inspect(args) => inspect::run(&args),
        Command::Dequantize(args) => dequantize::run(&args),
        Command::Convert(args) => convert::run(&args),
        Command::Quantize(args) => rewrite::quantize::run(&args),
        Command::Prune(args) => rewrite::prune::run(&args),
        Command::Pack(args) => rewrite::pack::run(&args),
        Command::Metadata(args) => metadata::run(&args),
        Command::Appendix(args) => appendix::run(&args),
        Command::Seal(args) => edit::seal(&args),
        Command::Unseal(args) => edit::unseal(&args),
        Command::Repair(args) => edit::repair(&args),
        Command::Verify(args) => verify::run(&args),
        Command::Kernels(args) => kernels::run(&args),
        Command::Bench(args) => bench::run(&args),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            output::say(&error);
            if let Some(hint) = hint(&error) {
                output::say(&hint);
            }
            ExitCode::FAILURE
        }
    }
}

/// What to try next: an error names only what is wrong first, and bytes without a decoder
/// can still be had.
fn hint(error: &Error) -> Option<String> {
    match error {
        Error::Format { path, tensor: None, source } if source.kind() != ErrorKind::NotHk => {
            if hk_std::edit::repair(path, true).is_ok_and(|actions| !actions.is_empty()) {
                let path = path.display();
                return Some(format!(
                    "an edit of it was interrupted: `hk repair {path}` undoes it"
                ));
            }
            Some(format!("`hk verify {}` lists everything that is wrong with it", path.display()))
        }
        Error::Format { path, tensor: Some(tensor), source } => match source.kind() {
            ErrorKind::Undecodable(_) | ErrorKind::TileLayout(..) | ErrorKind::Sparsity(..) => {
                let path = path.display();
                Some(format!("`hk dequantize {path} {tensor:?} --raw` writes its stored bytes"))
            }
            _ => None,
        },
        _ => None,
    }
}
