//! One operation on one type, and the memory it takes.

use std::hint::black_box;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hk_core::decode::{self, Source};
use hk_core::{Activation, Backend, Residual, StorageType};

use super::payload::{Payload, activations, payload, weights as floats_to_encode};
use super::{Op, PROMPT, ROW, SMALL};
use crate::error::{Error, Result};
use crate::pool::Pool;

/// Bytes of stored weights that a run goes through at least, more than an L1 cache has: of a
/// small case there are so many copies, so that products take them out of L2 each time.
const CYCLE: usize = 256 * 1024;
/// Weights that a fill goes through at least: a small output several times, since one is over
/// too soon to be timed well.
const FILLED: usize = 4 * SMALL;
/// Weights that a thread takes at once at least.
const PIECE: usize = 4 * ROW;
/// Bytes of a cache line.
const CACHE_LINE: usize = 64;

/// The memory and the threads of cases, which one after another use the same.
pub struct Workspace {
    pool: Pool,
    /// Where the first `f32` of an output stands, counted from a cache line.
    offset: usize,
    payload: Vec<u8>,
    out: Vec<f32>,
    x: Vec<f32>,
    scratch: Vec<Vec<u32>>,
    /// What is quantized, and where it goes.
    originals: Vec<f32>,
    encoded: Vec<u8>,
    /// What `payload` or `form` holds: type and weights.
    stored: Option<(StorageType, usize)>,
    /// The payload of a type without a geometry.
    form: Payload,
}

impl Workspace {
    /// A workspace in which `threads` work on a case.
    pub fn new(threads: usize) -> Self {
        Workspace {
            pool: Pool::new(threads),
            offset: 0,
            payload: Vec::new(),
            out: Vec::new(),
            x: activations(ROW * PROMPT),
            scratch: Vec::new(),
            originals: Vec::new(),
            encoded: Vec::new(),
            stored: None,
            form: Payload::default(),
        }
    }

    /// Lets outputs begin `offset` floats after the start of a cache line, where they begin
    /// otherwise: at 4, as large vectors do with some allocators, no store of 32 or 64 bytes
    /// stays within a line.
    pub fn set_offset(&mut self, offset: usize) {
        self.offset = offset % (CACHE_LINE / 4);
    }

    /// How many threads there are: fewer than were asked for where the system has no more.
    pub fn threads(&self) -> usize {
        self.pool.threads()
    }

    /// Sets up `op` on `weights` weights of type `storage`. The same type again, as often as
    /// its operations and backends are measured, takes no new payload.
    ///
    /// # Errors
    /// The type does not have the operation, `weights` is no multiple of [`SMALL`], or there
    /// is not enough memory.
    pub fn case(&mut self, op: Op, storage: StorageType, weights: usize) -> Result<Case<'_>> {
        if !op.takes(storage) {
            return Err(Error::Invalid(format!("{storage} weights have no operation {op}")));
        }
        if weights == 0 || !weights.is_multiple_of(SMALL) {
            let text = format!("{weights} weights to measure: no multiple of {SMALL}");
            return Err(Error::Invalid(text));
        }
        let len = self.store(storage, weights)?;
        let floats = weights + 2 * CACHE_LINE / 4;
        grow(&mut self.out, floats)?;
        if op == Op::Quantize {
            self.make_room(weights, len)?;
        }
        let head = self.out.as_ptr().align_offset(CACHE_LINE) + self.offset;
        let rows = match op {
            Op::Dequantize | Op::Quantize => 0,
            Op::Dot | Op::Prompt => op.uses(),
        };
        self.scratch.resize(rows, Vec::new());
        let activations = quantize(storage, &self.x, &mut self.scratch);
        let source = storage.geometry().is_none().then(|| self.form.source(storage, weights));
        let copies = match source {
            None => self.payload.len() / len,
            Some(_) => CYCLE.div_ceil(len),
        };
        let (copies, passes) = match op {
            // Between two looks at a weight goes the whole output.
            Op::Dequantize => (1, copies),
            Op::Dot => (copies, copies),
            // Long enough, and between two looks at a weight go all activations.
            Op::Prompt | Op::Quantize => (1, 1),
        };
        Ok(Case {
            op,
            storage,
            weights,
            pool: &self.pool,
            payloads: match source {
                None => self.payload.get(..len * copies).unwrap_or_default(),
                Some(_) => &self.form.data,
            },
            source,
            payload_len: len,
            passes,
            activations: activations.map_err(|error| failed(op, storage, error))?,
            products: vec![0.0; weights / ROW * rows],
            out: self.out.get_mut(head..head + weights).unwrap_or_default(),
            originals: self.originals.get(..weights).unwrap_or_default(),
            encoded: self.encoded.get_mut(..len).unwrap_or_default(),
        })
    }

    /// Fills `payload`, with copies of a small one so that it takes [`CYCLE`] bytes, and
    /// returns the length of one copy; or `form`, once.
    fn store(&mut self, storage: StorageType, weights: usize) -> Result<usize> {
        if storage.geometry().is_none() {
            return Ok(self.store_form(storage, weights));
        }
        let small_len = storage.payload_len(&[SMALL as u64]).unwrap_or(0) as usize;
        let len = small_len * (weights / SMALL);
        if self.stored == Some((storage, weights)) {
            return Ok(len);
        }
        self.stored = None;
        let small = payload(storage, SMALL);
        let copies = CYCLE.div_ceil(len) * (weights / SMALL);
        self.payload.clear();
        self.payload.try_reserve_exact(small.len() * copies).map_err(no_memory)?;
        for _ in 0..copies {
            self.payload.extend_from_slice(&small);
        }
        self.stored = Some((storage, weights));
        Ok(len)
    }

    fn store_form(&mut self, storage: StorageType, weights: usize) -> usize {
        if self.stored != Some((storage, weights)) {
            self.stored = None;
            self.form = Payload::new(storage, weights);
            self.stored = Some((storage, weights));
        }
        self.form.data.len() + self.form.scales.len()
    }

    /// Sets up `weights` weights to quantize, and `len` bytes for them.
    fn make_room(&mut self, weights: usize, len: usize) -> Result<()> {
        if self.originals.len() < weights {
            let small = floats_to_encode(SMALL);
            self.originals.clear();
            self.originals.try_reserve_exact(weights).map_err(no_memory)?;
            self.originals.extend(small.iter().cycle().take(weights));
        }
        self.encoded
            .try_reserve_exact(len.saturating_sub(self.encoded.len()))
            .map_err(no_memory)?;
        self.encoded.resize(len.max(self.encoded.len()), 0);
        Ok(())
    }
}

/// Brings rows out of `x` into the form for weights of type `storage`, as many as there are
/// vectors to take them.
fn quantize<'a>(
    storage: StorageType,
    x: &'a [f32],
    scratch: &'a mut [Vec<u32>],
) -> Result<Vec<Activation<'a>>, hk_core::Error> {
    let len = Activation::scratch_len(storage, ROW);
    let rows = x.chunks_exact(ROW).zip(scratch);
    let quantize = |(x, scratch): (&'a [f32], &'a mut Vec<u32>)| {
        scratch.resize(len, 0);
        Activation::quantize(storage, x, scratch)
    };
    rows.map(quantize).collect()
}

/// Makes `out` at least `len` floats long.
fn grow(out: &mut Vec<f32>, len: usize) -> Result<()> {
    out.try_reserve_exact(len.saturating_sub(out.len())).map_err(no_memory)?;
    out.resize(len.max(out.len()), 0.0);
    Ok(())
}

fn no_memory(error: std::collections::TryReserveError) -> Error {
    Error::Invalid(format!("not enough memory for a case of this size: {error}"))
}

/// The error of a kernel that refuses a case.
pub(super) fn failed(op: Op, storage: StorageType, error: hk_core::Error) -> Error {
    Error::Invalid(format!("{op} of {storage}: {error}"))
}

/// One operation on weights of one type, ready to run.
pub struct Case<'a> {
    pub(super) op: Op,
    pub(super) storage: StorageType,
    pub(super) weights: usize,
    pool: &'a Pool,
    /// Copies of the stored weights.
    payloads: &'a [u8],
    /// The stored weights of a type without a geometry.
    source: Option<Source<'a>>,
    payload_len: usize,
    passes: usize,
    activations: Vec<Activation<'a>>,
    products: Vec<f32>,
    out: &'a mut [f32],
    originals: &'a [f32],
    encoded: &'a mut [u8],
}

impl Case<'_> {
    /// How often [`run`](Self::run) goes through as many weights as the case has.
    pub fn passes(&self) -> usize {
        self.passes
    }

    /// How often [`fill`](Self::fill) does.
    pub fn fills(&self) -> usize {
        FILLED.div_ceil(self.weights)
    }

    /// Bytes that the weights are stored in.
    pub fn bytes(&self) -> usize {
        self.payload_len
    }

    /// How many threads it runs on.
    pub fn threads(&self) -> usize {
        self.pool.threads()
    }

    /// Does the operation by `backend`, [`passes`](Self::passes) times.
    ///
    /// # Errors
    /// The backend refuses it.
    pub fn run(&mut self, backend: &dyn Backend) -> Result<()> {
        if self.op == Op::Quantize {
            return self.quantize(black_box(backend));
        }
        let (op, storage, activations) = (self.op, self.storage, &self.activations[..]);
        let backend = black_box(backend);
        let pieces = self.pieces();
        if let Some(source) = self.source {
            return self.run_form(backend, &source);
        }
        let payloads = black_box(self.payloads).chunks_exact(self.payload_len).cycle();
        for payload in payloads.take(self.passes) {
            let out = match op {
                Op::Dequantize => black_box(&mut *self.out),
                _ => black_box(&mut self.products[..]),
            };
            let (stored_piece, out_piece) = (payload.len() / pieces, out.len() / pieces);
            let stored = payload.chunks_exact(stored_piece);
            let work = |(stored, out): (&[u8], &mut [f32])| match (op, activations) {
                (Op::Dequantize, _) => backend.dequantize(storage, stored, out),
                (_, &[activation]) => backend.dot_rows(storage, stored, activation, out),
                _ => backend.dot_matrix(storage, stored, activations, out),
            };
            share(self.pool, stored.zip(out.chunks_exact_mut(out_piece)), work)
                .map_err(|error| failed(op, storage, error))?;
            black_box((&mut *self.out, &mut self.products[..]));
        }
        Ok(())
    }

    /// Decodes a type without a geometry.
    fn run_form(&mut self, backend: &dyn Backend, source: &Source<'_>) -> Result<()> {
        let piece = self.weights / self.pieces();
        for _ in 0..self.passes {
            let (source, out) = (black_box(source), black_box(&mut *self.out));
            let work = |(i, out): (usize, &mut [f32])| {
                let start = (i * piece) as u64;
                let range = start..start + out.len() as u64;
                decode::dequantize_range(backend, source, range, out, Residual::Skip)
            };
            share(self.pool, out.chunks_exact_mut(piece).enumerate(), work)
                .map_err(|error| failed(self.op, self.storage, error))?;
            black_box(&mut *self.out);
        }
        Ok(())
    }

    /// Quantizes the originals.
    fn quantize(&mut self, backend: &dyn Backend) -> Result<()> {
        let pieces = self.pieces();
        let (piece, bytes) = (self.originals.len() / pieces, self.encoded.len() / pieces);
        let originals = black_box(self.originals).chunks_exact(piece);
        let encoded = black_box(&mut *self.encoded).chunks_exact_mut(bytes);
        let storage = self.storage;
        let work = |(originals, encoded): (&[f32], &mut [u8])| {
            backend.quantize(storage, originals, ROW, None, encoded)
        };
        share(self.pool, originals.zip(encoded), work)
            .map_err(|error| failed(self.op, storage, error))?;
        black_box(&mut *self.encoded);
        Ok(())
    }

    /// Fills the memory of as many `f32` as there are weights, [`fills`](Self::fills) times.
    pub fn fill(&mut self) {
        let piece = self.weights / self.pieces();
        for _ in 0..self.fills() {
            let fill = |piece: &mut [f32]| {
                memset(piece);
                Ok(())
            };
            // It cannot fail.
            let _ = share(self.pool, black_box(&mut *self.out).chunks_exact_mut(piece), fill);
            black_box(&mut *self.out);
        }
    }

    /// Into how many equal parts the weights are split for the threads: several for each, so
    /// that none waits long for the slowest.
    fn pieces(&self) -> usize {
        match self.pool.threads() {
            1 => 1,
            threads => (4 * threads).next_power_of_two().min(self.weights / PIECE),
        }
    }
}

/// Fills `floats`. By itself, since the compiler makes a call of the C library's `memset` of
/// this, but within other loops one of its own, which takes a third longer.
#[inline(never)]
fn memset(floats: &mut [f32]) {
    floats.fill(0.0);
}

/// Does `work` on each of `pieces`, on the threads of `pool`.
fn share<T>(
    pool: &Pool,
    mut pieces: impl Iterator<Item = T> + Send,
    work: impl Fn(T) -> Result<(), hk_core::Error> + Sync,
) -> Result<(), hk_core::Error> {
    if pool.threads() == 1 {
        return pieces.try_for_each(work);
    }
    let state = Mutex::new((pieces, Ok(())));
    pool.run(&|| {
        let next = || lock(&state).0.next();
        while let Some(piece) = next() {
            if let Err(error) = work(piece) {
                lock(&state).1 = Err(error);
            }
        }
    });
    state.into_inner().unwrap_or_else(PoisonError::into_inner).1
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic of a kernel ends the measurement anyway.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
