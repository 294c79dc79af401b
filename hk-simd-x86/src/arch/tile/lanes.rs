//! Arrays of lanes, a lane a weight row: what a compiler makes one vector instruction of.

/// `f` of each lane.
#[inline(always)]
pub(super) fn each<T: Copy, U: Copy + Default, const L: usize>(
    lanes: [T; L],
    f: impl Fn(T) -> U,
) -> [U; L] {
    let mut to = [U::default(); L];
    for (to, lane) in to.iter_mut().zip(lanes) {
        *to = f(lane);
    }
    to
}

/// `f` of each pair of lanes.
#[inline(always)]
pub(super) fn both<const L: usize>(
    a: [u32; L],
    b: [u32; L],
    f: impl Fn(u32, u32) -> u32,
) -> [u32; L] {
    let mut to = [0; L];
    for ((to, a), b) in to.iter_mut().zip(a).zip(b) {
        *to = f(a, b);
    }
    to
}

/// The same byte four times.
pub(super) const fn bytes(byte: u8) -> u32 {
    u32::from_ne_bytes([byte; 4])
}

/// Sixteen bytes of each block, from byte `at` on.
#[inline(always)]
pub(super) fn column<'a, const L: usize, const BYTES: usize>(
    blocks: &[&'a [u8; BYTES]; L],
    at: usize,
) -> [&'a [u8; 16]; L] {
    let mut column = [&[0; 16]; L];
    for (to, block) in column.iter_mut().zip(blocks) {
        *to = block.get(at..at + 16).and_then(<[u8]>::first_chunk).unwrap_or(to);
    }
    column
}

/// The 16-bit number at byte `at` of each block.
#[inline(always)]
pub(super) fn shorts<const L: usize, const BYTES: usize>(
    blocks: &[&[u8; BYTES]; L],
    at: usize,
) -> [u32; L] {
    let mut shorts = [0; L];
    for (to, block) in shorts.iter_mut().zip(blocks) {
        let bytes = block.get(at..at + 2).and_then(<[u8]>::first_chunk).unwrap_or(&[0; 2]);
        *to = u32::from(u16::from_le_bytes(*bytes));
    }
    shorts
}

/// The 32-bit number at byte `at` of each block.
#[inline(always)]
pub(super) fn words<const L: usize, const BYTES: usize>(
    blocks: &[&[u8; BYTES]; L],
    at: usize,
) -> [u32; L] {
    let mut words = [0; L];
    for (to, block) in words.iter_mut().zip(blocks) {
        let bytes = block.get(at..at + 4).and_then(<[u8]>::first_chunk).unwrap_or(&[0; 4]);
        *to = u32::from_le_bytes(*bytes);
    }
    words
}

/// Both 16-bit halves of each lane with the low half of `a` and of `b`.
#[inline(always)]
pub(super) fn pair<const L: usize>(a: [i32; L], b: [i32; L]) -> [u32; L] {
    let mut to = [0; L];
    for ((to, a), b) in to.iter_mut().zip(a).zip(b) {
        *to = (a as u32 & 0xFFFF) | (b as u32) << 16;
    }
    to
}
