//! Decoding of every dense and block type by every backend, one thread, 65,536 weights:
//! `cargo bench -p hk-tests --bench dequantize [-- FILTER]`, such as `dequantize/avx2/q4_0`.

mod table;

use hk_std::bench::Op;

fn main() {
    table::run(&[Op::Dequantize], &[]);
}
