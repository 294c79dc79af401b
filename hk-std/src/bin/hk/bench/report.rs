//! What was measured, for people and for scripts.

use std::io::{self, Write};

use hk_std::bench::{LARGE, Measurement, Op, PROMPT};
use hk_std::hk_core::StorageType;
use serde_json::json;

use super::Column;
use crate::text;

/// Columns that fit beside each other; more are split by backend.
const WIDEST: usize = 6;
/// Characters of a column: two numbers.
const WIDTH: usize = 14;

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
    if columns.len() <= WIDEST {
        write_table(out, types, columns, measured)?;
    } else {
        let mut done: Vec<&str> = Vec::new();
        for name in columns.iter().map(|column| column.backend.name()) {
            if !done.contains(&name) {
                let is_of_it = |column: &&Column| column.backend.name() == name;
                let columns: Vec<Column> = columns.iter().filter(is_of_it).copied().collect();
                write_table(out, types, &columns, measured)?;
                done.push(name);
            }
        }
    }
    let threads = text::count(measured.first().map_or(1, |m| m.threads as u64), "thread");
    writeln!(out, "{threads}. G/s: 1e9 weights a second; ratio: to memset of as many f32.")?;
    if columns.iter().any(|column| column.op == Op::Prompt) {
        writeln!(out, "prompt: multiply-adds a second, {PROMPT} for each weight.")?;
    }
    if cfg!(debug_assertions) {
        writeln!(out, "This is a debug build, where figures mean little: build with --release.")?;
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
    let head = |text: fn(&Column) -> &str| {
        let cells = columns.iter().map(|column| format!("{:^WIDTH$}", text(column)));
        (String::new(), cells.collect::<Vec<_>>())
    };
    let mut lines = vec![
        head(|column| column.backend.name()),
        head(|column| column.op.name()),
        head(|column| if column.weights == LARGE { "large" } else { "small" }),
        ("type".to_owned(), columns.iter().map(|_| pair("G/s", "ratio")).collect()),
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
    writeln!(out)
}

fn pair(first: &str, second: &str) -> String {
    format!(" {first:>6} {second:>width$}", width = WIDTH - 8)
}

fn numbers(gigas: f64, ratio: f64) -> String {
    pair(&short(gigas, 2), &short(ratio, 3))
}

/// A number with so many digits after the point, fewer where more stand before it.
fn short(number: f64, digits: usize) -> String {
    let digits = match number {
        n if n < 9.9995 => digits,
        n if n < 99.95 => digits - 1,
        _ => 0,
    };
    format!("{number:.digits$}")
}
