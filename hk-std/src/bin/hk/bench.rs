//! `hk bench`.

mod report;

use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::time::Duration;

use clap::ValueEnum;
use hk_std::bench::{LARGE, Measurement, Op, SMALL, Workspace};
use hk_std::hk_core::{Backend, StorageType};
use hk_std::{Error, Result};

use crate::output;
use crate::progress::Progress;

const HELP: &str = "\
Examples:
  hk bench                                             every type, a minute or so
  hk bench --type q4_0 --backend avx512 --op dot       one kernel, at once
  hk bench --type q4_k,q6_k --size small --time 500    longer, so more exact
  hk bench --threads 8 --json > speed.json
  chrt -f 10 hk bench                                  on Linux, as root: other work waits

dequantize: stored weights to f32. dot: rows of 4096 weights times one activation row, as for a
token. prompt: the same rows times 64 activation rows. quantize: f32 to stored weights, for small
alone unless --size large asks for it.
small: 65536 weights, in the L2 cache. large: 64 Mi weights, beyond any cache,
in up to 800 MB of memory. dq4, dq8 and dqt are in blocks of 32 without a residual; sparse_f16
and sparse_2_4 have every other weight.

G/s: 1e9 weights a second; for prompt, where each weight is used 64 times, multiply-adds a second.
ratio: the same as a ratio to memset of as many f32, by as many threads. The two take turns, and
the fastest of each counts; for large, the fastest memset of all cases.

--json gives one array of objects with the keys op, type, backend, threads, weights,
gweights_per_s and memset_ratio, numbers as in the table.

HK_KERNELS=NAME does what --backend NAME does.";

/// Measure how fast weights are decoded and multiplied
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    /// Only these storage types, such as q4_k; commas between several
    #[arg(long = "type", value_name = "TYPE", value_delimiter = ',', value_parser = parse_type)]
    types: Vec<StorageType>,
    /// Only these backends; `hk kernels` lists them
    #[arg(long = "backend", value_name = "NAME", value_delimiter = ',', value_parser = parse_backend)]
    backends: Vec<Kernels>,
    /// Only these operations: dequantize, dot, prompt, quantize
    #[arg(long = "op", value_name = "OP", value_delimiter = ',')]
    ops: Vec<Op>,
    /// Weights of a case
    #[arg(long, value_enum, value_name = "SIZE", default_value = "all")]
    size: Size,
    /// Threads that share each case
    #[arg(long, value_name = "N", default_value = "1")]
    threads: NonZeroUsize,
    /// Milliseconds a figure; long runs take more, so that there are a few
    #[arg(long, value_name = "MS", default_value_t = 50)]
    time: u64,
    /// Outputs that begin 16 bytes after a cache line, as large vectors often do
    #[arg(long)]
    unaligned: bool,
    /// Give it as one JSON array
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Size {
    Small,
    Large,
    All,
}

/// A backend among the arguments.
#[derive(Clone, Copy)]
struct Kernels(&'static dyn Backend);

fn parse_type(text: &str) -> std::result::Result<StorageType, String> {
    let mut known = Op::Dequantize.types();
    known.clone().find(|storage| storage.name() == Some(text)).ok_or_else(|| {
        let names: Vec<_> = known.by_ref().filter_map(StorageType::name).collect();
        format!("no type of this name can be measured; there are: {}", names.join(", "))
    })
}

fn parse_backend(text: &str) -> std::result::Result<Kernels, String> {
    hk_std::kernels(text).map(Kernels).map_err(|error| error.to_string())
}

/// What each figure is of.
#[derive(Clone, Copy)]
struct Column {
    op: Op,
    weights: usize,
    backend: &'static dyn Backend,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    let columns = columns(args)?;
    let is_wanted = |&storage: &StorageType| {
        let is_named = args.types.is_empty() || args.types.contains(&storage);
        is_named && columns.iter().any(|column| column.op.takes(storage))
    };
    let types: Vec<_> = Op::Dequantize.types().filter(is_wanted).collect();
    if types.is_empty() {
        output::say(
            &"these types have none of the operations asked for; every type has dequantize",
        );
        return Ok(ExitCode::from(2));
    }
    let measured = measure(args, &types, &columns)?;
    output::to_stdout(|out| match args.json {
        true => report::write_json(out, &measured),
        false => report::write_tables(out, &types, &columns, &measured),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Every operation, size and backend that was asked for.
fn columns(args: &Args) -> Result<Vec<Column>> {
    let forced = std::env::var_os("HK_KERNELS").is_some_and(|name| !name.is_empty());
    let backends = match &args.backends[..] {
        [] if forced => vec![hk_std::backend()?],
        [] => hk_std::backends(),
        named => named.iter().map(|kernels| kernels.0).collect(),
    };
    let sizes: &[usize] = match args.size {
        Size::Small => &[SMALL],
        Size::Large => &[LARGE],
        Size::All => &[SMALL, LARGE],
    };
    let mut columns = Vec::new();
    for op in Op::ALL.into_iter().filter(|op| args.ops.is_empty() || args.ops.contains(op)) {
        for &weights in sizes {
            if op == Op::Quantize && weights == LARGE && args.size == Size::All {
                // Much work for each weight: a long run that says nothing new.
                continue;
            }
            columns.extend(backends.iter().map(|&backend| Column { op, weights, backend }));
        }
    }
    Ok(columns)
}

/// Measures what `columns` ask of `types`: all that is wanted of one type and size together,
/// so that its weights are made once.
fn measure(args: &Args, types: &[StorageType], columns: &[Column]) -> Result<Vec<Measurement>> {
    let mut workspace = Workspace::new(args.threads.get());
    if workspace.threads() < args.threads.get() {
        let (asked, threads) = (args.threads, workspace.threads());
        let text = format!("the system has no {asked} threads to give, only {threads}");
        return Err(Error::Invalid(text));
    }
    workspace.set_offset(if args.unaligned { 4 } else { 0 });
    let budget = Duration::from_millis(args.time);
    let count = types.iter().flat_map(|&t| columns.iter().filter(move |c| c.op.takes(t))).count();
    let mut progress = Progress::steps(count as u64);
    let mut measured = Vec::with_capacity(count);
    for &storage in types {
        for weights in [SMALL, LARGE] {
            let asked = |column: &&Column| column.weights == weights && column.op.takes(storage);
            for column in columns.iter().filter(asked) {
                progress.say(format!("{storage} {}", column.op));
                let mut case = workspace.case(column.op, storage, weights)?;
                measured.push(case.measure(column.backend, budget)?);
                progress.advance(1);
            }
        }
    }
    share_memset(&mut measured);
    Ok(measured)
}

/// Lets all large cases have the fastest `memset` of any: how fast memory is changes from case
/// to case with what other programs do to it, even on other cores, and a kernel must not look
/// better for that.
fn share_memset(measured: &mut [Measurement]) {
    let is_large = |m: &&mut Measurement| m.weights == LARGE;
    let times = measured.iter_mut().filter(is_large).map(|m| m.memset_seconds);
    let fastest = times.fold(f64::INFINITY, f64::min);
    for case in measured.iter_mut().filter(is_large) {
        case.memset_seconds = fastest;
    }
}
