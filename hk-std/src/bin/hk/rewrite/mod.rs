//! What `hk quantize`, `hk prune` and `hk pack` share: patterns of names, the run with its
//! progress bar, and the summary.

pub mod pack;
pub mod prune;
pub mod quantize;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use globset::{Glob, GlobMatcher};
use hk_std::hk_core::{SparsityType, StorageType, Tensor, TileLayout};
use hk_std::rewrite::{self, Options, Summary, Target};
use hk_std::{ModelFile, Result, Writer, backend};
use serde_json::json;

use crate::progress::Progress;
use crate::table::{self, Side};
use crate::{interrupt, output, text};

/// Files and how to report, the same for all three.
#[derive(clap::Args)]
pub struct Files {
    /// HK file to read
    #[arg(value_name = "IN.hk")]
    pub input: PathBuf,

    /// HK file to write
    #[arg(value_name = "OUT.hk")]
    output: PathBuf,

    /// Print the summary as JSON
    #[arg(long)]
    json: bool,

    /// Leave N bytes unused in front of the first tensor, for metadata to grow
    #[arg(long, value_name = "N", default_value_t = Writer::METADATA_ROOM)]
    metadata_room: u64,

    /// Replace OUT.hk if it exists
    #[arg(long)]
    force: bool,
}

/// A pattern of tensor names, in which `*` stands for anything, dots too.
pub fn glob(pattern: &str) -> std::result::Result<GlobMatcher, String> {
    match Glob::new(pattern) {
        Ok(glob) => Ok(glob.compile_matcher()),
        Err(error) => Err(error.kind().to_string()),
    }
}

/// What should be known of tensors that are not simply changed or kept: the same words once for
/// all the tensors that they are true of.
#[derive(Default)]
pub struct Notes(Vec<(String, Vec<String>)>);

impl Notes {
    /// Notes `what` of the tensor `name`.
    pub fn add(&mut self, name: &str, what: String) {
        match self.0.iter_mut().find(|(said, _)| *said == what) {
            Some((_, names)) => names.push(name.to_owned()),
            None => self.0.push((what, vec![name.to_owned()])),
        }
    }

    fn print(&self) {
        for (what, names) in &self.0 {
            let first = names.first().map(|name| text::shorten(name, 60)).unwrap_or_default();
            match names.len() {
                1 => output::say(&format_args!("note: {first} {what}")),
                2 => output::say(&format_args!("note: {first} and one more {what}")),
                n => output::say(&format_args!("note: {first} and {} more {what}", n - 1)),
            }
        }
    }
}

/// Writes the file, and tells what has become of it. `choose` may note what people should know.
///
/// # Errors
/// As [`rewrite::rewrite`].
pub fn run<'m>(
    files: &Files,
    model: &'m ModelFile,
    doing: &'static str,
    mut choose: impl FnMut(&Tensor<'m>, &mut Notes) -> Result<Option<Target>>,
) -> Result<ExitCode> {
    interrupt::catch();
    let mut notes = Notes::default();
    let mut bar = None;
    let options = Options {
        overwrite: files.force,
        metadata_room: files.metadata_room,
        ..Options::new(backend()?)
    };
    let summary = rewrite::rewrite(
        model,
        &files.output,
        options,
        |tensor| choose(tensor, &mut notes),
        |progress| {
            let bar = bar.get_or_insert_with(|| Progress::bytes(progress.total, doing));
            bar.set_of(progress.done, progress.total);
            interrupt::requested()
        },
    );
    drop(bar);
    let summary = summary?;
    for note in left_behind(&summary) {
        output::say(&format_args!("note: {note}"));
    }
    if files.json {
        // It holds the notes on tensors too.
        print_json(files, &summary, &notes)?;
        return Ok(ExitCode::SUCCESS);
    }
    notes.print();
    if summary.changed == 0 {
        output::say(&"note: no tensor was changed: nothing that can be matches");
    }
    print(&files.output, &summary)?;
    Ok(ExitCode::SUCCESS)
}

/// What of the old file the new one does not have.
fn left_behind(summary: &Summary) -> Vec<String> {
    let mut notes = Vec::new();
    if summary.records > 0 {
        notes.push(format!(
            "{} of the appendix left behind: they belong to the old weights",
            text::count(summary.records, "record")
        ));
    }
    if summary.was_sealed {
        notes.push("the new file is not sealed, as the old one was".to_owned());
    }
    notes
}

/// How tensors are stored, in a word.
fn kind(storage: StorageType, sparsity: SparsityType, tile: TileLayout) -> String {
    let mut kind = storage.to_string();
    if sparsity != SparsityType::NONE {
        kind += &format!(" {sparsity}");
    }
    if tile != TileLayout::ROW_MAJOR {
        kind += &format!(" {tile}");
    }
    kind
}

fn print(path: &Path, summary: &Summary) -> Result<()> {
    output::to_stdout(|out| {
        writeln!(
            out,
            "{}: {}, payloads {} -> {}, {} bits a weight",
            path.display(),
            text::size(summary.file_len.into()),
            text::size(summary.bytes_before.into()),
            text::size(summary.bytes_after.into()),
            text::bits_per_weight(summary.bytes_after.into(), summary.weights.into()),
        )?;
        let columns = [
            ("type", Side::Left),
            ("tensors", Side::Right),
            ("weights", Side::Right),
            ("bytes", Side::Right),
            ("bits/weight", Side::Right),
            ("RMS error", Side::Right),
        ];
        let rows = summary.totals.iter().map(|((storage, sparsity, tile), total)| {
            let error = match total.encoded {
                0 => "copied".to_owned(),
                _ => format!("{:.6}", total.rms_error()),
            };
            [
                kind(storage, sparsity, tile),
                total.tensors.to_string(),
                total.weights.to_string(),
                total.bytes.to_string(),
                text::bits_per_weight(total.bytes.into(), total.weights.into()),
                error,
            ]
        });
        let rows: Vec<_> = rows.collect();
        table::write(out, columns, rows.into_iter())
    })
}

fn print_json(files: &Files, summary: &Summary, notes: &Notes) -> Result<()> {
    let bits = |bytes: u64, weights: u64| match weights {
        0 => None,
        _ => Some(bytes as f64 * 8.0 / weights as f64),
    };
    let types = summary.totals.iter().map(|((storage, sparsity, tile), total)| {
        json!({
            "type": storage.to_string(),
            "sparsity": sparsity.to_string(),
            "tile": tile.to_string(),
            "tensors": total.tensors,
            "weights": total.weights,
            "bytes": total.bytes,
            "bits_per_weight": bits(total.bytes, total.weights),
            "encoded_weights": total.encoded,
            "rms_error": total.rms_error(),
        })
    });
    let notes = notes.0.iter().map(|(what, names)| json!({ "note": what, "tensors": names }));
    let value = json!({
        "input": files.input.display().to_string(),
        "output": files.output.display().to_string(),
        "file_bytes": summary.file_len,
        "bytes_before": summary.bytes_before,
        "bytes_after": summary.bytes_after,
        "bits_per_weight": bits(summary.bytes_after, summary.weights),
        "tensors_changed": summary.changed,
        "records_left_behind": summary.records,
        "was_sealed": summary.was_sealed,
        "types": types.collect::<Vec<_>>(),
        "notes": notes.collect::<Vec<_>>(),
    });
    output::to_stdout(|out| writeln!(out, "{value:#}"))
}

/// Whether a tensor holds real numbers, not integers, flags or nothing.
pub fn is_real(storage: StorageType) -> bool {
    !matches!(
        storage,
        StorageType::INT8
            | StorageType::INT16
            | StorageType::INT32
            | StorageType::INT64
            | StorageType::UINT8
            | StorageType::UINT16
            | StorageType::UINT32
            | StorageType::UINT64
            | StorageType::BOOL
    ) && !storage.is_reference()
}
