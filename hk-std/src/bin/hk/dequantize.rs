//! `hk dequantize`.

use std::io::{self, Write};
use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use hk_std::hk_core::{Backend, Residual, Tensor};
use hk_std::{Error, ModelFile, Result, par_dequantize_range};

use crate::interrupt;
use crate::output;
use crate::progress::Progress;

/// Weights decoded at a time: 4 MiB of f32, whatever the tensor's size.
const CHUNK: usize = 1024 * 1024;

const HELP: &str = "\
Examples:
  hk dequantize model.hk token_embd.weight -o embedding.f32
  hk dequantize model.hk output_norm.weight --range 0..8 | od -t f4
  hk dequantize model.hk output.weight --with-residual -o output.f32
  hk dequantize model.hk output.weight --raw -o output.blocks

Weights come in row-major order, 4 bytes each, IEEE-754, little-endian, whatever order they are
stored in; zeros that a sparse tensor leaves out are there. OUT is written whole or left as it was.";

/// Write a tensor's weights as f32
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    /// The HK file
    file: PathBuf,
    /// The tensor's name; `hk inspect` lists them
    tensor: String,
    /// File to write, in place of what is there; standard output without it, or for -
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
    /// Only elements A up to, not including, B; either may be left out
    #[arg(long, value_name = "A..B", value_parser = parse_range)]
    range: Option<Span>,
    /// Add the residual stream of a dual-mode tensor (dq4, dq8, dqt); the base values alone
    /// without it
    #[arg(long)]
    with_residual: bool,
    /// The stored bytes of the whole payload as they are, not decoded
    #[arg(long, conflicts_with_all = ["range", "with_residual"])]
    raw: bool,
}

/// A range of elements as it was asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Span {
    start: u64,
    end: Option<u64>,
}

impl Span {
    const ALL: Span = Span { start: 0, end: None };

    /// The range in a tensor of `count` elements.
    fn of(self, count: u64) -> std::result::Result<Range<u64>, String> {
        let end = self.end.unwrap_or(count);
        if end > count || self.start > count {
            let last = self.end.map(|end| end.to_string()).unwrap_or_default();
            return Err(format!(
                "elements {}..{last} asked of a tensor of {count}: ranges go from 0 to {count}",
                self.start
            ));
        }
        Ok(self.start..end)
    }
}

fn parse_range(text: &str) -> std::result::Result<Span, String> {
    const FORM: &str = "write A..B with two element numbers, such as 0..4096";
    let (start, end) = text.split_once("..").ok_or(FORM)?;
    let number = |text: &str| match text {
        "" => Ok(None),
        digits => {
            digits.parse().map(Some).map_err(|_| format!("{digits:?} is no element number; {FORM}"))
        }
    };
    let span = Span { start: number(start)?.unwrap_or(0), end: number(end)? };
    match span.end {
        Some(end) if end < span.start => Err(format!("it ends before it starts; {FORM}")),
        _ => Ok(span),
    }
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    let file = args.output.as_deref().filter(|path| *path != Path::new("-"));
    if file.is_none() && output::stdout_is_terminal() {
        output::say(&"binary data do not go to a terminal: name a file with -o, or use a pipe");
        return Ok(ExitCode::from(2));
    }
    let model = ModelFile::open(&args.file)?;
    let tensor = model.tensor(&args.tensor).ok_or_else(|| unknown(&model, &args.tensor))?;
    let job = Job::new(args, &model, &tensor)?;
    match file {
        None => output::to_stdout(|out| job.write(out)),
        Some(path) if is_same_file(path, &args.file) => Err(Error::Invalid(format!(
            "{} is the model itself: write the weights to another file",
            path.display()
        ))),
        Some(path) => {
            interrupt::catch();
            output::to_file(path, |out| job.write(out))
        }
    }?;
    Ok(ExitCode::SUCCESS)
}

/// What to write of a tensor, checked as far as can be before the first byte goes out.
struct Job<'a> {
    tensor: Tensor<'a>,
    what: What,
    residual: Residual,
    backend: &'static dyn Backend,
    path: &'a Path,
    name: &'a str,
}

enum What {
    Raw,
    Elements(Range<u64>),
}

impl<'a> Job<'a> {
    fn new(args: &'a Args, model: &'a ModelFile, tensor: &Tensor<'a>) -> Result<Self> {
        let what = if args.raw {
            What::Raw
        } else {
            let range = args.range.unwrap_or(Span::ALL).of(tensor.shape.count());
            What::Elements(range.map_err(|text| {
                let (path, name) = (args.file.display(), &args.tensor);
                Error::Invalid(format!("{path}: tensor {name:?}: {text}"))
            })?)
        };
        let (path, name) = (args.file.as_path(), args.tensor.as_str());
        let bad = |error| Error::format(path, Some(name), error);
        // Resolved once: a reference would be looked up again for every chunk.
        let tensor = if args.raw { *tensor } else { model.resolve(tensor)? };
        if args.with_residual && tensor.residual().is_empty() {
            output::say(&format_args!("{name:?} has no residual: these are its weights as stored"));
        }
        let backend = hk_std::backend()?;
        let residual = if args.with_residual { Residual::Add } else { Residual::Skip };
        let job = Job { tensor, what, residual, backend, path, name };
        if let What::Elements(range) = &job.what {
            // A tensor that cannot be decoded says so here, and not after a temporary file
            // or half a stream.
            job.decode(range.start..range.start, &mut []).map_err(bad)?;
        }
        Ok(job)
    }

    fn decode(
        &self,
        range: Range<u64>,
        out: &mut [f32],
    ) -> std::result::Result<(), hk_std::hk_core::Error> {
        par_dequantize_range(&self.tensor, self.backend, range, out, self.residual)
    }

    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        match &self.what {
            What::Raw => self.write_raw(out),
            What::Elements(range) => self.write_elements(out, range),
        }
    }

    fn write_raw(&self, out: &mut dyn Write) -> io::Result<()> {
        let data = self.tensor.data();
        let mut progress = Progress::bytes(data.len() as u64, "writing");
        for chunk in data.chunks(CHUNK) {
            go_on()?;
            out.write_all(chunk)?;
            progress.advance(chunk.len() as u64);
        }
        Ok(())
    }

    fn write_elements(&self, out: &mut dyn Write, range: &Range<u64>) -> io::Result<()> {
        let count = range.end - range.start;
        let len = usize::try_from(count).map_or(CHUNK, |count| count.min(CHUNK));
        let (mut weights, mut bytes) = (vec![0.0f32; len], vec![0u8; len * 4]);
        let mut progress = Progress::bytes(count.saturating_mul(4), "decoding");
        let mut start = range.start;
        while start < range.end {
            go_on()?;
            let end = range.end.min(start.saturating_add(CHUNK as u64));
            let len = (end - start) as usize; // at most CHUNK
            let weights = &mut weights[..len];
            self.decode(start..end, weights).map_err(|error| {
                io::Error::other(Error::format(self.path, Some(self.name), error))
            })?;
            let (words, _) = bytes.as_chunks_mut::<4>();
            for (word, weight) in words.iter_mut().zip(&*weights) {
                *word = weight.to_le_bytes();
            }
            out.write_all(&bytes[..len * 4])?;
            progress.advance(len as u64 * 4);
            start = end;
        }
        Ok(())
    }
}

/// An error once the user has asked for a stop.
fn go_on() -> io::Result<()> {
    match interrupt::requested() {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(io::Error::other(Error::Stopped)),
    }
}

/// The error for a tensor that is not there, with the names most like it.
fn unknown(model: &ModelFile, name: &str) -> Error {
    let mut near: Vec<(f64, &str)> = Vec::new();
    let hk = model.hk();
    for tensor in hk.tensors() {
        let likeness = likeness(name, tensor.name);
        if likeness > 0.6 {
            near.push((likeness, tensor.name));
        }
    }
    near.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    let names: Vec<String> = near.iter().take(3).map(|(_, name)| format!("{name:?}")).collect();
    let advice = if names.is_empty() {
        format!("`hk inspect {}` lists its tensors", model.path().display())
    } else {
        format!("did you mean {}?", names.join(" or "))
    };
    Error::Invalid(format!("{}: no tensor called {name:?}; {advice}", model.path().display()))
}

/// How much a tensor's name is like what was asked for, 0 to 1.
fn likeness(asked: &str, name: &str) -> f64 {
    let (asked, name) = (asked.to_lowercase(), name.to_lowercase());
    if !asked.is_empty() && name.contains(&asked) {
        return 1.0;
    }
    strsim::normalized_damerau_levenshtein(&asked, &name)
}

fn is_same_file(a: &Path, b: &Path) -> bool {
    match (a.canonicalize(), b.canonicalize()) {
        (Ok(a), Ok(b)) => a == b,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges() {
        assert_eq!(parse_range("3..7"), Ok(Span { start: 3, end: Some(7) }));
        assert_eq!(parse_range("3.."), Ok(Span { start: 3, end: None }));
        assert_eq!(parse_range("..7"), Ok(Span { start: 0, end: Some(7) }));
        assert_eq!(parse_range("5..5"), Ok(Span { start: 5, end: Some(5) }));
        for bad in ["", "7", "7..3", "-1..3", "a..b", "0...3", "1..99999999999999999999"] {
            assert!(parse_range(bad).is_err(), "{bad}");
        }
        let of = |text, count| parse_range(text).unwrap().of(count).ok();
        assert_eq!(of("..", 5), Some(0..5));
        assert_eq!(of("5..", 5), Some(5..5));
        assert_eq!(of("0..6", 5), None);
        assert_eq!(of("6..", 5), None);
    }

    #[test]
    fn near_names_are_found() {
        assert!(likeness("token_embed.weight", "token_embd.weight") > 0.9);
        assert_eq!(likeness("attn_q", "blk.0.attn_q.weight"), 1.0);
        assert!(likeness("x", "blk.0.attn_q.weight") < 0.6);
    }
}
