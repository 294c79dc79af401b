//! Checked reading of untrusted bytes: the only place that slices a file.

use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::error::{Error, ErrorKind, Section};

/// Reads forward through one section, and knows where it is for error messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
    section: Section,
    offset: u64,
}

impl<'a> Reader<'a> {
    /// A reader over `bytes`, which start at absolute `offset`.
    pub(crate) const fn new(bytes: &'a [u8], section: Section, offset: u64) -> Self {
        Reader { rest: bytes, section, offset }
    }

    /// Absolute offset of the next byte.
    pub(crate) const fn offset(&self) -> u64 {
        self.offset
    }

    /// What is left.
    pub(crate) const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// An error at the next byte.
    pub(crate) const fn error(&self, kind: ErrorKind) -> Error {
        Error::new(kind, self.section, self.offset)
    }

    /// The next `len` bytes.
    pub(crate) fn take(&mut self, len: u64) -> Result<&'a [u8], Error> {
        let taken = usize::try_from(len).ok().and_then(|len| self.rest.split_at_checked(len));
        let Some((head, rest)) = taken else {
            let available = self.rest.len() as u64;
            return Err(self.error(ErrorKind::Truncated { needed: len, available }));
        };
        self.rest = rest;
        self.offset = self.offset.saturating_add(len);
        Ok(head)
    }

    /// The next value of a layout type.
    pub(crate) fn read<T: FromBytes + KnownLayout + Immutable + Unaligned>(
        &mut self,
    ) -> Result<&'a T, Error> {
        let Ok((value, rest)) = T::ref_from_prefix(self.rest) else {
            let (needed, available) = (size_of::<T>() as u64, self.rest.len() as u64);
            return Err(self.error(ErrorKind::Truncated { needed, available }));
        };
        self.rest = rest;
        self.offset = self.offset.saturating_add(size_of::<T>() as u64);
        Ok(value)
    }

    /// The next `len` bytes as UTF-8 text.
    pub(crate) fn text(&mut self, len: u64) -> Result<&'a str, Error> {
        let at = *self;
        let bytes = self.take(len)?;
        core::str::from_utf8(bytes)
            .map_err(|e| at.error(ErrorKind::Text).moved_by(e.valid_up_to() as u64))
    }
}

/// The bytes of `offset..offset + size`, or `None` where they pass the end.
pub(crate) fn range(bytes: &[u8], offset: u64, size: u64) -> Option<&[u8]> {
    let end = offset.checked_add(size)?;
    bytes.get(usize::try_from(offset).ok()?..usize::try_from(end).ok()?)
}

/// Cuts off the first `len`, or all where there are fewer.
#[inline(always)]
pub(crate) fn take<'a, T>(from: &mut &'a [T], len: usize) -> &'a [T] {
    let (head, rest) = from.split_at_checked(len).unwrap_or((from, &[]));
    *from = rest;
    head
}

/// As [`take`], of weights to be written.
#[inline(always)]
pub(crate) fn take_mut<'a, T>(from: &mut &'a mut [T], len: usize) -> &'a mut [T] {
    let len = len.min(from.len());
    let (head, rest) = core::mem::take(from).split_at_mut_checked(len).unwrap_or_default();
    *from = rest;
    head
}

/// The first of `from`, at most `N`, and `rest` where there are fewer.
#[inline(always)]
pub(crate) fn filled_up<T: Copy, const N: usize>(from: &[T], rest: T) -> [T; N] {
    let mut filled = [rest; N];
    for (to, from) in filled.iter_mut().zip(from) {
        *to = *from;
    }
    filled
}
