//! What the kernels of `iq1_s` and `iq1_m` look rows up in.

use hk_core::blocks::codebooks::IQ1;

/// The eight weights of a row, nibble `i` (lowest first) that of weight `i`: two bits of
/// `g + 1`, and above them whether the row is shifted down. The row's number is that of the
/// codebook, plus 2048 where it is shifted down.
pub(super) static NIBBLES: [u32; 4096] = {
    let mut nibbles = [0; 4096];
    let mut row = 0;
    while row < 2048 {
        let mut i = 0;
        while i < 8 {
            nibbles[row] |= (IQ1[row][i].wrapping_add(1) as u32) << (4 * i);
            i += 1;
        }
        nibbles[row + 2048] = nibbles[row] | 0x4444_4444;
        row += 1;
    }
    nibbles
};

/// What a nibble of [`NIBBLES`] stands for: `g + delta`. Its highest bit says nothing.
pub(super) static SHIFTED: [f32; 16] = {
    let eight = [-0.875, 0.125, 1.125, 0.0, -1.125, -0.125, 0.875, 0.0];
    let mut twice = [0.0; 16];
    let mut i = 0;
    while i < 16 {
        twice[i] = eight[i % 8];
        i += 1;
    }
    twice
};

/// The nibbles of a row. The number is masked, which costs less than to check it.
#[inline(always)]
pub(super) fn nibbles(row: u16) -> u32 {
    NIBBLES[usize::from(row & 4095)]
}

/// The scale of a block of `iq1_m`, f16, from its four words of scales, whose upper nibbles are
/// the nibbles of it.
#[inline(always)]
pub(super) fn iq1_m_scale(scales: u64) -> [u8; 2] {
    let nibbles = scales >> 12 & 0x000F_000F_000F_000F;
    let pairs = nibbles | nibbles >> 12;
    (pairs as u16 & 0xFF | (pairs >> 24) as u16 & 0xFF00).to_le_bytes()
}

/// `N` rows of eight bytes, none of them in two cache lines.
#[repr(align(64))]
pub(super) struct Table<const N: usize>(pub(super) [[u8; 8]; N]);

/// Rows of the codebook as `g + 1`, by number: half as much to keep at hand as
/// [`SHIFTED_EIGHTHS`].
pub(super) static CODES: Table<2048> = {
    let mut codes = IQ1;
    let mut row = 0;
    while row < 2048 {
        let mut i = 0;
        while i < 8 {
            codes[row][i] = codes[row][i].wrapping_add(1);
            i += 1;
        }
        row += 1;
    }
    Table(codes)
};

/// Rows of the codebook as `8 * (g + delta) + 9`, by number; see [`nibbles`].
pub(super) static SHIFTED_EIGHTHS: Table<4096> = {
    let mut eighths = [[0; 8]; 4096];
    let mut row = 0;
    while row < 4096 {
        let mut i = 0;
        while i < 8 {
            let up = if row < 2048 { 2 } else { 0 };
            eighths[row][i] = (IQ1[row % 2048][i].wrapping_add(1) << 3) + up;
            i += 1;
        }
        row += 1;
    }
    Table(eighths)
};

/// The row as `8 * (g + delta) + 9`, by the lowest 12 bits of its number.
#[inline(always)]
pub(super) fn shifted_eighths(row: u64) -> &'static [u8; 8] {
    &SHIFTED_EIGHTHS.0[(row & 4095) as usize]
}
