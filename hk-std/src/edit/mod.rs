//! Changing a file where it stands, safe against crashes.
//!
//! # Why a crash loses nothing
//! Payloads are never moved or written. What changes goes to bytes that nothing in the file
//! leads to, is synced, and only then a new header is written, which is 128 bytes in the first
//! sector of the file: whenever the machine stops, the header there is the old one or the new
//! one, and all that it leads to is whole. Bytes at the end of a file, or between its parts,
//! that nothing leads to are nothing to a reader.
//!
//! Two edits cannot be done so: one whose new sections must lie over the old ones, since there
//! is no other room in front of the payloads, and any edit of a sealed file, whose digest is
//! wrong as soon as one byte is. For these a journal, `NAME.journal` beside the file, holds what
//! will be written over. It is complete and synced before the first write to the file, and
//! taken away after the last one is synced: that is the moment when the edit is done. As long as
//! the journal is there, whoever edits the file next, or repairs it, puts the old bytes back, as
//! often as it takes. Undoing needs no room on the disk, so a full disk is undone at once.
//!
//! A reader that knows nothing of the journal sees the old file or the new one, but for the time
//! between such a crash and its repair.
//!
//! # Who may do what at the same time
//! An [`Editor`] locks the file; a second one is refused. Readers need no lock. One that has the
//! file mapped finds payloads where they were, always. The old metadata and table stay where
//! they are until a later edit uses their place, or at once where sections overlap; the table of
//! a reader that was open before may then say anything, which costs it errors but no more, since
//! every number is checked each time it is read. A reader that cannot have this reads the file
//! into memory ([`ModelFile::read`](crate::ModelFile::read)).

mod appendix;
mod commit;
mod files;
mod head;
mod journal;
mod metadata;
mod repair;
#[cfg(test)]
mod tests;
mod value;

use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use hk_core::{Flags, Header};

use crate::error::{Error, Result};
use appendix::Records;
use commit::{Edit, Progress, commit, cut, digest, seal, unseal};
use files::{Files, OnDisk, journal_of};
use head::{Head, HeadError};
use journal::{Found, recover};
use metadata::Refusal;

pub use appendix::{Appended, NewRecord, RolledBack};
pub use metadata::{MetadataChange, MetadataPlace};
pub use repair::{RepairAction, repair};
pub use value::infer_value;

/// How a file is opened for editing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct EditOptions {
    /// Edit a sealed file also where its bytes do not have the digest that it states: after the
    /// edit they do.
    pub force: bool,
}

/// A file that is open for editing, and locked against other editors.
///
/// ```
/// use hk_std::edit::{EditOptions, Editor, MetadataChange, infer_value};
/// # fn main() -> hk_std::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("model.hk");
/// # let mut writer = hk_std::Writer::new();
/// # writer.metadata("general.name", hk_std::hk_core::Value::String("tiny"))?;
/// # writer.write(&path, |_, _| Ok(&[][..]))?;
/// let mut editor = Editor::open(&path, EditOptions::default())?;
/// editor.edit_metadata(&[
///     MetadataChange::Set { key: "general.version", value: infer_value("1.1.0") },
///     MetadataChange::Unset { key: "general.name" },
/// ])?;
/// # assert_eq!(hk_std::ModelFile::open(&path)?.metadata().len(), 1);
/// # Ok(())
/// # }
/// ```
pub struct Editor {
    path: PathBuf,
    files: Box<dyn Files + Send>,
    head: Head,
    undone: bool,
    force: bool,
}

impl fmt::Debug for Editor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Editor { path, undone, force, .. } = self;
        f.debug_struct("Editor")
            .field("path", path)
            .field("undone", undone)
            .field("force", force)
            .finish_non_exhaustive()
    }
}

impl Editor {
    /// Opens and locks the file that `path` means; links are followed. An edit that was
    /// interrupted is undone first.
    ///
    /// # Errors
    /// The file cannot be written, another editor has it, a journal beside it belongs to
    /// another file, or the file is damaged: nothing is changed then.
    pub fn open(path: impl AsRef<Path>, options: EditOptions) -> Result<Self> {
        let path = path.as_ref();
        Self::over(path, Box::new(OnDisk::open(path)?), options)
    }

    fn over(path: &Path, mut files: Box<dyn Files + Send>, options: EditOptions) -> Result<Self> {
        let found = recover(&mut *files, false).map_err(|e| failed(path, e))?;
        if found == Some(Found::Foreign) {
            return Err(foreign_journal(path));
        }
        let head = read_head(path, &mut *files)?;
        Ok(Editor {
            path: path.to_owned(),
            files,
            head,
            undone: matches!(found, Some(Found::Undone | Found::Finished)),
            force: options.force,
        })
    }

    /// Whether an interrupted edit was undone, or finished, when the file was opened.
    pub fn undone(&self) -> bool {
        self.undone
    }

    /// The header as it stands in the file.
    pub fn header(&self) -> &Header {
        &self.head.header
    }

    /// Makes all of `changes`, or none of them, in order. Takes milliseconds, whatever the
    /// file's size, unless it is sealed.
    ///
    /// # Errors
    /// A key that is to go and is not there, a key or value that is too long,
    /// [`Error::MetadataExceedsPaddingWithAppendix`], a broken seal (unless forced), and
    /// whatever the system refuses. The file is then as it was.
    pub fn edit_metadata(&mut self, changes: &[MetadataChange<'_>]) -> Result<MetadataPlace> {
        self.edit_metadata_with_progress(changes, &mut |_, _| ())
    }

    /// [`edit_metadata`](Self::edit_metadata), which tells `progress` how many bytes of a sealed
    /// file are hashed so far, and how many there are.
    ///
    /// # Errors
    /// As [`edit_metadata`](Self::edit_metadata).
    pub fn edit_metadata_with_progress(
        &mut self,
        changes: &[MetadataChange<'_>],
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<MetadataPlace> {
        let plan = metadata::plan(&self.head, changes).map_err(|e| refused(&self.path, e))?;
        let Some((edit, place)) = plan else { return Ok(MetadataPlace::Unchanged) };
        self.check_seal(progress)?;
        self.commit(edit, progress)?;
        Ok(place)
    }

    /// Gives the file a digest of itself, or a new one if it has one. `progress` is told how
    /// many bytes are hashed so far, and how many there are.
    ///
    /// # Errors
    /// A broken seal (unless forced): sealing would hide that the file was changed. Whatever the
    /// system refuses; the file is then as it was.
    pub fn seal(&mut self, progress: &mut dyn FnMut(u64, u64)) -> Result<[u8; 32]> {
        self.check_seal(progress)?;
        let mut header = self.head.header;
        header.flags = header.flags.with(Flags::SEALED);
        self.commit(Edit { header, writes: Vec::new(), overlaps: false }, progress)?;
        let digest = self.head.header.reserved.first_chunk().copied();
        Ok(digest.unwrap_or_default())
    }

    /// Takes the digest out of the file; `false` where there is none. A broken seal is no error:
    /// the file claims nothing any more.
    ///
    /// # Errors
    /// Whatever the system refuses; the file is then as it was.
    pub fn unseal(&mut self) -> Result<bool> {
        let mut header = self.head.header;
        if !header.flags.contains(Flags::SEALED) {
            return Ok(false);
        }
        unseal(&mut header);
        self.commit(Edit { header, writes: Vec::new(), overlaps: false }, &mut |_, _| ())?;
        Ok(true)
    }

    /// Appends a record with all that `data` gives. Neither moves a byte of the file nor reads
    /// more of it than its sections, the heads of the records and the last record, unless it is
    /// sealed: then `progress` is told how many bytes are hashed so far, and how many there are.
    ///
    /// # Errors
    /// A name or target that is too long, a type of 0, data that cannot be read, an appendix
    /// whose last record is not whole, a broken seal (unless forced), whatever the system
    /// refuses. The file is then as it was.
    pub fn append(
        &mut self,
        record: &NewRecord<'_>,
        data: &mut dyn Read,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Appended> {
        let records = self.records()?;
        if records.broken.is_some() {
            let (path, index) = (self.path.display(), records.places.len());
            return Err(Error::Invalid(format!(
                "{path}: appendix record {index} is not whole, so none can follow it: `hk repair \
                 {path}` cuts off one that an interrupted append left; `hk verify {path}` says more"
            )));
        }
        self.check_seal(progress)?;
        let files = &mut *self.files;
        let appended = appendix::append(files, &self.head, &records, record, data, progress)
            .map_err(|e| failed(&self.path, e))?;
        self.head = read_head(&self.path, &mut *self.files)?;
        Ok(appended)
    }

    /// Keeps the leading records whose generation is `generation` at most, and cuts off the
    /// rest. A broken record ends the leading ones.
    ///
    /// # Errors
    /// A broken seal (unless forced), whatever the system refuses. The file is then as it was.
    pub fn rollback(
        &mut self,
        generation: u32,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<RolledBack> {
        let records = self.records()?;
        let is_kept = |place: &&appendix::Place| place.head.generation <= generation;
        let kept = records.places.iter().take_while(is_kept).count();
        let end = records.places.get(kept).map_or(records.end, |first| first.offset);
        if self.head.header.appendix_offset == 0 || end >= self.head.len {
            return Ok(RolledBack { kept, cut: 0 });
        }
        self.check_seal(progress)?;
        let before = self.head.len;
        self.cut(kept, end, progress)?;
        Ok(RolledBack { kept, cut: before - self.head.len })
    }

    /// Cuts the appendix behind `kept` records, which end at `end`.
    fn cut(&mut self, kept: usize, end: u64, progress: Progress<'_>) -> Result<()> {
        let mut header = self.head.header;
        if kept == 0 {
            header.appendix_offset = 0;
            header.flags = Flags(header.flags.0 & !Flags::HAS_APPENDIX.0);
        }
        let files = &mut *self.files;
        cut(files, &self.head.header, header, end.min(self.head.len), progress)
            .map_err(|e| failed(&self.path, e))?;
        self.head = read_head(&self.path, &mut *self.files)?;
        Ok(())
    }

    fn records(&mut self) -> Result<Records> {
        Records::of(&mut *self.files, &self.head).map_err(|e| Error::io("read", &self.path, e))
    }

    fn commit(&mut self, edit: Edit, progress: Progress<'_>) -> Result<()> {
        commit(&mut *self.files, &self.head.header, edit, progress)
            .map_err(|e| failed(&self.path, e))?;
        self.head = read_head(&self.path, &mut *self.files)?;
        Ok(())
    }

    /// Checks that a sealed file has the bytes that it was sealed with.
    fn check_seal(&mut self, progress: Progress<'_>) -> Result<()> {
        let header = &self.head.header;
        if self.force || !header.flags.contains(Flags::SEALED) {
            return Ok(());
        }
        let mut stated = *header;
        let digest = digest(&mut *self.files, header, &[], self.head.len, progress)
            .map_err(|e| Error::io("read", &self.path, e))?;
        seal(&mut stated, &digest);
        if stated == *header {
            return Ok(());
        }
        let path = self.path.display();
        Err(Error::Invalid(format!(
            "{path}: the seal is broken: the bytes are not those that were sealed. Fetch the file \
             again; or, if the change was meant, edit it by force (--force), or `hk unseal {path}`"
        )))
    }
}

fn read_head(path: &Path, files: &mut dyn Files) -> Result<Head> {
    Head::read(files).map_err(|error| match error {
        HeadError::Io(e) => Error::io("read", path, e),
        HeadError::Format(e) => Error::format(path, None, e),
    })
}

/// An error of the system, or one of ours that came through it.
fn failed(path: &Path, error: io::Error) -> Error {
    error.downcast().unwrap_or_else(|error| Error::io("edit", path, error))
}

fn foreign_journal(path: &Path) -> Error {
    Error::Invalid(format!(
        "{}: {} was left by an interrupted edit of another file: put that file back, or remove the \
         journal if this one is the one to keep",
        path.display(),
        journal_of(path).display()
    ))
}

fn refused(path: &Path, refusal: Refusal) -> Error {
    let invalid = |text: String| Error::Invalid(format!("{}: {text}", path.display()));
    match refusal {
        Refusal::NoKey(key) => invalid(format!("there is no metadata key {key:?}")),
        Refusal::Pair(key, e) => invalid(format!("metadata {key:?}: {e}")),
        Refusal::TooLarge => invalid("offsets would pass 2^64".to_owned()),
        Refusal::NoRoom { needed, room } => {
            Error::MetadataExceedsPaddingWithAppendix { path: path.to_owned(), needed, room }
        }
    }
}
