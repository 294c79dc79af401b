//! Blocks of 32 weights with f16 scales: q4_0, q4_1, q5_0, q5_1 and q8_0.

use crate::arch::intrinsics::*;

use hk_core::StorageType;
use hk_core::dot::RowQ32;

use super::super::vector::{fold_rows, load_halves_at, sum_halves};
use super::step::{
    Activation, Blocks, Codes, Half, product, product_by_vnni, products, scaled, scales,
    scales_of_starts, with_offset,
};
use crate::arch::call::{DotRows, Rows, four};

pub(super) fn rows(storage: StorageType, vnni: bool) -> Option<DotRows> {
    Some(DotRows::Q32(match (storage, vnni) {
        (StorageType::Q4_0, false) => q4_0,
        (StorageType::Q4_0, true) => q4_0_vnni,
        (StorageType::Q4_1, false) => q4_1,
        (StorageType::Q4_1, true) => q4_1_vnni,
        (StorageType::Q5_0, false) => q5_0,
        (StorageType::Q5_0, true) => q5_0_vnni,
        (StorageType::Q5_1, false) => q5_1,
        (StorageType::Q5_1, true) => q5_1_vnni,
        (StorageType::Q8_0, false) => q8_0,
        (StorageType::Q8_0, true) => q8_0_vnni,
        _ => return None,
    }))
}

#[target_feature(enable = "avx2,f16c")]
fn q4_0(rows: Rows<'_>, activation: RowQ32<'_>) {
    let zero = _mm256_setzero_ps();
    let add = |lanes, blocks: Blocks<'_, 18>, activation: Half<'_>| {
        let activation = Activation::load(activation);
        let parts = four(blocks, |row| product(nibbles_at::<2, _>(row), &activation));
        _mm256_add_ps(lanes, with_offset::<3>(scales(blocks)[0], parts, &activation))
    };
    products::<18, 72, _>(rows, activation, zero, add, |lanes| fold_rows(lanes));
}

#[target_feature(enable = "avx2,f16c,avxvnni")]
fn q4_0_vnni(rows: Rows<'_>, activation: RowQ32<'_>) {
    let zero = _mm256_setzero_ps();
    let add = |lanes, blocks: Blocks<'_, 18>, activation: Half<'_>| {
        let activation = Activation::load(activation);
        let parts = four(blocks, |row| product_by_vnni(nibbles_at::<2, _>(row), &activation));
        _mm256_add_ps(lanes, with_offset::<3>(scales(blocks)[0], parts, &activation))
    };
    products::<18, 72, _>(rows, activation, zero, add, |lanes| fold_rows(lanes));
}

#[target_feature(enable = "avx2,f16c")]
fn q4_1(rows: Rows<'_>, activation: RowQ32<'_>) {
    let zero = _mm256_setzero_ps();
    let add = |lanes, blocks: Blocks<'_, 20>, activation: Half<'_>| {
        let activation = Activation::load(activation);
        let parts = four(blocks, |row| product(nibbles_at::<4, _>(row), &activation));
        _mm256_add_ps(lanes, with_minimum(scales(blocks), parts, &activation))
    };
    products::<20, 80, _>(rows, activation, zero, add, |lanes| fold_rows(lanes));
}

#[target_feature(enable = "avx2,f16c,avxvnni")]
fn q4_1_vnni(rows: Rows<'_>, activation: RowQ32<'_>) {
    let zero = _mm256_setzero_ps();
    let add = |lanes, blocks: Blocks<'_, 20>, activation: Half<'_>| {
        let activation = Activation::load(activation);
        let parts = four(blocks, |row| product_by_vnni(nibbles_at::<4, _>(row), &activation));
        _mm256_add_ps(lanes, with_minimum(scales(blocks), parts, &activation))
    };
    products::<20, 80, _>(rows, activation, zero, add, |lanes| fold_rows(lanes));
}

#[target_feature(enable = "avx2,f16c")]
fn q5_0(rows: Rows<'_>, activation: RowQ32<'_>) {
    let zero = _mm256_setzero_ps();
    let add = |lanes, blocks: Blocks<'_, 22>, activation: Half<'_>| {
        let activation = Activation::load(activation);
        let starts = four(blocks, |row| load_halves_at::<0, _>(row));
        let parts = four([0, 1, 2, 3], |row| {
            let codes = fifth_bits::<2>(nibbles_at::<6, _>(blocks[row]), starts[row]);
            product(codes, &activation)
        });
        _mm256_add_ps(lanes, with_offset::<4>(scales_of_starts(starts)[0], parts, &activation))
    };
    products::<22, 88, _>(rows, activation, zero, add, |lanes| fold_rows(lanes));
}

#[target_feature(enable = "avx2,f16c,avxvnni")]
fn q5_0_vnni(rows: Rows<'_>, activation: RowQ32<'_>) {
    let zero = _mm256_setzero_ps();
    let add = |lanes, blocks: Blocks<'_, 22>, activation: Half<'_>| {
        let activation = Activation::load(activation);
        let starts = four(blocks, |row| load_halves_at::<0, _>(row));
        let parts = four([0, 1, 2, 3], |row| {
            let codes = fifth_bits::<2>(nibbles_at::<6, _>(blocks[row]), starts[row]);
            product_by_vnni(codes, &activation)
        });
        _mm256_add_ps(lanes, with_offset::<4>(scales_of_starts(starts)[0], parts, &activation))
    };
    products::<22, 88, _>(rows, activation, zero, add, |lanes| fold_rows(lanes));
}

#[target_feature(enable = "avx2,f16c")]
fn q5_1(rows: Rows<'_>, activation: RowQ32<'_>) {
    let zero = _mm256_setzero_ps();
    let add = |lanes, blocks: Blocks<'_, 24>, activation: Half<'_>| {
        let activation = Activation::load(activation);
        let starts = four(blocks, |row| load_halves_at::<0, _>(row));
        let parts = four([0, 1, 2, 3], |row| {
            let codes = fifth_bits::<4>(nibbles_at::<8, _>(blocks[row]), starts[row]);
            product(codes, &activation)
        });
        _mm256_add_ps(lanes, with_minimum(scales_of_starts(starts), parts, &activation))
    };
    products::<24, 96, _>(rows, activation, zero, add, |lanes| fold_rows(lanes));
}

#[target_feature(enable = "avx2,f16c,avxvnni")]
fn q5_1_vnni(rows: Rows<'_>, activation: RowQ32<'_>) {
    let zero = _mm256_setzero_ps();
    let add = |lanes, blocks: Blocks<'_, 24>, activation: Half<'_>| {
        let activation = Activation::load(activation);
        let starts = four(blocks, |row| load_halves_at::<0, _>(row));
        let parts = four([0, 1, 2, 3], |row| {
            let codes = fifth_bits::<4>(nibbles_at::<8, _>(blocks[row]), starts[row]);
            product_by_vnni(codes, &activation)
        });
        _mm256_add_ps(lanes, with_minimum(scales_of_starts(starts), parts, &activation))
    };
    products::<24, 96, _>(rows, activation, zero, add, |lanes| fold_rows(lanes));
}

#[target_feature(enable = "avx2,f16c")]
fn q8_0(rows: Rows<'_>, activation: RowQ32<'_>) {
    // The activation takes the sign of the code, which then has none: -128 becomes 128, and a
    // pair of products at most 2 * 128 * 127.
    let ones = _mm256_set1_epi16(1);
    let product = |codes: __m256i, activation: __m256i| {
        let signed = _mm256_sign_epi8(activation, codes);
        _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_abs_epi8(codes), signed), ones)
    };
    let zero = _mm256_setzero_ps();
    let add = |lanes, blocks: Blocks<'_, 34>, activation: Half<'_>| {
        let activation = Activation::load(activation);
        let parts = four(blocks, |row| {
            let low = product(load_halves_at::<2, _>(row), activation.low);
            _mm256_add_epi32(low, product(load_halves_at::<18, _>(row), activation.high))
        });
        let [d, _] = scales(blocks);
        _mm256_add_ps(lanes, scaled(d, sum_halves(parts), &activation))
    };
    products::<34, 136, _>(rows, activation, zero, add, |lanes| fold_rows(lanes));
}

#[target_feature(enable = "avx2,f16c,avxvnni")]
fn q8_0_vnni(rows: Rows<'_>, activation: RowQ32<'_>) {
    let sign = _mm256_set1_epi8(i8::MIN);
    let zero = _mm256_setzero_ps();
    let add = |lanes, blocks: Blocks<'_, 34>, activation: Half<'_>| {
        let activation = Activation::load(activation);
        let parts = four(blocks, |row| {
            // Unsigned, 128 more.
            let low = _mm256_xor_si256(load_halves_at::<2, _>(row), sign);
            let high = _mm256_xor_si256(load_halves_at::<18, _>(row), sign);
            product_by_vnni(Codes { low, high }, &activation)
        });
        _mm256_add_ps(lanes, with_offset::<7>(scales(blocks)[0], parts, &activation))
    };
    products::<34, 136, _>(rows, activation, zero, add, |lanes| fold_rows(lanes));
}

/// The two codes of each of the 16 bytes from `AT` on.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn nibbles_at<const AT: usize, const BLOCK: usize>(blocks: [&[u8; BLOCK]; 2]) -> Codes {
    Codes::nibbles(load_halves_at::<AT, _>(blocks))
}

/// `codes` with their bits of value 16: those of the 32 codes of a block are in the first 4
/// bytes from `AT` on of the block's half of `bits`.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn fifth_bits<const AT: i64>(codes: Codes, bits: __m256i) -> Codes {
    let [first, second, third, fourth] =
        [AT, AT + 1, AT + 2, AT + 3].map(|byte| byte * 0x0101_0101_0101_0101);
    let low = _mm256_shuffle_epi8(bits, _mm256_set_epi64x(second, first, second, first));
    let high = _mm256_shuffle_epi8(bits, _mm256_set_epi64x(fourth, third, fourth, third));
    Codes { low: with_bit(codes.low, low), high: with_bit(codes.high, high) }
}

/// 16 more where byte `i` of 8 has bit `i`.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn with_bit(codes: __m256i, bits: __m256i) -> __m256i {
    let bit = _mm256_set1_epi64x(0x8040_2010_0804_0201_u64 as i64);
    let set = _mm256_cmpeq_epi8(_mm256_and_si256(bits, bit), bit);
    _mm256_or_si256(codes, _mm256_and_si256(set, _mm256_set1_epi8(16)))
}

/// The terms of blocks with a minimum, `(d * da) * f32(S) + m * s`, from four parts of each
/// sum.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn with_minimum([d, m]: [__m256; 2], parts: [__m256i; 4], activation: &Activation) -> __m256 {
    let minimum = _mm256_mul_ps(m, activation.s);
    _mm256_add_ps(scaled(d, sum_halves(parts), activation), minimum)
}
