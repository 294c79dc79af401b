//! `hk convert`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use hk_std::convert::gguf;
use hk_std::{Progress, Result};
use indicatif::{HumanBytes, ProgressBar, ProgressStyle};

/// Convert a GGUF file to HK
///
/// Weights are copied as they are, so nothing is lost and nothing is computed; metadata,
/// vocabulary included, comes along, with what is needed to make the same GGUF again. The
/// output appears only when it is whole.
#[derive(clap::Args)]
pub struct Args {
    /// GGUF file to read (version 2 or 3, little-endian)
    #[arg(value_name = "IN.gguf")]
    input: PathBuf,

    /// HK file to write
    #[arg(value_name = "OUT.hk")]
    output: PathBuf,

    /// Start each tensor at a multiple of N bytes, 1 to 65536; 4096 fits memory pages
    #[arg(long, value_name = "N", default_value_t = 128,
        value_parser = clap::value_parser!(u32).range(1..=65536))]
    alignment: u32,

    /// Replace OUT.hk if it exists
    #[arg(long)]
    force: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    let start = Instant::now();
    let options = gguf::Options { alignment: args.alignment, overwrite: args.force };
    let bar = bar();
    let summary = gguf::convert(&args.input, &args.output, options, |Progress { done, total }| {
        bar.set_length(total);
        bar.set_position(done);
    });
    bar.finish_and_clear();
    let summary = summary?;
    println!(
        "{}: {} tensors and {} metadata pairs, {} in {:.2} s",
        args.output.display(),
        summary.tensors,
        summary.metadata,
        HumanBytes(summary.file_len),
        start.elapsed().as_secs_f64()
    );
    Ok(ExitCode::SUCCESS)
}

/// A bar on standard error, which shows only on a terminal.
fn bar() -> ProgressBar {
    let style = ProgressStyle::with_template(
        "{wide_bar} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left",
    );
    ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
