//! Sixteen `f32` at once, which encoders are written in: a backend puts its vectors here, and
//! an encoder gives the same bits with each.

use core::ops::{Add, Div, Mul, Sub};

use crate::blocks::F16;
use crate::dot::fold16;
use crate::vector;

/// 1.5 * 2^23: added to a number below 2^22, it leaves no bits for a fraction, so that the
/// addition itself rounds half to even.
const ROUND: f32 = 12_582_912.0;

/// Sixteen `f32`, with the operations of IEEE 754 on each, rounded once each.
///
/// Every implementation gives the same bits. Methods that have a body say what they give; an
/// implementation may have a faster way.
pub trait Lanes:
    Copy + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + Div<Output = Self>
{
    /// The same number in each lane.
    fn splat(x: f32) -> Self;

    /// Lanes out of an array.
    fn load(x: &[f32; 16]) -> Self;

    /// Lanes as an array.
    fn to_array(self) -> [f32; 16];

    /// In each lane the smaller number: `self` where it is less than `other`, else that.
    fn min(self, other: Self) -> Self;

    /// In each lane the larger number: `self` where it is more than `other`, else that.
    fn max(self, other: Self) -> Self;

    /// `yes` where `self` is less than `other`, else `no`.
    fn where_less(self, other: Self, yes: Self, no: Self) -> Self;

    /// Bit `l` says whether lane `l` of `self` is less than that of `other`.
    fn less(self, other: Self) -> u16;

    /// Lanes 0 and 1, 2 and 3, and so on change places.
    fn swap_pairs(self) -> Self;

    /// The nearest whole numbers, ties to even, of numbers below 2^22; none is -0.
    #[inline(always)]
    fn round(self) -> Self {
        (self + Self::splat(ROUND)) - Self::splat(ROUND)
    }

    /// The whole numbers nearest to `self`, ties to even, in the low nibbles of bytes and those
    /// nearest to `high` in the high ones, after `offset`, an even number, was added: of sums
    /// from 0 to 31 their low four bits. And the fifth bits: bit `l` that of lane `l`, then
    /// those of `high`.
    #[inline(always)]
    fn to_nibbles(self, high: Self, offset: f32) -> ([u8; 16], u32) {
        let round = Self::splat(ROUND + offset);
        let (low, high) = (self + round, high + round);
        let mut bytes = [0; 16];
        let mut fifths = 0;
        let both = low.to_array().into_iter().zip(high.to_array());
        for (l, (byte, (low, high))) in bytes.iter_mut().zip(both).enumerate() {
            let (low, high) = (low.to_bits(), high.to_bits());
            *byte = (low & 15 | high << 4) as u8;
            fifths |= (low >> 4 & 1 | (high >> 4 & 1) << 16) << l;
        }
        (bytes, fifths)
    }

    /// Lane `l` is the smallest number of row `l`.
    #[inline(always)]
    fn smallest(rows: [Self; 16]) -> Self {
        let [first, rest @ ..] = Self::transpose(rows);
        let mut smallest = first;
        for row in rest {
            smallest = row.min(smallest);
        }
        smallest
    }

    /// Whole numbers from 0 to 255 as bytes.
    #[inline(always)]
    fn to_bytes(self) -> [u8; 16] {
        self.to_array().map(|x| (x + ROUND).to_bits() as u8)
    }

    /// The sum of the lanes: lane `l + 8` onto `l`, then `l + 4`, `l + 2` and `l + 1`.
    #[inline(always)]
    fn sum(self) -> f32 {
        fold16(self.to_array())
    }

    /// The smallest number of `self` and the largest of `other`.
    #[inline(always)]
    fn ends(self, other: Self) -> (f32, f32) {
        let low = self.to_array().into_iter().fold(f32::INFINITY, |a, b| if b < a { b } else { a });
        let high =
            other.to_array().into_iter().fold(f32::NEG_INFINITY, |a, b| if b > a { b } else { a });
        (low, high)
    }

    /// The nearest f16, and the number that it is; of finite ones over 65,504 that.
    #[inline(always)]
    fn half(x: f32) -> (F16, f32) {
        let mut half = [[0; 2]];
        vector::to_f16(&[x.clamp(-LARGEST_F16, LARGEST_F16)], &mut half);
        let half = F16(half[0]);
        (half, half.widened())
    }

    /// [`half`](Self::half) of each lane.
    #[inline(always)]
    fn halves(self) -> ([F16; 16], Self) {
        let limit = Self::splat(LARGEST_F16);
        let numbers = self.min(limit).max(Self::splat(-LARGEST_F16)).to_array();
        let mut halves = [[0; 2]; 16];
        vector::to_f16(&numbers, &mut halves);
        let halves = halves.map(F16);
        (halves, Self::load(&halves.map(F16::to_f32)))
    }

    /// Row `i` becomes lane `i` of every row.
    #[inline(always)]
    fn transpose(rows: [Self; 16]) -> [Self; 16] {
        let mut columns = [[0.0; 16]; 16];
        for (at, row) in rows.iter().enumerate() {
            for (column, x) in columns.iter_mut().zip(row.to_array()) {
                column[at & 15] = x;
            }
        }
        let mut transposed = rows;
        for (row, column) in transposed.iter_mut().zip(&columns) {
            *row = Self::load(column);
        }
        transposed
    }
}

/// 1 / `scale`, and 0 where the magnitude of the scale is under 1e-30: codes are 0 there.
#[inline(always)]
pub(super) fn inverses<V: Lanes>(scale: V) -> V {
    let (zero, tiny) = (V::splat(0.0), V::splat(1e-30));
    let magnitude = scale.max(zero - scale);
    let divisor = magnitude.where_less(tiny, tiny, scale);
    magnitude.where_less(tiny, zero, V::splat(1.0) / divisor)
}

/// The largest f16.
pub(super) const LARGEST_F16: f32 = 65_504.0;

/// Lanes in an array, for compilers to turn into what vectors the host has.
#[derive(Clone, Copy)]
pub struct Sixteen([f32; 16]);

impl Sixteen {
    #[inline(always)]
    fn with(self, other: Self, of: impl Fn(f32, f32) -> f32) -> Self {
        let mut lanes = self.0;
        for (a, b) in lanes.iter_mut().zip(other.0) {
            *a = of(*a, b);
        }
        Sixteen(lanes)
    }
}

impl Add for Sixteen {
    type Output = Self;
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        self.with(other, |a, b| a + b)
    }
}

impl Sub for Sixteen {
    type Output = Self;
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        self.with(other, |a, b| a - b)
    }
}

impl Mul for Sixteen {
    type Output = Self;
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        self.with(other, |a, b| a * b)
    }
}

impl Div for Sixteen {
    type Output = Self;
    #[inline(always)]
    fn div(self, other: Self) -> Self {
        self.with(other, |a, b| a / b)
    }
}

impl Lanes for Sixteen {
    #[inline(always)]
    fn splat(x: f32) -> Self {
        Sixteen([x; 16])
    }

    #[inline(always)]
    fn load(x: &[f32; 16]) -> Self {
        Sixteen(*x)
    }

    #[inline(always)]
    fn to_array(self) -> [f32; 16] {
        self.0
    }

    #[inline(always)]
    fn min(self, other: Self) -> Self {
        self.with(other, |a, b| if a < b { a } else { b })
    }

    #[inline(always)]
    fn max(self, other: Self) -> Self {
        self.with(other, |a, b| if a > b { a } else { b })
    }

    #[inline(always)]
    fn where_less(self, other: Self, yes: Self, no: Self) -> Self {
        let mut lanes = no.0;
        for (((lane, a), b), yes) in lanes.iter_mut().zip(self.0).zip(other.0).zip(yes.0) {
            *lane = if a < b { yes } else { *lane };
        }
        Sixteen(lanes)
    }

    #[inline(always)]
    fn less(self, other: Self) -> u16 {
        let less = self.0.iter().zip(&other.0).map(|(a, b)| u16::from(a < b));
        less.rev().fold(0, |bits, less| bits << 1 | less)
    }

    #[inline(always)]
    fn swap_pairs(self) -> Self {
        let mut lanes = self.0;
        for pair in lanes.as_chunks_mut::<2>().0 {
            *pair = [pair[1], pair[0]];
        }
        Sixteen(lanes)
    }
}
