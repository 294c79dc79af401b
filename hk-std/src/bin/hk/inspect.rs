//! `hk inspect`.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use hk_std::hk_core::{Flags, Header, Hk, Span, SparsityType, StorageType, Tensor, TileLayout};
use hk_std::{ModelFile, Result};
use serde_json::{Value as Json, json};

use crate::output;
use crate::table::{self, Side};
use crate::text;
use crate::values;
use crate::{appendix, metadata};

const HELP: &str = "\
Examples:
  hk inspect model.hk
  hk inspect model.hk --json | jq '.tensors[] | select(.type == \"q4_k\") | .name'

The JSON is an object of three: \"header\" (fields named as in the specification), \"metadata\"
(key to {type, value}) and \"tensors\" (an array; data, scales and residual are {offset, size},
size 0 for none). Metadata values come whole: packed arrays as arrays (a string in one that is
not UTF-8 as {\"hex\": ...}), JSON as itself (as a string if it does not parse), other bytes and
values of unknown types as hexadecimal digits, NaN and infinities as strings. Of two equal keys
the first is given.";

/// Show a file's header, metadata and tensors
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    /// The HK file to look into
    file: PathBuf,
    /// Give everything as one JSON object, metadata values in full
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    let model = ModelFile::open(&args.file)?;
    let hk = model.hk();
    output::to_stdout(|out| {
        if args.json {
            write_json(out, &hk)
        } else {
            writeln!(out, "{}", text::clean(&args.file.display().to_string()))?;
            write_text(out, &hk)
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

fn write_text(out: &mut dyn Write, hk: &Hk<'_>) -> io::Result<()> {
    write_header(out, hk)?;
    if !hk.metadata().is_empty() {
        writeln!(out, "\nMetadata")?;
        metadata::write_table(out, hk)?;
    }
    if hk.tensors().len() > 0 {
        writeln!(out, "\nTensors")?;
        write_tensors(out, hk)?;
        writeln!(out, "\nTotals")?;
        write_totals(out, hk)?;
    }
    write_appendix(out, hk)
}

fn write_header(out: &mut dyn Write, hk: &Hk<'_>) -> io::Result<()> {
    let header = hk.header();
    let section = |span: Span| format!("{} at {}", text::count(span.size, "byte"), span.offset);
    let file = hk.bytes().len() as u64;
    let mut rows = vec![
        ("version", format!("{}.{}", header.version_major, header.version_minor)),
        ("file", text::count(file, "byte")),
        ("flags", flags_line(header.flags)),
        ("alignment", text::count(u64::from(header.payload_alignment()), "byte")),
    ];
    if header.shards() > 1 || header.flags.contains(Flags::IS_SHARDED) {
        let shard = format!("index {} of {}", header.split_index, header.shards());
        rows.push(("shard", shard));
    }
    let pairs = text::count(header.metadata_kv_count, "pair");
    rows.push(("metadata", format!("{pairs}, {}", section(header.metadata))));
    let tensors = text::count(header.tensor_count, "tensor");
    rows.push(("contents", format!("{tensors}, {}", section(header.toc))));
    rows.push(("payloads", format!("from {}", header.tensor_data_offset)));
    if header.appendix_offset != 0 {
        rows.push(("appendix", format!("from {}", header.appendix_offset)));
    }
    for (name, value) in rows {
        writeln!(out, "  {name:<10} {value}")?;
    }
    Ok(())
}

/// Names of the flags, and the bits that have none.
fn flags_line(flags: Flags) -> String {
    let mut names: Vec<String> = flags.names().map(str::to_owned).collect();
    if flags.unknown() != 0 {
        names.push(format!("unknown {:#x}", flags.unknown()));
    }
    names.join(" ")
}

fn write_tensors(out: &mut dyn Write, hk: &Hk<'_>) -> io::Result<()> {
    let columns = [
        ("name", Side::Left),
        ("type", Side::Left),
        ("shape", Side::Left),
        ("bytes", Side::Right),
        ("offset", Side::Right),
        ("bits/weight", Side::Right),
        ("", Side::Left),
    ];
    let row = |tensor: Tensor<'_>| {
        let bits = text::bits_per_weight(all_bytes(&tensor), u128::from(tensor.shape.count()));
        [
            text::clean(tensor.name),
            tensor.storage.to_string(),
            shape(&tensor.shape),
            tensor.data.size.to_string(),
            tensor.data.offset.to_string(),
            bits,
            remarks(&tensor),
        ]
    };
    table::write(out, columns, hk.tensors().map(row))
}

/// `4096 x 512`, or `scalar`.
fn shape(dims: &[u64]) -> String {
    if dims.is_empty() {
        return "scalar".to_owned();
    }
    dims.iter().map(u64::to_string).collect::<Vec<_>>().join(" x ")
}

/// Bytes that decoding a tensor reads: its payload, scales and residual.
fn all_bytes(tensor: &Tensor<'_>) -> u128 {
    tensor.parts().map(|(_, span)| u128::from(span.size)).sum()
}

/// What most tensors do not have: a layout, sparsity, scales, a residual.
fn remarks(tensor: &Tensor<'_>) -> String {
    let mut remarks = Vec::new();
    if tensor.tile != TileLayout::ROW_MAJOR {
        remarks.push(tensor.tile.to_string());
    }
    if tensor.sparsity != SparsityType::NONE {
        remarks.push(tensor.sparsity.to_string());
    }
    if tensor.storage.is_dual_mode() || tensor.scales.size > 0 {
        remarks.push(format!("blocks of {}", tensor.block_size));
    }
    for (what, span) in [("scales", tensor.scales), ("residual", tensor.residual)] {
        if span.size > 0 {
            remarks.push(format!("{what} {} at {}", span.size, span.offset));
        }
    }
    remarks.join(", ")
}

/// What the tensors of one type add up to.
#[derive(Clone, Copy, Default)]
struct Total {
    tensors: u64,
    weights: u128,
    bytes: u128,
}

impl Total {
    fn add(&mut self, tensor: &Tensor<'_>) {
        self.tensors += 1;
        self.weights += u128::from(tensor.shape.count());
        // A reference stores nothing of its own.
        if !tensor.storage.is_reference() {
            self.bytes += all_bytes(tensor);
        }
    }
}

fn write_totals(out: &mut dyn Write, hk: &Hk<'_>) -> io::Result<()> {
    let mut by_type: BTreeMap<StorageType, Total> = BTreeMap::new();
    let mut all = Total::default();
    for tensor in hk.tensors() {
        by_type.entry(tensor.storage).or_default().add(&tensor);
        all.add(&tensor);
    }
    let mut rows: Vec<(String, Total)> =
        by_type.into_iter().map(|(storage, total)| (storage.to_string(), total)).collect();
    rows.sort_by_key(|(_, total)| std::cmp::Reverse(total.bytes));
    rows.push(("total".to_owned(), all));
    let columns = [
        ("type", Side::Left),
        ("tensors", Side::Right),
        ("weights", Side::Right),
        ("bytes", Side::Right),
        ("size", Side::Right),
        ("bits/weight", Side::Right),
    ];
    let row = |(name, total): &(String, Total)| {
        [
            name.clone(),
            total.tensors.to_string(),
            total.weights.to_string(),
            total.bytes.to_string(),
            text::size(total.bytes),
            text::bits_per_weight(total.bytes, total.weights),
        ]
    };
    table::write(out, columns, rows.iter().map(row))
}

fn write_appendix(out: &mut dyn Write, hk: &Hk<'_>) -> io::Result<()> {
    if hk.header().appendix_offset == 0 {
        return Ok(());
    }
    writeln!(out, "\nAppendix")?;
    appendix::write_table(out, hk)
}

/// The whole file as JSON, an entry a line, written as it is read.
fn write_json(out: &mut dyn Write, hk: &Hk<'_>) -> io::Result<()> {
    out.write_all(b"{\n\"header\": ")?;
    write_object(out, &header_json(hk.header()))?;
    out.write_all(b",\n\"metadata\": ")?;
    metadata::write_json(out, hk)?;
    out.write_all(b",\n\"tensors\": [")?;
    for tensor in hk.tensors() {
        out.write_all(if tensor.index == 0 { b"\n" } else { b",\n" })?;
        write_object(out, &tensor_json(&tensor))?;
    }
    out.write_all(b"\n]\n}\n")
}

fn write_object(out: &mut dyn Write, object: &Json) -> io::Result<()> {
    serde_json::to_writer(out, object).map_err(io::Error::from)
}

fn header_json(header: &Header) -> Json {
    json!({
        "version_major": header.version_major,
        "version_minor": header.version_minor,
        "flags": header.flags.0,
        "flag_names": header.flags.names().collect::<Vec<_>>(),
        "unknown_flags": header.flags.unknown(),
        "alignment": header.payload_alignment(),
        "split_index": header.split_index,
        "split_count": header.shards(),
        "tensor_count": header.tensor_count,
        "metadata_kv_count": header.metadata_kv_count,
        "metadata_offset": header.metadata.offset,
        "metadata_size": header.metadata.size,
        "tensor_toc_offset": header.toc.offset,
        "tensor_toc_size": header.toc.size,
        "tensor_data_offset": header.tensor_data_offset,
        "appendix_offset": header.appendix_offset,
        "checksum": header.checksum,
    })
}

fn tensor_json(tensor: &Tensor<'_>) -> Json {
    let span = |span: Span| json!({"offset": span.offset, "size": span.size});
    let ratio = tensor.sparsity_ratio;
    let ratio =
        if ratio.is_finite() { json!(ratio) } else { json!(values::non_finite(f64::from(ratio))) };
    json!({
        "name": tensor.name,
        "type": tensor.storage.to_string(),
        "shape": &tensor.shape[..],
        "tile_layout": tensor.tile.to_string(),
        "sparsity": tensor.sparsity.to_string(),
        "data": span(tensor.data),
        "scales": span(tensor.scales),
        "residual": span(tensor.residual),
        "block_size": tensor.block_size,
        "sparsity_ratio": ratio,
    })
}
