//! Dot products of every type that has them by every backend, one thread, 16 rows of 4096
//! weights, with one activation row (a token) and with 64 (a prompt):
//! `cargo bench -p hk-tests --bench dot [-- FILTER]`, such as `dot/avx2/q4_0` or `prompt/`.
//!
//! The oracle, of which speed is not expected, stands in the table at the end.

mod table;

use hk_core::dot::oracle;
use hk_core::{Activation, Backend, Error, Portable, StorageType};
use hk_std::bench::Op;

fn main() {
    table::run(&[Op::Dot, Op::Prompt], &[&Oracle]);
}

/// The oracle as a backend.
struct Oracle;

impl Backend for Oracle {
    fn name(&self) -> &'static str {
        "oracle"
    }

    fn dequantize(
        &self,
        storage: StorageType,
        payload: &[u8],
        out: &mut [f32],
    ) -> Result<(), Error> {
        Portable.dequantize(storage, payload, out)
    }

    fn dot_matrix(
        &self,
        storage: StorageType,
        rows: &[u8],
        activations: &[Activation<'_>],
        out: &mut [f32],
    ) -> Result<(), Error> {
        oracle::dot_matrix(storage, rows, activations, out)
    }
}
