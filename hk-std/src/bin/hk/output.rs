//! Standard output, standard error, and files that are replaced whole or not at all.

use std::fmt::Display;
use std::fs::{File, Metadata};
use std::io::{self, BufWriter, ErrorKind, IsTerminal, Write};
use std::path::Path;

use hk_std::{Error, Replacement, Result};

const BUFFER: usize = 64 * 1024;

/// Prints a message of the program to standard error, where one can still be read.
pub fn say(message: &dyn Display) {
    let _ = writeln!(io::stderr(), "hk: {message}");
}

/// Lets `write` fill standard output through a buffer. A reader that closed the pipe has
/// seen enough, so that is no error: `hk inspect model.hk | head` ends quietly.
///
/// # Errors
/// Standard output cannot be written for another reason.
pub fn to_stdout(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    let mut out = BufWriter::with_capacity(BUFFER, io::stdout().lock());
    let result = write(&mut out).and_then(|()| out.flush());
    let (_, _unwritten) = out.into_parts();
    match result {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(failed("write to", Path::new("standard output"), error))
        }
        _ => Ok(()),
    }
}

/// Whether standard output is a screen, where binary data make a mess.
pub fn stdout_is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Lets `write` fill the file `path`. What was there stays as it is until all has been
/// written. A device or a pipe is written directly, and a symbolic link is followed.
///
/// # Errors
/// The file or its folder cannot be written, or `write` failed.
pub fn to_file(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    let failed = |error| failed("write", path, error);
    let existing = existing(path).map_err(failed)?;
    if existing.is_some_and(|metadata| !metadata.is_file() && !metadata.is_dir()) {
        let file = File::options().write(true).open(path).map_err(failed)?;
        let mut out = BufWriter::with_capacity(BUFFER, file);
        return write(&mut out).and_then(|()| out.flush()).map_err(failed);
    }
    let mut replacement = Replacement::of(path)?;
    let mut out = BufWriter::with_capacity(BUFFER, replacement.file());
    write(&mut out).and_then(|()| out.flush()).map_err(failed)?;
    // What is left after an error is not written on the way out.
    drop(out);
    replacement.commit()
}

/// What the system says of the file that `path` means, `None` where there is none. A link that
/// leads nowhere is an error: what it stands for cannot be written, and the link is not ours
/// to replace.
fn existing(path: &Path) -> io::Result<Option<Metadata>> {
    match std::fs::symlink_metadata(path) {
        Ok(_) => std::fs::metadata(path).map(Some),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// What went wrong: the system's error, or one of ours that came through the writer.
fn failed(action: &'static str, path: &Path, error: io::Error) -> Error {
    error.downcast().unwrap_or_else(|error| Error::io(action, path, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_ours_is_told_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        std::fs::write(&path, "old").unwrap();
        let ours = Error::Invalid("the model is damaged".to_owned());
        let result = to_file(&path, |out| {
            out.write_all(b"half")?;
            Err(io::Error::other(ours))
        });
        assert_eq!(result.unwrap_err().to_string(), "the model is damaged");
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        to_file(&path, |out| out.write_all(b"whole")).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"whole");
    }
}
