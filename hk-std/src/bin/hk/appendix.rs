//! `hk appendix`.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Subcommand;
use clap::builder::PossibleValuesParser;
use hk_std::edit::NewRecord;
use hk_std::hk_core::format::appendix::{Lineage, Record, RecordHead, RecordType};
use hk_std::hk_core::{self, Hk};
use hk_std::{Error, ModelFile, Result};
use serde_json::json;

use crate::edit::{self, Force};
use crate::output;
use crate::table::{self, Side};
use crate::text;
use crate::values;

const HELP: &str = "\
Examples:
  hk appendix append model.hk adapter.bin --type lora_adapter --name style --target blk.0.attn_q.weight
  run-tests | hk appendix append model.hk - --type code_eval --name nightly --pass-rate 0.93
  hk appendix list model.hk
  hk appendix extract model.hk 0 -o adapter.bin
  hk appendix verify model.hk
  hk appendix rollback model.hk --generation 1

A record names the one before it by its hash, and states the CRC-32 of its data: `verify` checks
both. Nothing of the file is moved or written to append one. Generations count up by themselves;
without a payload a record has no data.";

/// Records behind the tensors: list, append, check, take back
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// All records, a line each
    List {
        /// The HK file
        file: PathBuf,
        /// Give them whole, but for their data, as one JSON array
        #[arg(long)]
        json: bool,
    },
    /// All about one record, but for its data
    Show {
        /// The HK file
        file: PathBuf,
        /// Its position, from 0
        index: u32,
    },
    /// Add a record
    Append(AppendArgs),
    /// Write the data of a record
    Extract {
        /// The HK file
        file: PathBuf,
        /// Its position, from 0
        index: u32,
        /// File to write, in place of what is there; - is standard output
        #[arg(short, long, value_name = "OUT")]
        output: PathBuf,
    },
    /// Keep the leading records up to a generation, and cut off the rest
    Rollback {
        /// The HK file
        file: PathBuf,
        /// The last generation that stays
        #[arg(long, value_name = "G")]
        generation: u32,
        #[command(flatten)]
        force: Force,
    },
    /// Check that each record is whole and follows the one before it
    Verify {
        /// The HK file
        file: PathBuf,
    },
}

#[derive(clap::Args)]
struct AppendArgs {
    /// The HK file
    file: PathBuf,
    /// File with the record's data; - is standard input
    payload: Option<PathBuf>,
    /// What the record holds
    #[arg(long = "type", value_name = "T", value_parser = PossibleValuesParser::new(RecordType::NAMES))]
    kind: String,
    /// Its name
    #[arg(long, value_name = "N")]
    name: String,
    /// What it applies to, as a tensor
    #[arg(long, value_name = "T", default_value = "")]
    target: String,
    /// Its generation; without it, that of the last record plus 1
    #[arg(long, value_name = "G")]
    generation: Option<u32>,
    /// Metric: loss
    #[arg(long, value_name = "X", default_value_t = 0.0, allow_negative_numbers = true)]
    loss: f32,
    /// Metric: accuracy
    #[arg(long, value_name = "X", default_value_t = 0.0, allow_negative_numbers = true)]
    accuracy: f32,
    /// Metric: pass rate
    #[arg(long, value_name = "X", default_value_t = 0.0, allow_negative_numbers = true)]
    pass_rate: f32,
    /// Metric: one of your own
    #[arg(long, value_name = "X", default_value_t = 0.0, allow_negative_numbers = true)]
    custom: f32,
    #[command(flatten)]
    force: Force,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    match &args.command {
        Command::List { file, json } => list(file, *json)?,
        Command::Show { file, index } => show(file, *index)?,
        Command::Append(args) => append(args)?,
        Command::Extract { file, index, output } => extract(file, *index, output)?,
        Command::Rollback { file, generation, force } => rollback(file, *generation, force)?,
        Command::Verify { file } => return verify(file),
    }
    Ok(ExitCode::SUCCESS)
}

/// The records, a line each, and what is wrong with others.
pub fn write_table(out: &mut dyn Write, hk: &Hk<'_>) -> io::Result<()> {
    /// Characters of a name that a line shows.
    const NAME: usize = 48;
    let columns = [
        ("index", Side::Right),
        ("generation", Side::Right),
        ("type", Side::Left),
        ("name", Side::Left),
        ("target", Side::Left),
        ("bytes", Side::Right),
        ("offset", Side::Right),
    ];
    let row = |record: Record<'_>| {
        [
            record.index.to_string(),
            record.generation.to_string(),
            record.kind.to_string(),
            text::shorten(record.name, NAME),
            text::shorten(record.target, NAME),
            record.data.len().to_string(),
            record.offset.to_string(),
        ]
    };
    table::write(out, columns, hk.appendix().filter_map(|record| record.ok()).map(row))?;
    for error in hk.appendix().filter_map(|record| record.err()) {
        writeln!(out, "  {error}")?;
    }
    Ok(())
}

fn list(file: &Path, json: bool) -> Result<()> {
    let model = ModelFile::open(file)?;
    let hk = model.hk();
    // As JSON all or nothing; a table shows what there is.
    let records = hk.appendix().collect::<Result<Vec<_>, _>>();
    let records = match (json, records) {
        (true, records) => records.map_err(|e| Error::format(file, None, e))?,
        (false, _) => Vec::new(),
    };
    output::to_stdout(|out| {
        if !json {
            return write_table(out, &hk);
        }
        out.write_all(b"[")?;
        for record in &records {
            out.write_all(if record.index == 0 { b"\n" } else { b",\n" })?;
            serde_json::to_writer(&mut *out, &record_json(record)).map_err(io::Error::from)?;
        }
        out.write_all(b"\n]\n")
    })
}

fn record_json(record: &Record<'_>) -> serde_json::Value {
    let metric = |number: f32| match number.is_finite() {
        true => json!(number),
        false => json!(values::non_finite(f64::from(number))),
    };
    let [loss, accuracy, pass_rate, custom] = record.metrics.map(metric);
    json!({
        "index": record.index,
        "type": record.kind.to_string(),
        "name": record.name,
        "target": record.target,
        "generation": record.generation,
        "timestamp": record.timestamp,
        "active": record.flags & RecordHead::ACTIVE != 0,
        "compressed": record.flags & RecordHead::COMPRESSED != 0,
        "loss": loss,
        "accuracy": accuracy,
        "pass_rate": pass_rate,
        "custom": custom,
        "parent_hash": text::hex(&record.parent_hash),
        "crc32": (record.data_crc32 != 0).then(|| format!("{:08x}", record.data_crc32)),
        "bytes": record.data.len(),
        "offset": record.offset,
    })
}

fn show(file: &Path, index: u32) -> Result<()> {
    let model = ModelFile::open(file)?;
    let hk = model.hk();
    let record = find(file, &hk, index)?;
    let serde_json::Value::Object(fields) = record_json(&record) else { return Ok(()) };
    output::to_stdout(|out| {
        fields.iter().try_for_each(|(name, value)| match value.as_str() {
            Some(string) => writeln!(out, "{name:<12} {}", text::clean(string)),
            None => writeln!(out, "{name:<12} {value}"),
        })
    })
}

/// The record at `index`.
fn find<'a>(file: &Path, hk: &Hk<'a>, index: u32) -> Result<Record<'a>> {
    let found = hk.appendix().zip(0..).find(|(_, at)| *at == index);
    match found {
        Some((record, _)) => record.map_err(|e| Error::format(file, None, e)),
        None => Err(Error::Invalid(format!(
            "{}: there is no appendix record {index}: there are {}, counted from 0",
            file.display(),
            hk.appendix().count()
        ))),
    }
}

fn append(args: &AppendArgs) -> Result<()> {
    let mut editor = edit::open(&args.file, &args.force)?;
    let mut data: Box<dyn Read> = match args.payload.as_deref() {
        None => Box::new(io::empty()),
        Some(path) if path == Path::new("-") => Box::new(io::stdin().lock()),
        Some(path) => Box::new(File::open(path).map_err(|e| Error::io("read", path, e))?),
    };
    // One of the names, as the parser has seen.
    let kind = RecordType::from_name(&args.kind).unwrap_or(RecordType(0));
    let record = NewRecord {
        target: &args.target,
        generation: args.generation,
        metrics: [args.loss, args.accuracy, args.pass_rate, args.custom],
        ..NewRecord::new(kind, &args.name)
    };
    let done = edit::with_progress(|progress| editor.append(&record, &mut data, progress))?;
    let bytes = text::count(done.data_size, "byte");
    output::to_stdout(|out| {
        writeln!(out, "record {}, generation {}: {bytes}", done.index, done.generation)
    })
}

fn extract(file: &Path, index: u32, to: &Path) -> Result<()> {
    let model = ModelFile::open(file)?;
    let hk = model.hk();
    let record = find(file, &hk, index)?;
    record.check_crc().map_err(|e| Error::format(file, None, e))?;
    if to == Path::new("-") {
        return output::to_stdout(|out| out.write_all(record.data));
    }
    output::to_file(to, |out| out.write_all(record.data))
}

fn rollback(file: &Path, generation: u32, force: &Force) -> Result<()> {
    let mut editor = edit::open(file, force)?;
    let done = edit::with_progress(|progress| editor.rollback(generation, progress))?;
    let (kept, cut) = (text::count(done.kept as u64, "record"), text::count(done.cut, "byte"));
    output::to_stdout(|out| writeln!(out, "{kept} kept, {cut} cut off"))
}

fn verify(file: &Path) -> Result<ExitCode> {
    let model = ModelFile::open(file)?;
    let hk = model.hk();
    let checked: Vec<Result<Record<'_>, hk_core::Error>> = Lineage::new(hk.appendix()).collect();
    let failed = checked.iter().filter(|record| record.is_err()).count();
    output::to_stdout(|out| {
        for (record, index) in checked.iter().zip(0..) {
            match record {
                Ok(record) => {
                    writeln!(out, "record {index}: {} is whole", text::clean(record.name))?
                }
                Err(error) => writeln!(out, "record {index}: {error}")?,
            }
        }
        let (all, bad) = (text::count(checked.len() as u64, "record"), failed);
        writeln!(out, "{}: {all}, {bad} at fault", text::clean(&file.display().to_string()))
    })?;
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
