//! `hk metadata`.

use std::collections::HashSet;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Subcommand;
use clap::builder::PossibleValuesParser;
use hk_std::edit::{MetadataChange, MetadataPlace, infer_value};
use hk_std::hk_core::format::MetadataEntry;
use hk_std::hk_core::{Array, Hk, Value};
use hk_std::{Error, ModelFile, Result};

use crate::edit::{self, Force};
use crate::output;
use crate::table::{self, Side};
use crate::text;
use crate::values;

const HELP: &str = "\
Examples:
  hk metadata list model.hk
  hk metadata get model.hk tokenizer.chat_template > template.jinja
  hk metadata set model.hk general.name \"My model\"
  hk metadata set model.hk tokenizer.chat_template --from template.jinja --type string
  hk metadata set model.hk general.version 1.10 --type string
  hk metadata unset model.hk general.url general.license

The file is changed where it stands, in milliseconds whatever its size (a sealed one is hashed
again): payloads are neither moved nor written. If the machine stops meanwhile, the file is the
old one or the new one, at the latest after the next edit or `hk repair`.";

const SET_HELP: &str = "\
Without --type a value that begins with { or [ and is JSON is json; true and false are bool; then
come int64 and float64, and what is none of these is a string. bytes are hexadecimal digits.";

/// Look at metadata, and change them where they stand
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// All keys with their values, long ones shortened
    List {
        /// The HK file
        file: PathBuf,
        /// Give them whole, as one JSON object of keys
        #[arg(long)]
        json: bool,
    },
    /// One value alone: strings as they are, bytes as hexadecimal digits, arrays as JSON
    Get {
        /// The HK file
        file: PathBuf,
        /// The key
        key: String,
    },
    /// Give a key a value
    #[command(after_help = SET_HELP)]
    Set(SetArgs),
    /// Take keys out, all of them or none
    Unset {
        /// The HK file
        file: PathBuf,
        /// The keys
        #[arg(required = true, value_name = "KEY")]
        keys: Vec<String>,
        #[command(flatten)]
        force: Force,
    },
}

#[derive(clap::Args)]
struct SetArgs {
    /// The HK file
    file: PathBuf,
    /// The key
    key: String,
    /// Its value
    #[arg(required_unless_present = "from", conflicts_with = "from", allow_hyphen_values = true)]
    value: Option<String>,
    /// Take the value from this file, all of it; - is standard input
    #[arg(long, value_name = "PATH")]
    from: Option<PathBuf>,
    /// Of this type; without it, of the type that the value looks like
    #[arg(long = "type", value_name = "T",
        value_parser = PossibleValuesParser::new(["string", "int64", "float64", "bool", "json", "bytes"]))]
    kind: Option<String>,
    #[command(flatten)]
    force: Force,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    match &args.command {
        Command::List { file, json } => list(file, *json)?,
        Command::Get { file, key } => get(file, key)?,
        Command::Set(args) => set(args)?,
        Command::Unset { file, keys, force } => {
            let changes: Vec<_> = keys.iter().map(|key| MetadataChange::Unset { key }).collect();
            change(file, &changes, force)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn list(file: &Path, json: bool) -> Result<()> {
    let model = ModelFile::open(file)?;
    output::to_stdout(|out| {
        if json {
            write_json(out, &model.hk())?;
            out.write_all(b"\n")
        } else {
            write_table(out, &model.hk())
        }
    })
}

/// Characters of a key that a line shows.
const KEY: usize = 48;

/// The pairs, a line each.
pub fn write_table(out: &mut dyn Write, hk: &Hk<'_>) -> io::Result<()> {
    let columns = [("key", Side::Left), ("type", Side::Left), ("value", Side::Left)];
    let row = |entry: MetadataEntry<'_>| {
        let key = text::shorten(entry.key, KEY);
        [key, entry.value.tag().to_string(), values::line(&entry.value)]
    };
    table::write(out, columns, hk.metadata().iter().map(row))
}

/// The pairs as a JSON object, whole; of equal keys the first, which is the one that counts.
pub fn write_json(out: &mut dyn Write, hk: &Hk<'_>) -> io::Result<()> {
    out.write_all(b"{")?;
    let mut seen = HashSet::new();
    for entry in hk.metadata() {
        if !seen.insert(entry.key) {
            continue;
        }
        out.write_all(if seen.len() == 1 { b"\n" } else { b",\n" })?;
        values::json_string(out, entry.key)?;
        write!(out, ": {{\"type\": \"{}\", \"value\": ", entry.value.tag())?;
        values::json(out, &entry.value)?;
        out.write_all(b"}")?;
    }
    out.write_all(b"\n}")
}

fn get(file: &Path, key: &str) -> Result<()> {
    let model = ModelFile::open(file)?;
    let Some(value) = model.metadata().get(key) else {
        let file = file.display();
        return Err(Error::Invalid(format!(
            "{file}: there is no metadata key {key:?}; `hk metadata list {file}` shows what there is"
        )));
    };
    output::to_stdout(|out| {
        write_value(out, &value)?;
        out.write_all(b"\n")
    })
}

/// A value alone.
fn write_value(out: &mut dyn Write, value: &Value<'_>) -> io::Result<()> {
    match *value {
        Value::String(text) | Value::Json(text) => out.write_all(text.as_bytes()),
        Value::Float64(number) => write!(out, "{number:?}"),
        Value::Bytes(bytes) if Array::parse(bytes).is_err() => write_hex(out, bytes),
        Value::Unknown(_, bytes) => write_hex(out, bytes),
        ref value => values::json(out, value),
    }
}

fn write_hex(out: &mut dyn Write, bytes: &[u8]) -> io::Result<()> {
    bytes.chunks(4096).try_for_each(|chunk| out.write_all(text::hex(chunk).as_bytes()))
}

fn set(args: &SetArgs) -> Result<()> {
    let text = match (&args.value, &args.from) {
        (Some(value), _) => value.clone(),
        (None, Some(path)) => read_text(path)?,
        (None, None) => String::new(),
    };
    let bytes;
    let value = match args.kind.as_deref() {
        None => infer_value(&text),
        Some("bytes") => {
            bytes =
                from_hex(&text).ok_or_else(|| wrong("bytes", "hexadecimal digits, two a byte"))?;
            Value::Bytes(&bytes)
        }
        Some(kind) => typed(kind, &text)?,
    };
    change(&args.file, &[MetadataChange::Set { key: &args.key, value }], &args.force)
}

/// `text` as a value of a type that is not bytes.
fn typed<'a>(kind: &str, text: &'a str) -> Result<Value<'a>> {
    let value = match kind {
        "int64" => text.trim().parse().ok().map(Value::Int64).ok_or("an integer of 64 bits"),
        "float64" => text.trim().parse().ok().map(Value::Float64).ok_or("a number"),
        "bool" => text.trim().parse().ok().map(Value::Bool).ok_or("true or false"),
        "json" if !values::is_json(text) => Err("JSON"),
        "json" => Ok(Value::Json(text)),
        _ => Ok(Value::String(text)),
    };
    value.map_err(|what| wrong(kind, what))
}

fn wrong(kind: &str, what: &str) -> Error {
    Error::Invalid(format!("the value is not of type {kind}: give {what}"))
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = text.trim().as_bytes().as_chunks::<2>();
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let byte = |&[high, low]: &[u8; 2]| Some(digit(high)? << 4 | digit(low)?);
    rest.is_empty().then(|| pairs.iter().map(byte).collect())?
}

fn read_text(path: &Path) -> Result<String> {
    let read = || match path.to_str() {
        Some("-") => {
            let mut text = String::new();
            io::stdin().lock().read_to_string(&mut text).map(|_| text)
        }
        _ => std::fs::read_to_string(path),
    };
    read().map_err(|e| Error::io("read", path, e))
}

/// Makes changes, and says what is worth knowing of them.
fn change(file: &Path, changes: &[MetadataChange<'_>], force: &Force) -> Result<()> {
    let mut editor = edit::open(file, force)?;
    let place =
        edit::with_progress(|progress| editor.edit_metadata_with_progress(changes, progress))?;
    if place == MetadataPlace::EndOfFile {
        output::say(&format_args!(
            "note: the metadata stand at the end of {} now: in front of its payloads is no room",
            file.display()
        ));
    }
    Ok(())
}
