//! The codebooks of the I-quants (blocks.md, "256 weights, I-quants"), row after row, for
//! kernels of other crates.

/// Rows of `N` values out of the raw bytes of a grid.
const fn rows<const N: usize, const ROWS: usize>(bytes: &[u8]) -> [[u8; N]; ROWS] {
    let mut rows = [[0; N]; ROWS];
    let (chunks, rest) = bytes.as_chunks::<N>();
    assert!(chunks.len() == ROWS && rest.is_empty(), "a grid of the wrong size");
    let mut row = 0;
    while row < ROWS {
        rows[row] = chunks[row];
        row += 1;
    }
    rows
}

/// `iq2_xxs`: magnitudes of 8 weights.
pub static IQ2_XXS: [[u8; 8]; 256] = rows(include_bytes!("grids/iq2_xxs.grid"));
/// `iq2_xs`: magnitudes of 8 weights.
pub static IQ2_XS: [[u8; 8]; 512] = rows(include_bytes!("grids/iq2_xs.grid"));
/// `iq2_s`: magnitudes of 8 weights.
pub static IQ2_S: [[u8; 8]; 1024] = rows(include_bytes!("grids/iq2_s.grid"));
/// `iq3_xxs`: magnitudes of 4 weights.
pub static IQ3_XXS: [[u8; 4]; 256] = rows(include_bytes!("grids/iq3_xxs.grid"));
/// `iq3_s`: magnitudes of 4 weights.
pub static IQ3_S: [[u8; 4]; 512] = rows(include_bytes!("grids/iq3_s.grid"));
/// `iq1_s` and `iq1_m`: 8 weights, each -1, 0 or 1 as the bytes of an `i8`.
pub static IQ1: [[u8; 8]; 2048] = rows(include_bytes!("grids/iq1_s.grid"));

/// `iq4_nl` and `iq4_xs`: what each 4-bit code stands for.
pub static IQ4: [i8; 16] =
    [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];
/// [`IQ4`] for both codes of a byte.
pub(crate) static IQ4_PAIRS: [u16; 256] = super::unpack::pairs(&IQ4);
