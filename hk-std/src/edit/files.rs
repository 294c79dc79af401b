//! What an edit does with files, and the files of this system.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::replace::{Replacement, sync_folder};

/// The file that is edited, and the journal beside it. Edits go through this alone, so that
/// tests can see what is done in which order, and what a crash leaves of it.
pub(super) trait Files {
    /// Length of the file.
    fn len(&self) -> io::Result<u64>;
    /// Fills `bytes` from `offset` on; an error where the file ends before.
    fn read_at(&mut self, offset: u64, bytes: &mut [u8]) -> io::Result<()>;
    /// Writes `bytes` at `offset`; a file that ends before grows, with zeros between.
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Cuts or lengthens the file.
    fn set_len(&mut self, len: u64) -> io::Result<()>;
    /// Returns when all that was written will outlive a crash.
    fn sync(&mut self) -> io::Result<()>;
    /// The journal, if there is one.
    fn journal(&mut self) -> io::Result<Option<Vec<u8>>>;
    /// Puts the journal there, whole, to outlive a crash.
    fn write_journal(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Takes the journal away, for good also after a crash.
    fn remove_journal(&mut self) -> io::Result<()>;
}

/// A file on disk, locked against other editors.
#[derive(Debug)]
pub(super) struct OnDisk {
    file: File,
    journal: PathBuf,
}

impl OnDisk {
    /// Opens and locks the file that `path` means; links are followed.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let failed = |e| Error::io("edit", path, e);
        let invalid = |text: &str| Err(Error::Invalid(format!("{}: {text}", path.display())));
        let path = fs::canonicalize(path).map_err(failed)?;
        if !fs::metadata(&path).map_err(failed)?.is_file() {
            return invalid("this is no file: only a file can be edited");
        }
        let file = File::options().read(true).write(true).open(&path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return invalid("another program is editing this file: try again when it is done");
            }
            Err(TryLockError::Error(e)) => return Err(Error::io("lock", &path, e)),
        }
        // Another program can have put a new file in its place before the lock was ours.
        if !is_same(&file, &path).map_err(failed)? {
            return invalid("the file was replaced just now: try again");
        }
        Ok(OnDisk { file, journal: journal_of(&path) })
    }
}

/// Where the journal of a file stands.
pub(super) fn journal_of(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".journal");
    path.with_file_name(name)
}

#[cfg(unix)]
fn is_same(file: &File, path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let (ours, there) = (file.metadata()?, fs::metadata(path)?);
    Ok((ours.dev(), ours.ino()) == (there.dev(), there.ino()))
}

/// Where an open file cannot be replaced.
#[cfg(not(unix))]
fn is_same(_file: &File, _path: &Path) -> io::Result<bool> {
    Ok(true)
}

impl Files for OnDisk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read_at(&mut self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(offset))?;
        self.file.read_exact(bytes)
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(offset))?;
        self.file.write_all(bytes)
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync_all()
    }

    fn journal(&mut self) -> io::Result<Option<Vec<u8>>> {
        match fs::read(&self.journal) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    fn write_journal(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut replacement = Replacement::of(&self.journal).map_err(io::Error::other)?;
        replacement.file().write_all(bytes)?;
        replacement.commit().map_err(io::Error::other)
    }

    fn remove_journal(&mut self) -> io::Result<()> {
        fs::remove_file(&self.journal)?;
        let folder = self.journal.parent().unwrap_or(Path::new("."));
        sync_folder(folder).map_err(io::Error::other)
    }
}
