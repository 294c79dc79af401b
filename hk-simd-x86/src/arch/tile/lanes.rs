//! Steps of taking blocks apart that types share.

use super::Level;

/// The same byte four times.
pub(super) const fn bytes(byte: u8) -> u32 {
    u32::from_ne_bytes([byte; 4])
}

/// The bits of `mask` of each byte, once it is shifted right by so many bits.
#[inline(always)]
pub(super) fn bits<V: Level<L>, const L: usize>(
    level: V,
    from: V::V,
    shift: u32,
    mask: u8,
) -> V::V {
    level.and(level.shift_right(from, shift), level.splat(bytes(mask)))
}

/// Sixteen bytes of each block, from byte `at` on, as four vectors.
#[inline(always)]
pub(super) fn column<V: Level<L>, const L: usize, const BYTES: usize>(
    level: V,
    blocks: &[&[u8; BYTES]; L],
    at: usize,
) -> [V::V; 4] {
    let mut column = [&[0; 16]; L];
    for (to, block) in column.iter_mut().zip(blocks) {
        *to = block.get(at..at + 16).and_then(<[u8]>::first_chunk).unwrap_or(to);
    }
    level.transpose(column)
}

/// Thirty-two bytes of each block, as eight vectors; see [`column`].
#[inline(always)]
pub(super) fn columns<V: Level<L>, const L: usize, const BYTES: usize>(
    level: V,
    blocks: &[&[u8; BYTES]; L],
    at: usize,
) -> [V::V; 8] {
    let [a, b, c, d] = column(level, blocks, at);
    let [e, f, g, h] = column(level, blocks, at + 16);
    [a, b, c, d, e, f, g, h]
}

/// The 16-bit number at byte `at` of each block.
#[inline(always)]
pub(super) fn shorts<V: Level<L>, const L: usize, const BYTES: usize>(
    level: V,
    blocks: &[&[u8; BYTES]; L],
    at: usize,
) -> V::V {
    let mut shorts = [0; L];
    for (to, block) in shorts.iter_mut().zip(blocks) {
        let bytes = block.get(at..at + 2).and_then(<[u8]>::first_chunk).unwrap_or(&[0; 2]);
        *to = u32::from(u16::from_le_bytes(*bytes));
    }
    level.load(&shorts)
}

/// The 32-bit number at byte `at` of each block.
#[inline(always)]
pub(super) fn words<V: Level<L>, const L: usize, const BYTES: usize>(
    level: V,
    blocks: &[&[u8; BYTES]; L],
    at: usize,
) -> V::V {
    let mut words = [0; L];
    for (to, block) in words.iter_mut().zip(blocks) {
        let bytes = block.get(at..at + 4).and_then(<[u8]>::first_chunk).unwrap_or(&[0; 4]);
        *to = u32::from_le_bytes(*bytes);
    }
    level.load(&words)
}

/// The two f16 at byte `at` of each block.
#[inline(always)]
pub(super) fn two_halves<V: Level<L>, const L: usize, const BYTES: usize>(
    level: V,
    blocks: &[&[u8; BYTES]; L],
    at: usize,
) -> (V::F, V::F) {
    let both = words(level, blocks, at);
    (level.halves(both), level.halves(level.shift_right(both, 16)))
}

/// The low half of each lane of `a`, with that of `b` above it.
#[inline(always)]
pub(super) fn pair<V: Level<L>, const L: usize>(level: V, a: V::V, b: V::V) -> V::V {
    level.or(level.and(a, level.splat(0xFFFF)), level.shift_left(b, 16))
}

/// Each lane `2^log2` times, negated.
#[inline(always)]
pub(super) fn negated_times<V: Level<L>, const L: usize>(level: V, log2: u32, a: V::V) -> V::V {
    level.sub(level.splat(0), level.shift_left(a, log2))
}
