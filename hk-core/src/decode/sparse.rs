//! Bitmask and 2:4 payloads, from any weight on (payloads.md, "Sparse payloads").

use core::ops::Range;

use super::{Source, check_data, marks_len};
use crate::backend::Backend;
use crate::bytes::take_mut;
use crate::error::{Error, ErrorKind, Section, SparseFault};

/// How many of the first `count` bits of `mask` are set.
pub fn ones(backend: &dyn Backend, mask: &[u8], count: u64) -> u64 {
    let bits = count & 7;
    let whole = usize::try_from(count >> 3).unwrap_or(usize::MAX);
    let (whole, rest) = mask.split_at_checked(whole).unwrap_or((mask, &[]));
    let last = rest.first().map_or(0, |last| (last & !(0xFF << bits)).count_ones());
    backend.count_ones(whole) + u64::from(last)
}

/// Decodes weights `range` of a bitmask payload.
pub(super) fn bitmask(
    backend: &dyn Backend,
    source: &Source<'_>,
    range: Range<u64>,
    mut out: &mut [f32],
) -> Result<(), Error> {
    let (mask, values) = head(source, 0)?;
    // From the byte on that the first weight's bit is in: what is before it has to be counted.
    let byte = usize::try_from(range.start >> 3).unwrap_or(usize::MAX);
    let (before, mask) = mask.split_at_checked(byte).unwrap_or((mask, &[]));
    let skip = (range.start & 7) as usize;
    let before = backend.count_ones(before);
    let ones = before + ones(backend, mask, range.end - (range.start & !7));
    if ones > values.len() as u64 {
        let fault = SparseFault::Ones { ones, values: values.len() as u64 };
        return Err(Error::new(ErrorKind::Sparse(fault), Section::Payload, 0));
    }
    // No more than there are values, by the comparison.
    let values = values.get(before as usize..).unwrap_or_default();
    if skip == 0 {
        backend.expand_bitmask(mask, values, out);
        return Ok(());
    }
    let Some((&first, mask)) = mask.split_first() else { return Ok(()) };
    head_by(skip, &mut out, |weights| backend.expand_bitmask(&[first], values, weights));
    let values = values.get(first.count_ones() as usize..).unwrap_or_default();
    backend.expand_bitmask(mask, values, out);
    Ok(())
}

/// Decodes weights of a 2:4 payload, from `start` on.
pub(super) fn two_of_four(
    backend: &dyn Backend,
    source: &Source<'_>,
    start: u64,
    mut out: &mut [f32],
) -> Result<(), Error> {
    let count = source.shape.count();
    if count & 3 != 0 {
        let kind = ErrorKind::Sparse(SparseFault::Groups { count });
        return Err(Error::new(kind, Section::Payload, 0));
    }
    // Two values for four weights.
    let (indexes, values) = head(source, count.saturating_mul(2))?;
    // From the byte on that the first weight's group is in: eight weights, four values.
    let byte = usize::try_from(start >> 3).unwrap_or(usize::MAX);
    let indexes = indexes.get(byte..).unwrap_or_default();
    let values = values.get(byte.saturating_mul(4)..).unwrap_or_default();
    let skip = (start & 7) as usize;
    if skip == 0 {
        backend.expand_2_4(indexes, values, out);
        return Ok(());
    }
    head_by(skip, &mut out, |weights| backend.expand_2_4(indexes, values, weights));
    let indexes = indexes.get(1..).unwrap_or_default();
    backend.expand_2_4(indexes, values.get(4..).unwrap_or_default(), out);
    Ok(())
}

/// A bit for each weight, padded, and the values after them, of which there have to be
/// `values` bytes.
fn head<'a>(source: &Source<'a>, values: u64) -> Result<(&'a [u8], &'a [[u8; 4]]), Error> {
    let marks = marks_len(source.shape.count());
    let needed = marks.saturating_add(values);
    check_data(needed, source.data.len() as u64)?;
    // They fit, by the comparison.
    let marks = usize::try_from(marks).unwrap_or(usize::MAX);
    let (marks, values) = source.data.split_at_checked(marks).unwrap_or_default();
    Ok((marks, values.as_chunks().0))
}

/// The first weights of `out`, by way of the eight of which `decode` decodes all: those from
/// the `skip`-th on.
fn head_by(skip: usize, out: &mut &mut [f32], decode: impl FnOnce(&mut [f32])) {
    let mut weights = [0.0; 8];
    decode(&mut weights);
    let weights = weights.get(skip..).unwrap_or_default();
    for (to, from) in take_mut(out, weights.len()).iter_mut().zip(weights) {
        *to = *from;
    }
}
