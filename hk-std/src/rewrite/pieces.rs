//! A payload made piece by piece, as it is read.

use std::io::{self, Read};

use crate::error::Result;

/// A reader of pieces that are made when they are asked for.
pub(super) struct Pieces<F> {
    /// Fills an empty buffer with the next piece; says whether there was one.
    make: F,
    piece: Vec<u8>,
    read: usize,
}

impl<F: FnMut(&mut Vec<u8>) -> Result<bool>> Pieces<F> {
    pub(super) const fn new(make: F) -> Self {
        Pieces { make, piece: Vec::new(), read: 0 }
    }
}

impl<F: FnMut(&mut Vec<u8>) -> Result<bool>> Read for Pieces<F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.read == self.piece.len() {
            self.piece.clear();
            self.read = 0;
            if !(self.make)(&mut self.piece).map_err(io::Error::other)? {
                return Ok(0);
            }
        }
        let rest = &self.piece[self.read..];
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.read += count;
        Ok(count)
    }
}
