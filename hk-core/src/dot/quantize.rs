//! Quantization of activation rows, straight from dot-products.md, "Activation". No
//! floating-point function of the host takes part, so that every host gives the same codes.

use super::{PartsQ32, PartsQ256, RowQ32, RowQ256};

/// Bits of 2^-100: a block whose magnitudes are all below it counts as zero.
const TINY: u32 = (127 - 100) << 23;
/// Bits of infinity: magnitudes from here on are not finite.
const INFINITE: u32 = 0x7F80_0000;
/// 1.5 * 2^23: added to a number below 2^22, it leaves no bits for a fraction, so that the
/// addition itself rounds half to even, into the low bits of the sum.
const ROUND: f32 = 12_582_912.0;

/// Quantizes the whole blocks of `row` by 32 into `scratch`; `None` when it is too short.
pub(super) fn row_q32<'a>(row: &[f32], scratch: &'a mut [u32]) -> Option<RowQ32<'a>> {
    let (blocks, _) = row.as_chunks();
    let parts = PartsQ32::carve(scratch, blocks.len())?;
    let beside = parts.d.iter_mut().zip(parts.s.iter_mut()).zip(parts.sums.iter_mut());
    for ((x, q), ((d, s), sum)) in blocks.iter().zip(parts.q.iter_mut()).zip(beside) {
        *d = block(x, q);
        *sum = q.iter().map(|&q| i32::from(q)).sum();
        *s = *d * *sum as f32;
    }
    parts.into_row()
}

/// Quantizes the whole blocks of `row` by 256 into `scratch`; `None` when it is too short.
pub(super) fn row_q256<'a>(row: &[f32], scratch: &'a mut [u32]) -> Option<RowQ256<'a>> {
    let (blocks, _) = row.as_chunks();
    let parts = PartsQ256::carve(scratch, blocks.len())?;
    let beside = parts.d.iter_mut().zip(parts.sums.iter_mut());
    for ((x, q), (d, sums)) in blocks.iter().zip(parts.q.iter_mut()).zip(beside) {
        *d = block(x, q);
        let (sixteens, _) = q.as_chunks::<16>();
        for (sum, q) in sums.iter_mut().zip(sixteens) {
            *sum = q.iter().map(|&q| i16::from(q)).sum();
        }
    }
    parts.into_row()
}

/// Quantizes one block: writes its codes and returns its scale.
fn block<const N: usize>(x: &[f32; N], q: &mut [i8; N]) -> f32 {
    let amax = x.iter().fold(0, |amax, x| (x.to_bits() & 0x7FFF_FFFF).max(amax));
    if !(TINY..INFINITE).contains(&amax) {
        *q = [0; N];
        return if amax < TINY { 0.0 } else { f32::NAN };
    }
    let amax = f32::from_bits(amax);
    let id = 127.0 / amax;
    for (q, x) in q.iter_mut().zip(x) {
        let rounded = (x * id + ROUND).to_bits().wrapping_sub(ROUND.to_bits()) as i32;
        *q = rounded.clamp(-127, 127) as i8;
    }
    amax / 127.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;
    use std::vec::Vec;

    fn q32(row: &[f32]) -> (Vec<i8>, Vec<f32>, Vec<f32>, Vec<i32>) {
        let mut scratch = vec![u32::MAX; row.len() / 32 * 11];
        let row = row_q32(row, &mut scratch).unwrap();
        (row.q().as_flattened().to_vec(), row.d().to_vec(), row.s().to_vec(), row.sums().to_vec())
    }

    #[test]
    fn halves_round_to_even_and_the_largest_is_127() {
        // 127 makes the scale 1, so that codes are the rounded values themselves.
        let mut row = [0.0; 32];
        let values = [127.0, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.499_999_97, -0.500_000_06, -0.0];
        row[..values.len()].copy_from_slice(&values);
        let (q, d, s, sums) = q32(&row);
        assert_eq!(q[..values.len()], [127, 0, 2, 2, 0, -2, -2, 0, -1, 0]);
        assert_eq!((d[0], sums[0], s[0]), (1.0, 126, 126.0));
    }

    #[test]
    fn blocks_below_2_to_the_minus_100_are_zero() {
        let tiny = f32::from_bits(TINY);
        assert_eq!(f64::from(tiny) * (1u128 << 100) as f64, 1.0);
        for (x, expected) in [
            (tiny, (tiny / 127.0, 127)),
            (-tiny.next_down(), (0.0, 0)),
            (f32::from_bits(1), (0.0, 0)),
            (0.0, (0.0, 0)),
            (-f32::MAX, (f32::MAX / 127.0, -127)),
        ] {
            let mut row = [0.0; 32];
            row[31] = x;
            let (q, d, s, sums) = q32(&row);
            assert_eq!((d[0], i32::from(q[31])), expected, "{x:e}");
            assert_eq!((sums[0], s[0]), (expected.1, expected.0 * expected.1 as f32), "{x:e}");
        }
    }

    #[test]
    fn what_is_not_finite_spoils_its_own_block_only() {
        for x in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::from_bits(0xFF80_0001)] {
            let mut row = [1.0; 96];
            row[40] = x;
            let (q, d, s, sums) = q32(&row);
            assert!(d[1].is_nan() && s[1].is_nan());
            assert_eq!((q[32..64].iter().all(|&q| q == 0), sums[1]), (true, 0));
            assert_eq!((d[0], q[95], sums[2]), (1.0 / 127.0, 127, 32 * 127));
        }
    }

    #[test]
    fn sums_by_sixteen() {
        let row: Vec<f32> = (0..512).map(|i| (i * 37 % 101) as f32 - 50.0).collect();
        let mut scratch = vec![u32::MAX; 2 * 73];
        let row = row_q256(&row, &mut scratch).unwrap();
        let (sixteens, _) = row.q().as_flattened().as_chunks::<16>();
        for (sum, q) in row.sums().as_flattened().iter().zip(sixteens) {
            assert_eq!(i32::from(*sum), q.iter().map(|&q| i32::from(q)).sum::<i32>());
        }
        assert_eq!(row.blocks().count(), 2);
    }

    #[test]
    fn codes_are_the_nearest_whole_numbers() {
        let mut bits = 1_u32;
        for _ in 0..if cfg!(miri) { 5 } else { 200 } {
            let row: [f32; 32] = core::array::from_fn(|_| {
                bits = bits.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                f32::from_bits((bits & 0x81FF_FFFF) + 0x3E00_0000)
            });
            let (q, d, ..) = q32(&row);
            let amax = row.iter().fold(0.0, |m: f32, x| m.max(x.abs()));
            assert_eq!(d[0], amax / 127.0);
            for (&q, x) in q.iter().zip(row) {
                let scaled = f64::from(x * (127.0 / amax));
                assert!((f64::from(q) - scaled).abs() <= 0.5 && q != -128);
            }
        }
    }
}
