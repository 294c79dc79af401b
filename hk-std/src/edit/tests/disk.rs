//! A disk in memory that remembers what was done to it, and what a crash can leave of that.

use std::io;
use std::sync::{Arc, Mutex};

use crate::edit::files::Files;

/// What a disk tears writes into.
const SECTOR: u64 = 512;

#[derive(Clone, Debug)]
pub enum Op {
    Write(u64, Vec<u8>),
    SetLen(u64),
    Sync,
    Journal(Option<Vec<u8>>),
}

/// A file and its journal.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    pub bytes: Vec<u8>,
    pub journal: Option<Vec<u8>>,
}

impl State {
    fn apply(&mut self, op: &Op) {
        match op {
            Op::Write(offset, bytes) => {
                let (start, end) = (*offset as usize, *offset as usize + bytes.len());
                if self.bytes.len() < end {
                    self.bytes.resize(end, 0);
                }
                self.bytes[start..end].copy_from_slice(bytes);
            }
            Op::SetLen(len) => self.bytes.resize(*len as usize, 0),
            Op::Sync => {}
            Op::Journal(journal) => self.journal.clone_from(journal),
        }
    }
}

#[derive(Default)]
struct Inner {
    state: State,
    ops: Vec<Op>,
    /// The write, counted from 0, for which the disk has no room.
    full_at: Option<usize>,
    writes: usize,
    /// Bytes read and written.
    traffic: usize,
}

/// The disk; clones are the same one.
#[derive(Clone, Default)]
pub struct Disk(Arc<Mutex<Inner>>);

impl Disk {
    pub fn new(state: State) -> Self {
        let disk = Disk::default();
        disk.0.lock().unwrap().state = state;
        disk
    }

    /// Refuses one write.
    pub fn full_at(self, write: usize) -> Self {
        self.0.lock().unwrap().full_at = Some(write);
        self
    }

    pub fn state(&self) -> State {
        self.0.lock().unwrap().state.clone()
    }

    pub fn ops(&self) -> Vec<Op> {
        self.0.lock().unwrap().ops.clone()
    }

    pub fn traffic(&self) -> usize {
        self.0.lock().unwrap().traffic
    }

    fn done(&self, op: Op) -> io::Result<()> {
        let mut inner = self.0.lock().unwrap();
        if matches!(op, Op::Write(..) | Op::Journal(Some(_))) {
            inner.writes += 1;
            if inner.full_at == Some(inner.writes - 1) {
                // Half of it is there.
                if let Op::Write(offset, bytes) = op {
                    let half = Op::Write(offset, bytes[..bytes.len() / 2].to_vec());
                    inner.state.apply(&half);
                }
                return Err(io::ErrorKind::StorageFull.into());
            }
        }
        if let Op::Write(_, bytes) = &op {
            inner.traffic += bytes.len();
        }
        inner.state.apply(&op);
        inner.ops.push(op);
        Ok(())
    }
}

impl Files for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().unwrap().state.bytes.len() as u64)
    }

    fn read_at(&mut self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let mut inner = self.0.lock().unwrap();
        inner.traffic += bytes.len();
        let from = inner.state.bytes.get(offset as usize..).and_then(|b| b.get(..bytes.len()));
        bytes.copy_from_slice(from.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.done(Op::Write(offset, bytes.to_vec()))
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        self.done(Op::SetLen(len))
    }

    fn sync(&mut self) -> io::Result<()> {
        self.done(Op::Sync)
    }

    fn journal(&mut self) -> io::Result<Option<Vec<u8>>> {
        Ok(self.state().journal)
    }

    fn write_journal(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.done(Op::Journal(Some(bytes.to_vec())))
    }

    fn remove_journal(&mut self) -> io::Result<()> {
        self.done(Op::Journal(None))
    }
}

/// Everything that a crash can leave: for each prefix of `ops`, what was synced, with any of
/// the pieces of sectors that were written since, in any order. All choices where there are few,
/// else some that `random` picks.
pub fn crashes(before: &State, ops: &[Op], random: &mut impl FnMut() -> u64) -> Vec<State> {
    let mut images = Vec::new();
    let mut synced = before.clone();
    let mut pending: Vec<Op> = Vec::new();
    for op in ops {
        match op {
            // What was written before may still be on its way; a journal is there at once.
            Op::Journal(_) => synced.apply(op),
            Op::Sync => pending.drain(..).for_each(|op| synced.apply(&op)),
            op => pending.extend(pieces(op)),
        }
        choices(&synced, &pending, random, &mut images);
    }
    images
}

/// The parts of a write that lie in one sector each.
fn pieces(op: &Op) -> Vec<Op> {
    let &Op::Write(mut offset, ref bytes) = op else { return vec![op.clone()] };
    let mut bytes = &bytes[..];
    let mut pieces = Vec::new();
    while !bytes.is_empty() {
        let now = bytes.len().min((SECTOR - offset % SECTOR) as usize);
        pieces.push(Op::Write(offset, bytes[..now].to_vec()));
        (offset, bytes) = (offset + now as u64, &bytes[now..]);
    }
    pieces
}

fn choices(
    synced: &State,
    pending: &[Op],
    random: &mut impl FnMut() -> u64,
    images: &mut Vec<State>,
) {
    let count = pending.len();
    let sets: Vec<u64> = if count <= 7 {
        (0..1 << count).collect()
    } else {
        let all = u64::MAX >> (64 - count.min(64));
        let ends = [0, all, 1, all >> 1, all & !1];
        ends.into_iter().chain((0..120).map(|_| random() & all)).collect()
    };
    for set in sets {
        let mut image = synced.clone();
        for (_, op) in pending.iter().enumerate().filter(|(i, _)| set >> i & 1 == 1) {
            image.apply(op);
        }
        images.push(image);
    }
}
