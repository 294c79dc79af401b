//! The stream of bytes into a new file.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::ops::ControlFlow;
use std::path::Path;

use super::{Progress, unreadable};
use crate::error::{Error, Result};

/// Bytes that go to the file at once.
const BUFFER_LEN: usize = 1 << 20;

/// Gathers bytes in one buffer, which readers fill directly, and writes it when it is full.
pub(super) struct Sink<'a, P> {
    file: &'a File,
    path: &'a Path,
    buffer: Vec<u8>,
    filled: usize,
    progress: P,
    state: Progress,
}

impl<'a, P: FnMut(Progress) -> ControlFlow<()>> Sink<'a, P> {
    /// Writes a file of `total` bytes that shall become `path`.
    pub(super) fn new(file: &'a File, path: &'a Path, total: u64, progress: P) -> Self {
        let len = usize::try_from(total).map_or(BUFFER_LEN, |total| total.clamp(1, BUFFER_LEN));
        let state = Progress { done: 0, total };
        Sink { file, path, buffer: vec![0; len], filled: 0, progress, state }
    }

    /// Offset of the next byte.
    fn offset(&self) -> u64 {
        self.state.done + self.filled as u64
    }

    /// The free part of the buffer, which is written out first if there is none.
    fn free(&mut self) -> Result<&mut [u8]> {
        if self.filled == self.buffer.len() {
            self.flush()?;
        }
        Ok(&mut self.buffer[self.filled..])
    }

    fn flush(&mut self) -> Result<()> {
        let bytes = &self.buffer[..self.filled];
        self.file.write_all(bytes).map_err(|e| Error::io("write", self.path, e))?;
        self.state.done += self.filled as u64;
        self.filled = 0;
        match (self.progress)(self.state) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Error::Stopped),
        }
    }

    /// Adds `bytes`.
    pub(super) fn bytes(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let free = self.free()?;
            let (now, later) = bytes.split_at(free.len().min(bytes.len()));
            free[..now.len()].copy_from_slice(now);
            self.filled += now.len();
            bytes = later;
        }
        Ok(())
    }

    /// Adds zeros up to `offset`.
    pub(super) fn zeros_to(&mut self, offset: u64) -> Result<()> {
        // Never more than one alignment, 65536.
        let count = offset.saturating_sub(self.offset()) as usize;
        self.bytes(&vec![0; count])
    }

    /// Adds the `size` bytes that `reader` gives; `name` says of what they are.
    pub(super) fn payload(
        &mut self,
        mut reader: impl Read,
        size: u64,
        name: impl Fn() -> String,
    ) -> Result<()> {
        let mut left = size;
        while left > 0 {
            let free = self.free()?;
            let wanted = usize::try_from(left).map_or(free.len(), |left| left.min(free.len()));
            let count =
                read(&mut reader, &mut free[..wanted]).map_err(|e| unreadable(&name(), e))?;
            if count == 0 {
                let given = size - left;
                return Err(Error::Invalid(format!(
                    "{}: its source ended after {given} of {size} bytes: the source is cut short",
                    name()
                )));
            }
            self.filled += count;
            left -= count as u64;
        }
        match read(&mut reader, &mut [0]).map_err(|e| unreadable(&name(), e))? {
            0 => Ok(()),
            _ => Err(Error::Invalid(format!(
                "{}: its source goes on after the {size} bytes that were stated",
                name()
            ))),
        }
    }

    /// Writes out what is left.
    pub(super) fn finish(mut self) -> Result<()> {
        self.flush()
    }
}

/// `Read::read` that goes on after an interruption. What it gives is never more than there is
/// room for, whatever the reader says.
fn read(reader: &mut impl Read, buffer: &mut [u8]) -> std::io::Result<usize> {
    loop {
        match reader.read(buffer) {
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Ok(count) if count > buffer.len() => {
                let text = "its reader says that it gave more bytes than it was asked for";
                return Err(std::io::Error::other(text));
            }
            result => return result,
        }
    }
}
