//! What a level does with vectors.

use hk_core::dot::{RowQ32, RowQ256};

use super::{Block32, Block64, Block256, TILE};

/// The sums of a group of rows with a tile of activations: four lanes (dot-products.md, "Sum")
/// for each product.
pub(in crate::arch) type Sums<F> = [[F; TILE]; 4];

/// What a level does with vectors of `L` lanes, a lane a weight row.
///
/// A value of it is the right to use the level's instructions: it is made only in functions
/// that have the features of the level.
pub(in crate::arch) trait Level<const L: usize>: Copy {
    /// Lanes of 32 bits: numbers, or four bytes.
    type V: Copy;
    /// Lanes of f32.
    type F: Copy;

    /// Lanes out of memory.
    fn load(self, lanes: &[u32; L]) -> Self::V;
    /// The same number in all lanes.
    fn splat(self, lane: u32) -> Self::V;
    fn and(self, a: Self::V, b: Self::V) -> Self::V;
    fn or(self, a: Self::V, b: Self::V) -> Self::V;
    fn xor(self, a: Self::V, b: Self::V) -> Self::V;
    fn sub(self, a: Self::V, b: Self::V) -> Self::V;
    fn mul(self, a: Self::V, b: Self::V) -> Self::V;
    fn shift_left(self, a: Self::V, bits: u32) -> Self::V;
    fn shift_right(self, a: Self::V, bits: u32) -> Self::V;
    /// Of each byte, all under 16, what stands in its place in `table`.
    fn look_up(self, table: &[u8; 16], codes: Self::V) -> Self::V;
    /// The f16 in the low half of each lane.
    fn halves(self, bits: Self::V) -> Self::F;
    /// Sixteen bytes of each row as four vectors: bytes `4k` to `4k + 3` in vector `k`.
    fn transpose(self, rows: [&[u8; 16]; L]) -> [Self::V; 4];

    /// Floats out of memory.
    fn load_floats(self, lanes: &[f32; L]) -> Self::F;
    fn add(self, a: Self::F, b: Self::F) -> Self::F;
    /// Floats to memory.
    fn floats(self, lanes: Self::F) -> [f32; L];
    /// Floats, of which the lanes are the bits, to memory.
    fn bits_of_floats(self, lanes: Self::V) -> [f32; L];

    /// Adds the terms of `blocks` of each row, of which the first is block `first`, a multiple
    /// of 4, with those of each activation to the four lanes of `sums`. Codes are unsigned, with the offset that is to be taken off: none (0), or the power
    /// of two that is at least half of what codes reach.
    fn add_32<const OFFSET: u32, const MINIMUM: bool>(
        self,
        blocks: &[Block32<Self::V, Self::F>],
        first: usize,
        activations: &[RowQ32<'_>],
        sums: &mut Sums<Self::F>,
    );

    /// Adds the terms of a block of 256 weights of each row with block `b` of each activation
    /// to `sums`: with `SCALES` sub-scales: 16, 8
    /// or 1 (which is 1); or 0 for two planes of codes. `WIDE` codes go beyond 128. With
    /// `MINIMUM`, the corrections times `m` are taken off; else they are part of the sum.
    fn add_256<const SCALES: usize, const WIDE: bool, const MINIMUM: bool>(
        self,
        block: &Block256<Self::V, Self::F>,
        b: usize,
        activations: &[RowQ256<'_>],
        sums: &mut [Self::F],
    );

    /// Adds the terms of a stored block of nvfp4 of each row, four blocks of 16, with blocks
    /// `2b` and `2b + 1` of each activation to the four lanes of `sums`.
    fn add_nvfp4(
        self,
        block: &Block64<Self::V, Self::F>,
        b: usize,
        activations: &[RowQ32<'_>],
        sums: &mut Sums<Self::F>,
    );
}
