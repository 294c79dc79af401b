//! What was measured, for people and for scripts.

use std::io::{self, Write};

use hk_std::bench::{LARGE, Measurement, Op, PROMPT};
use hk_std::hk_core::StorageType;
use serde_json::json;

use super::Column;

/// Columns that fit beside each other; more are split by backend.
const WIDEST: usize = 6;
/// Characters of a column: two numbers.
const WIDTH: usize = 16;

/// Writes one array of objects.
pub fn write_json(out: &mut dyn Write, measured: &[Measurement]) -> io::Result<()> {
    let rows: Vec<_> = measured
        .iter()
        .map(|m| {
            json!({
                "op": m.op.name(),
                "type": m.storage.name(),
                "backend": m.backend,
                "threads": m.threads,
                "weights": m.weights,
                "gweights_per_s": rounded(m.gweights_per_s()),
                "memset_ratio": rounded(m.memset_ratio()),
            })
        })
        .collect();
    writeln!(out, "{:#}", serde_json::Value::from(rows))
}

/// Four digits after the point: more are noise.
fn rounded(number: f64) -> f64 {
    (number * 1e4).round() / 1e4
}

/// Writes a row a type and a column an operation, size and backend: one table, or one a
/// backend where there are many columns.
pub fn write_tables(
    out: &mut dyn Write,
    types: &[StorageType],
    columns: &[Column],
    measured: &[Measurement],
) -> io::Result<()> {
    let mut names: Vec<&str> = Vec::new();
    for column in columns {
        if !names.contains(&column.backend.name()) {
            names.push(column.backend.name());
        }
    }
    if columns.len() <= WIDEST {
        write_table(out, types, columns, measured)?;
    } else {
        for name in names {
            let of_it: Vec<Column> =
                columns.iter().copied().filter(|c| c.backend.name() == name).collect();
            write_table(out, types, &of_it, measured)?;
            writeln!(out)?;
        }
    }
    let threads = measured.first().map_or(1, |m| m.threads);
    let plural = if threads == 1 { "" } else { "s" };
    writeln!(
        out,
        "{threads} thread{plural}. G/s: 1e9 weights a second; ratio: to memset of as many f32."
    )?;
    if columns.iter().any(|column| column.op == Op::Prompt) {
        writeln!(out, "prompt: multiply-adds a second, each weight {PROMPT} times.")?;
    }
    Ok(())
}

fn write_table(
    out: &mut dyn Write,
    types: &[StorageType],
    columns: &[Column],
    measured: &[Measurement],
) -> io::Result<()> {
    let of = |column: &Column, m: &&Measurement| {
        (m.op, m.weights, m.backend) == (column.op, column.weights, column.backend.name())
    };
    let mut lines = vec![
        ("".to_owned(), columns.iter().map(|c| centred(c.backend.name())).collect()),
        ("".to_owned(), columns.iter().map(|c| centred(&what(c))).collect()),
        ("type".to_owned(), columns.iter().map(|_| pair("G/s", "ratio")).collect::<Vec<_>>()),
    ];
    for &storage in types {
        let cells = columns.iter().map(|column| {
            let found = measured.iter().find(|m| m.storage == storage && of(column, m));
            found.map_or(pair("-", "-"), |m| numbers(m.gweights_per_s(), m.memset_ratio()))
        });
        lines.push((storage.to_string(), cells.collect()));
    }
    let memset = columns.iter().map(|column| {
        let all = measured.iter().filter(|m| of(column, m));
        numbers(all.map(Measurement::memset_gf32_per_s).fold(0.0, f64::max), 1.0)
    });
    lines.push(("memset".to_owned(), memset.collect()));
    for (name, cells) in lines {
        let line = format!("  {name:<9}{}", cells.concat());
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

/// Operation and size of a column.
fn what(column: &Column) -> String {
    let size = if column.weights == LARGE { "large" } else { "small" };
    format!("{} {size}", column.op)
}

fn centred(text: &str) -> String {
    // In the middle of what stands below it.
    format!("  {text:^width$}", width = WIDTH - 2)
}

fn pair(first: &str, second: &str) -> String {
    format!("{first:>8}{second:>width$}", width = WIDTH - 8)
}

fn numbers(gigas: f64, ratio: f64) -> String {
    pair(&short(gigas), &format!("{ratio:.3}"))
}

/// Three digits or so.
fn short(number: f64) -> String {
    match number {
        n if n < 10.0 => format!("{n:.2}"),
        n if n < 100.0 => format!("{n:.1}"),
        n => format!("{n:.0}"),
    }
}
