//! `hk convert`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use hk_std::convert::gguf;
use hk_std::{Result, Writer};

use crate::interrupt;
use crate::output;
use crate::progress::Progress;
use crate::text;

const HELP: &str = "\
Examples:
  hk convert SmolLM2-135M-Instruct.Q4_1.gguf smol.hk
  hk convert model.gguf model.hk --alignment 4096 --force";

/// Convert a GGUF file to HK
///
/// Weights are copied as they are, so nothing is lost and nothing is computed; metadata,
/// vocabulary included, comes along, with what is needed to make the same GGUF again. The
/// output appears only when it is whole.
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    /// GGUF file to read (version 2 or 3, little-endian)
    #[arg(value_name = "IN.gguf")]
    input: PathBuf,

    /// HK file to write
    #[arg(value_name = "OUT.hk")]
    output: PathBuf,

    /// Start each tensor at a multiple of N bytes, 1 to 65536; 4096 fits memory pages
    #[arg(long, value_name = "N", default_value_t = 128,
        value_parser = alignment)]
    alignment: u32,

    /// Leave N bytes unused in front of the first tensor, for metadata to grow
    #[arg(long, value_name = "N", default_value_t = Writer::METADATA_ROOM)]
    metadata_room: u64,

    /// Replace OUT.hk if it exists
    #[arg(long)]
    force: bool,
}

fn alignment(text: &str) -> std::result::Result<u32, &'static str> {
    let number = text.parse().ok().filter(|number| (1..=65536).contains(number));
    number.ok_or("give a whole number from 1 to 65536")
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    let start = Instant::now();
    let options = gguf::Options {
        alignment: args.alignment,
        metadata_room: args.metadata_room,
        overwrite: args.force,
    };
    interrupt::catch();
    let mut bar = None;
    let summary = gguf::convert(&args.input, &args.output, options, |progress| {
        bar.get_or_insert_with(|| Progress::bytes(progress.total, "converting")).set(progress.done);
        interrupt::requested()
    });
    drop(bar);
    let summary = summary?;
    let seconds = start.elapsed().as_secs_f64();
    output::to_stdout(|out| {
        writeln!(
            out,
            "{}: {}, {}, {} in {seconds:.2} s",
            args.output.display(),
            text::count(summary.tensors, "tensor"),
            text::count(summary.metadata, "metadata pair"),
            text::size(summary.file_len.into()),
        )
    })?;
    if summary.split_count > 1 {
        output::say(&format_args!(
            "note: {} is one of {} files that the model is split over; the others are not in {}",
            args.input.display(),
            summary.split_count,
            args.output.display(),
        ));
    }
    Ok(ExitCode::SUCCESS)
}
