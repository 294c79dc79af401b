//! Blocks of 256 weights as rows of a codebook with signs (blocks.md, "256 weights,
//! I-quants"): iq2_xxs, iq2_xs, iq2_s, iq3_xxs, iq3_s.
//!
//! A codebook is looked up in registers: its magnitudes are few, so that a row is two bytes of
//! short codes, and 64 bytes at once are picked from 128 by one instruction of VBMI. The codes
//! of a block then stand in four vectors ([`Eights`]), one a byte, and what they stand for is
//! looked up in a table of its own: integers for products, f32 already scaled for decoding.

mod codebook;
mod decode;
mod iq2;
mod iq3;

use crate::arch::intrinsics::*;

use hk_core::StorageType;

use crate::arch::avx2;
use crate::arch::call::Decode;

pub(super) use self::codebook::{IQ2, IQ3_S, IQ3_XXS};
pub(super) use self::iq2::{nibbles_xxs, pair_s, pair_xs, pair_xxs};
pub(super) use self::iq3::{nibbles_s, unpack_s, unpack_xxs};

/// The decoder of a type: without VBMI, VBMI2, BITALG and GFNI that of the level below.
pub(super) fn decode(storage: StorageType, extended: bool) -> Option<Decode> {
    if !extended {
        return avx2::iq23::decode(storage);
    }
    Some(match storage {
        StorageType::IQ2_XXS => decode::iq2_xxs,
        StorageType::IQ2_XS => decode::iq2_xs,
        StorageType::IQ2_S => decode::iq2_s,
        StorageType::IQ3_XXS => decode::iq3_xxs,
        StorageType::IQ3_S => decode::iq3_s,
        _ => return None,
    })
}

/// The weights of a block. Each of its groups of 32 has a 64-bit lane in each vector.
#[derive(Clone, Copy)]
pub(super) struct Eights {
    /// Vector `k` has weights `8k` to `8k + 7` of each group, a code in the low bits of each
    /// byte: two bits (iq2) or four of which the upmost is 0 (iq3). The bits above may be any.
    pub(super) codes: [__m512i; 4],
    /// The low four bytes of each lane are sign bytes: bit `j` of byte `k` negates the weight
    /// of byte `j` in vector `k`. The other four may be any.
    pub(super) signs: __m512i,
}

/// In each byte `j` of each lane the eight bits of `lanes` from bit `FROM + STEP * j` on, lanes
/// going round.
#[inline]
#[target_feature(enable = "avx512f,avx512vbmi")]
fn spread<const FROM: i32, const STEP: i32>(lanes: __m512i) -> __m512i {
    let from = _mm512_set1_epi64(const { eight_from(FROM, STEP) });
    _mm512_multishift_epi64_epi8(from, lanes)
}

/// Bytes of `from + step * j` modulo 64.
const fn eight_from(from: i32, step: i32) -> i64 {
    let mut bytes = [0; 8];
    let mut j = 0;
    while j < 8 {
        bytes[j] = (from + step * j as i32).rem_euclid(64) as u8;
        j += 1;
    }
    i64::from_le_bytes(bytes)
}

/// Sign bytes of 7-bit indexes in bits `LOW` to `LOW + 6` of each byte: bit 7 makes the number
/// of ones even.
#[inline]
#[target_feature(enable = "avx512f,gfni")]
fn even_signs<const LOW: u32>(indexes: __m512i) -> __m512i {
    // Bit `i` of a result is the parity of the bits that byte `7 - i` has.
    let matrix = const {
        let mut rows = [0_u8; 8];
        rows[0] = 0x7F << LOW;
        let mut i = 0;
        while i < 7 {
            rows[7 - i] = 1 << (i as u32 + LOW);
            i += 1;
        }
        i64::from_le_bytes(rows)
    };
    _mm512_gf2p8affine_epi64_epi8::<0>(indexes, _mm512_set1_epi64(matrix))
}

/// Twice the 4-bit scale in the low bits of each 32-bit lane and one.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn odd(doubled: __m512i) -> __m512i {
    // (a & 30) | 1.
    let (mask, one) = (_mm512_set1_epi32(30), _mm512_set1_epi32(1));
    _mm512_ternarylogic_epi32::<0b1110_1010>(doubled, mask, one)
}
