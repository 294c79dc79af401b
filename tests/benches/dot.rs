//! Dot products of every type that has them, one thread, 16 rows of 4096 weights:
//! `cargo bench -p hk-tests --bench dot [-- FILTER]`.
//!
//! Criterion measures `Portable`, with one activation row (a token) and with sixteen (a
//! prompt), and keeps its history. A table at the end compares it with the oracle and with
//! `memset` of as many f32 as there are weights in the same moments, which says more than
//! seconds do on a machine that has other work: all take turns, and the fastest of each
//! counts.

mod table;

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput};
use hk_core::dot::{ActivationForm, oracle};
use hk_core::{Activation, Backend, Error, Portable, StorageType};

const ROWS: usize = 16;
const LEN: usize = 4096;
const WEIGHTS: usize = ROWS * LEN;
/// Activation rows at once: a token, and a part of a prompt.
const BATCHES: [usize; 2] = [1, 16];

fn main() {
    table::run(bench_all, print_table);
}

/// Types with a dot product, in the order of their codes.
fn types() -> impl Iterator<Item = StorageType> {
    StorageType::all().filter(|&storage| ActivationForm::of(storage).is_some())
}

/// Pseudorandom bytes (xorshift64), the same in every run.
fn random() -> impl Iterator<Item = u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    })
}

/// Weight rows: random blocks, and as dense rows the numbers between -1 and 1 that
/// [`activations`] are too, since of random bits one f16 in sixteen would be a subnormal.
fn rows(storage: StorageType) -> Vec<u8> {
    let floats = floats(WEIGHTS).into_iter();
    match storage {
        StorageType::F32 => floats.flat_map(f32::to_le_bytes).collect(),
        StorageType::BF16 => {
            floats.flat_map(|x| (x.to_bits() >> 16).to_le_bytes()[..2].to_vec()).collect()
        }
        // The exponent from 2^-8 to 2^-1.
        StorageType::F16 => random()
            .take(2 * WEIGHTS)
            .enumerate()
            .map(|(i, byte)| if i % 2 == 0 { byte } else { byte & 0x9F | 0x20 })
            .collect(),
        _ => {
            let len = storage.payload_len(&[WEIGHTS as u64]).unwrap() as usize;
            random().take(len).collect()
        }
    }
}

/// Numbers between -1 and 1.
fn floats(len: usize) -> Vec<f32> {
    random().take(len).map(|byte| (f32::from(byte) + 0.5) / 128.0 - 1.0).collect()
}

/// A kernel's call.
type DotMatrix = fn(StorageType, &[u8], &[Activation<'_>], &mut [f32]) -> Result<(), Error>;

fn portable(
    storage: StorageType,
    rows: &[u8],
    activations: &[Activation<'_>],
    out: &mut [f32],
) -> Result<(), Error> {
    Portable.dot_matrix(storage, rows, activations, out)
}

/// One case: a type, its rows, and memory for so many activations and their products.
struct Case {
    storage: StorageType,
    rows: Vec<u8>,
    x: Vec<f32>,
    scratch: Vec<Vec<u32>>,
    out: Vec<f32>,
    filled: Vec<f32>,
}

impl Case {
    fn new(storage: StorageType, batch: usize) -> Self {
        Case {
            storage,
            rows: rows(storage),
            x: floats(LEN * batch),
            scratch: vec![vec![0; Activation::scratch_len(storage, LEN)]; batch],
            out: vec![0.0; ROWS * batch],
            filled: vec![0.0; WEIGHTS],
        }
    }

    /// Calls `run` with what multiplies by a kernel and with what fills `WEIGHTS` floats.
    fn with<R>(&mut self, run: impl FnOnce(&mut dyn FnMut(DotMatrix), &mut dyn FnMut()) -> R) -> R {
        let rows = self.x.chunks(LEN).zip(&mut self.scratch);
        let activations: Vec<_> = rows
            .map(|(x, scratch)| Activation::quantize(self.storage, x, scratch).unwrap())
            .collect();
        let mut multiply = |kernel: DotMatrix| {
            let (rows, out) = (black_box(&self.rows[..]), black_box(&mut self.out[..]));
            kernel(black_box(self.storage), rows, &activations, out).unwrap();
            black_box(out);
        };
        let mut fill = || {
            black_box(&mut self.filled[..]).fill(0.0);
            black_box(&mut self.filled[..]);
        };
        run(&mut multiply, &mut fill)
    }
}

fn bench_all(criterion: &mut Criterion) {
    for batch in BATCHES {
        let mut group = criterion.benchmark_group(format!("dot/{batch}"));
        group.throughput(Throughput::Elements((WEIGHTS * batch) as u64));
        for storage in types() {
            group.bench_function(BenchmarkId::from_parameter(storage), |bencher| {
                Case::new(storage, batch).with(|multiply, _| bencher.iter(|| multiply(portable)));
            });
        }
        group.finish();
    }
}

/// Shortest of many runs of the oracle, of `Portable` and of `memset`, taking turns for
/// `budget`.
fn best(storage: StorageType, batch: usize, budget: Duration) -> [Duration; 3] {
    Case::new(storage, batch).with(|multiply, fill| {
        let mut shortest = [Duration::MAX; 3];
        let begin = Instant::now();
        while begin.elapsed() < budget {
            let start = Instant::now();
            multiply(oracle::dot_matrix);
            let first = Instant::now();
            multiply(portable);
            let second = Instant::now();
            fill();
            let times = [first - start, second - first, second.elapsed()];
            shortest = std::array::from_fn(|i| shortest[i].min(times[i]));
        }
        shortest
    })
}

fn print_table(filter: &str) {
    for batch in BATCHES {
        println!("\nG weights/s, activation rows at once: {batch}");
        println!(
            "{:<10} {:>10} {:>10} {:>10} {:>14}",
            "type", "oracle", "portable", "faster", "ratio, memset"
        );
        for storage in types().filter(|s| s.to_string().contains(filter)) {
            let times = best(storage, batch, Duration::from_millis(250));
            let [oracle, portable, fill] = times.map(|time| time.as_nanos() as f64);
            let weights = (WEIGHTS * batch) as f64;
            println!(
                "{:<10} {:>10.2} {:>10.2} {:>10.2} {:>14.3}",
                storage.to_string(),
                weights / oracle,
                weights / portable,
                oracle / portable,
                batch as f64 * fill / portable,
            );
        }
    }
}
