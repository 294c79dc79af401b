//! `hk verify`.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use hk_std::Result;
use hk_std::verify::{Finding, Report, verify_file};
use serde_json::json;

use crate::output;
use crate::progress::Progress;
use crate::text;
use crate::values;

const HELP: &str = "\
Examples:
  hk verify model.hk
  hk verify model.hk --json | jq '.findings[] | select(.severity == \"fault\")'

A fault makes the exit status 1: something out of bounds, overlapping, too short, not aligned,
named twice, not text, a broken reference, record, checksum or seal. A note does not: unknown
codes and flags, bytes that nothing uses. Each finding is a line with its byte offset.";

/// Check everything about a file's structure
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    /// The HK file to check
    file: PathBuf,
    /// Give the findings as one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    let mut progress: Option<Progress> = None;
    let report = verify_file(&args.file, &mut |done, total| {
        progress.get_or_insert_with(|| Progress::bytes(total, "checking the seal")).set(done);
    })?;
    drop(progress);
    let file = args.file.display().to_string();
    output::to_stdout(|out| {
        if args.json { write_json(out, &file, &report) } else { write_text(out, &file, &report) }
    })?;
    Ok(if report.is_sound() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn write_text(out: &mut dyn Write, file: &str, report: &Report) -> io::Result<()> {
    for finding in report.findings() {
        writeln!(out, "{finding}")?;
    }
    if report.left_out() > 0 {
        writeln!(out, "and {}", text::count(report.left_out(), "more finding"))?;
    }
    let verdict = if report.is_sound() { "sound" } else { "NOT sound" };
    let (faults, notes) =
        (text::count(report.faults(), "fault"), text::count(report.notes(), "note"));
    writeln!(out, "{}: {verdict}, {faults}, {notes}", text::clean(file))
}

fn write_json(out: &mut dyn Write, file: &str, report: &Report) -> io::Result<()> {
    out.write_all(b"{\n\"file\": ")?;
    values::json_string(out, file)?;
    write!(
        out,
        ",\n\"sound\": {},\n\"faults\": {},\n\"notes\": {},\n\"findings\": [",
        report.is_sound(),
        report.faults(),
        report.notes()
    )?;
    for (index, finding) in report.findings().iter().enumerate() {
        out.write_all(if index == 0 { b"\n" } else { b",\n" })?;
        serde_json::to_writer(&mut *out, &finding_json(finding)).map_err(io::Error::from)?;
    }
    out.write_all(b"\n]\n}\n")
}

fn finding_json(finding: &Finding) -> serde_json::Value {
    json!({
        "severity": finding.severity.to_string(),
        "section": finding.section_name(),
        "offset": finding.offset,
        "name": finding.name,
        "text": finding.text,
    })
}
