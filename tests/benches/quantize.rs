//! Encoding to every type that has an encoder, by every backend, one thread, 65,536 weights:
//! `cargo bench -p hk-tests --bench quantize [-- FILTER]`, such as `quantize/avx512/q4_k`.

mod table;

use hk_std::bench::Op;

fn main() {
    table::run(&[Op::Quantize], &[]);
}
