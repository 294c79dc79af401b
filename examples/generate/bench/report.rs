//! What was measured, for people and for scripts.

use std::io::{self, Write};

use hk_examples::Part;
use serde_json::{Map, Value, json};

use super::{Measured, Run, Subject};

/// Characters of a column of numbers.
const WIDTH: usize = 11;

impl Measured<'_> {
    /// Writes one object.
    pub fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut parts = Map::new();
        for (name, run) in [("prompt", &self.prompt), ("decode", &self.decode)] {
            for part in self.parts() {
                let seconds = run.part(part).unwrap_or_default();
                parts.insert(format!("{name}_{part}"), Value::from(rounded(seconds, 1e9)));
            }
        }
        let Subject { model, backend, threads, .. } = &self.subject;
        let object = json!({
            "model": model.to_string_lossy(),
            "backend": backend,
            "threads": threads,
            "runs": self.runs,
            "prompt_tokens": self.prompt.tokens,
            "decode_tokens": self.decode.tokens,
            "prompt_tokens_per_s": rounded(self.prompt.tokens_per_s(), 1e3),
            "decode_tokens_per_s": rounded(self.decode.tokens_per_s(), 1e3),
            "private_bytes": self.private_bytes,
            "parts": parts,
        });
        writeln!(out, "{object:#}")
    }

    /// Writes a row a part.
    pub fn write_table(&self, out: &mut dyn Write) -> io::Result<()> {
        let Measured { subject, runs, prompt, decode, .. } = self;
        let Subject { model, backend, threads, .. } = subject;
        let name = model.file_name().unwrap_or(model.as_os_str()).display();
        let (threads, runs) = (count(*threads, "thread"), count(*runs, "run"));
        writeln!(out, "{name}: {backend}, {threads}, median of {runs}\n")?;
        let both = [prompt, decode];
        row(out, "", ["prompt", "decode"].map(|name| [name.to_owned(), String::new()]))?;
        row(out, "tokens", both.map(|run| [run.tokens.to_string(), String::new()]))?;
        let rate = |run: &Run| [format!("{:.1}", run.tokens_per_s()), String::new()];
        row(out, "tokens a second", both.map(rate))?;
        writeln!(out)?;
        row(out, "", both.map(|_| ["us a token", "share"].map(str::to_owned)))?;
        for part in self.parts() {
            row(out, &part.to_string().replacen('_', " ", 1), both.map(|run| cells(run, part)))?;
        }
        if let Some(bytes) = self.private_bytes {
            writeln!(out)?;
            writeln!(out, "memory beside the file: {:.1} MB", bytes as f64 / 1e6)?;
        }
        if cfg!(debug_assertions) {
            writeln!(out, "This is a debug build, where figures mean little: use --release.")?;
        }
        Ok(())
    }

    /// Every part of either run, in order.
    fn parts(&self) -> Vec<Part> {
        let times = self.prompt.times.iter().chain(&self.decode.times);
        let mut parts: Vec<Part> = times.map(|(part, _)| *part).collect();
        parts.sort_unstable();
        parts.dedup();
        parts
    }
}

/// "1 thread", "2 threads"
fn count(number: usize, noun: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{ending}")
}

/// Digits beyond which there is only noise are left out.
fn rounded(number: f64, digits: f64) -> f64 {
    (number * digits).round() / digits
}

/// Time of a part for a token, and its share of all.
fn cells(run: &Run, part: Part) -> [String; 2] {
    let Some(seconds) = run.part(part) else { return ["-", "-"].map(str::to_owned) };
    let micros = seconds * 1e6 / run.tokens as f64;
    [format!("{micros:.1}"), format!("{:.1} %", seconds * 100.0 / run.seconds())]
}

/// Writes two cells for the prompt and two for the tokens after it.
fn row(out: &mut dyn Write, name: &str, cells: [[String; 2]; 2]) -> io::Result<()> {
    let cells = cells.as_flattened().iter().map(|cell| format!(" {cell:>WIDTH$}"));
    let cells: String = cells.collect();
    writeln!(out, "{}", format!("  {name:<18}{cells}").trim_end())
}
