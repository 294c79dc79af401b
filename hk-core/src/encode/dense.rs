//! Elements of dense types: each weight to the nearest number, ties to even.

use super::Encode;
use super::lanes::Lanes;
use crate::blocks::{Bf16, F16, F32, Fp8E4M3, Fp8E5M2};
use crate::vector;

impl Encode<1> for F32 {
    const LARGEST: f32 = f32::MAX;

    #[inline(always)]
    fn encode<V: Lanes>(&[weight]: &[f32; 1], _: Option<&[f32; 1]>) -> Self {
        F32(weight.to_le_bytes())
    }
}

impl Encode<1> for F16 {
    // Half a unit over the largest f16 and more would be infinite.
    const LARGEST: f32 = 65_520.0_f32.next_down();

    #[inline(always)]
    fn encode<V: Lanes>(weight: &[f32; 1], _: Option<&[f32; 1]>) -> Self {
        let mut half = [[0; 2]];
        vector::to_f16(weight, &mut half);
        F16(half[0])
    }
}

impl Encode<1> for Bf16 {
    const LARGEST: f32 = f32::from_bits(0x7F7F_7FFF);

    #[inline(always)]
    fn encode<V: Lanes>(&[weight]: &[f32; 1], _: Option<&[f32; 1]>) -> Self {
        let bits = weight.to_bits();
        let odd = bits >> 16 & 1;
        Bf16(((bits.wrapping_add(0x7FFF + odd) >> 16) as u16).to_le_bytes())
    }
}

/// The 8-bit float nearest to `weight`, with `MANTISSA` bits of mantissa, the exponents of
/// f32 less `bias`.
#[inline(always)]
fn fp8<const MANTISSA: u32>(weight: f32, bias: u32) -> u8 {
    let (bits, dropped) = (weight.to_bits(), const { 23 - MANTISSA });
    let magnitude = bits & 0x7FFF_FFFF;
    let odd = magnitude >> dropped & 1;
    let half = (1 << (dropped - 1)) - 1;
    let normal = (magnitude + half + odd).wrapping_sub(bias << 23) >> dropped;
    // Under the smallest normal number the last place is that of a power of two, to which an
    // addition rounds.
    let power = (bias + 1 + dropped) << 23;
    let small = (f32::from_bits(magnitude) + f32::from_bits(power)).to_bits().wrapping_sub(power);
    let code = if magnitude < (bias + 1) << 23 { small } else { normal };
    (code | bits >> 24 & 0x80) as u8
}

impl Encode<1> for Fp8E4M3 {
    // The tie between 448 and what would be NaN goes to 448, which is even.
    const LARGEST: f32 = 464.0;

    #[inline(always)]
    fn encode<V: Lanes>(&[weight]: &[f32; 1], _: Option<&[f32; 1]>) -> Self {
        Fp8E4M3(fp8::<3>(weight, 120))
    }
}

impl Encode<1> for Fp8E5M2 {
    const LARGEST: f32 = 61_440.0_f32.next_down();

    #[inline(always)]
    fn encode<V: Lanes>(&[weight]: &[f32; 1], _: Option<&[f32; 1]>) -> Self {
        Fp8E5M2(fp8::<2>(weight, 112))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::lanes::Sixteen;

    /// Every finite code, the points halfway between it and the next, and a little to either
    /// side of these.
    fn every_code<B: Encode<1>>(bytes: impl Fn(u16) -> B, of: impl Fn(&B) -> u16, codes: u16) {
        let number = |code| {
            let mut number = [0.0];
            bytes(code).decode(&mut number);
            number[0]
        };
        for code in (0..codes).step_by(if cfg!(miri) { 97 } else { 1 }) {
            let encode = |weight: f32| of(&B::encode::<Sixteen>(&[weight], None));
            let x = number(code);
            assert!(x.abs() <= B::LARGEST);
            assert_eq!(encode(x), code, "{x}");
            let sign = encode(-x) ^ code;
            assert!(sign.is_power_of_two() && sign > code, "{x}");
            if code + 1 < codes {
                let middle = ((f64::from(x) + f64::from(number(code + 1))) / 2.0) as f32;
                assert_eq!(encode(middle), code + (code & 1), "{middle}");
                assert_eq!(encode(middle.next_down()), code, "{middle}");
                assert_eq!(encode(middle.next_up()), code + 1, "{middle}");
            } else {
                assert_eq!(encode(B::LARGEST), code);
            }
        }
    }

    #[test]
    fn weights_go_to_the_nearest_number() {
        let short = |bytes: [u8; 2]| u16::from_le_bytes(bytes);
        every_code(|code| F16(code.to_le_bytes()), |f| short(f.0), 0x7C00);
        every_code(|code| Bf16(code.to_le_bytes()), |f| short(f.0), 0x7F80);
        every_code(|code| Fp8E4M3(code as u8), |f| f.0.into(), 0x7F);
        every_code(|code| Fp8E5M2(code as u8), |f| f.0.into(), 0x7C);
    }
}
