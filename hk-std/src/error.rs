//! What can go wrong on a host with files.

use std::fmt;
use std::path::{Path, PathBuf};

/// Result of this crate's calls.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, with the file and tensor it concerns. Its text is meant for people.
///
/// Its `Debug` form is that text too, so that a `main` that returns it tells people what
/// happened.
#[non_exhaustive]
pub enum Error {
    /// The operating system refused something.
    Io {
        /// What was tried: `open`, `read`, `write`, ...
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// Why it failed.
        source: std::io::Error,
    },
    /// A file's content is wrong.
    Format {
        /// Which file.
        path: PathBuf,
        /// Which tensor, where it is one.
        tensor: Option<String>,
        /// What and where.
        source: hk_core::Error,
    },
    /// Metadata grew over the room in front of the first payload, and cannot go to the end of
    /// the file either, since appendix records run to there (payloads.md, "Metadata edit").
    MetadataExceedsPaddingWithAppendix {
        /// Which file.
        path: PathBuf,
        /// Bytes that metadata and table of contents take.
        needed: u64,
        /// Bytes that there are for them.
        room: u64,
    },
    /// The caller asked for a stop; what stood there before is as it was.
    Stopped,
    /// A file or request is wrong in another way; the text says all.
    Invalid(String),
}

impl Error {
    /// Wraps an error of the operating system.
    pub fn io(action: &'static str, path: &Path, source: std::io::Error) -> Self {
        Error::Io { action, path: path.to_owned(), source }
    }

    /// Wraps an error of the core.
    pub fn format(path: &Path, tensor: Option<&str>, source: hk_core::Error) -> Self {
        Error::Format { path: path.to_owned(), tensor: tensor.map(str::to_owned), source }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Io { action, path, source } => {
                write!(f, "cannot {action} {}: {source}", path.display())
            }
            Error::Format { path, tensor: Some(tensor), source } => {
                write!(f, "{}: tensor {tensor:?}: {source}", path.display())
            }
            Error::Format { path, tensor: None, source } => {
                write!(f, "{}: {source}", path.display())
            }
            Error::MetadataExceedsPaddingWithAppendix { path, needed, room } => {
                let path = path.display();
                write!(
                    f,
                    "{path}: metadata and table of contents would take {needed} bytes, {room} are \
                     in front of the first payload, and behind the appendix there is no place \
                     for them (MetadataExceedsPaddingWithAppendix): make room by unsetting or \
                     shortening values, or write the model anew"
                )
            }
            Error::Stopped => f.write_str("stopped before the end; nothing was replaced"),
            Error::Invalid(text) => f.write_str(text),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io { source, .. } => Some(source),
            Error::Format { source, .. } => Some(source),
            Error::MetadataExceedsPaddingWithAppendix { .. }
            | Error::Stopped
            | Error::Invalid(_) => None,
        }
    }
}
