//! Replacing a file as a whole, or not at all.

use std::fs::{self, File, Metadata};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::error::{Error, Result};

/// A temporary file that becomes the file at a path, or vanishes: at any time, and after
/// any error, either the old file or the whole new one stands there.
///
/// ```
/// use std::io::Write;
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("weights.f32");
/// let mut replacement = hk_std::Replacement::of(&path)?;
/// replacement.file().write_all(&1f32.to_le_bytes())?;
/// assert!(!path.exists());
/// replacement.commit()?;
/// assert_eq!(std::fs::read(&path)?.len(), 4);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Replacement {
    temporary: NamedTempFile,
    target: PathBuf,
    folder: PathBuf,
}

impl Replacement {
    /// A temporary file beside `path`, with the owner and permissions of the file that stands
    /// there, or of a new file. Where `path` is a symbolic link, what it points to is the target.
    ///
    /// # Errors
    /// `path` is something other than a file, its folder does not exist, or the system
    /// refuses.
    pub fn of(path: &Path) -> Result<Self> {
        let (target, old) = target(path)?;
        let parent = target.parent().filter(|parent| !parent.as_os_str().is_empty());
        let folder = parent.unwrap_or(Path::new(".")).to_owned();
        let Some(name) = target.file_name() else {
            return Err(Error::Invalid(format!("{}: this is no name of a file", path.display())));
        };
        let mut prefix = std::ffi::OsString::from(".");
        prefix.push(name);
        // A name at the system's limit of 255 bytes leaves no room for more.
        let prefix = if prefix.len() < 200 { prefix } else { ".hk".into() };
        let mut builder = tempfile::Builder::new();
        builder.prefix(&prefix).suffix(".tmp");
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let temporary =
            builder.tempfile_in(&folder).map_err(|e| cannot_create(path, &folder, e))?;
        if let Some(old) = old {
            keep_owner(temporary.as_file(), &old);
            let set = temporary.as_file().set_permissions(old.permissions());
            set.map_err(|e| Error::io("set the permissions of", temporary.path(), e))?;
        }
        Ok(Replacement { temporary, target, folder })
    }

    /// The temporary file.
    pub fn file(&mut self) -> &File {
        self.temporary.as_file()
    }

    /// Syncs it and puts it in its place.
    ///
    /// # Errors
    /// Whatever the system refuses. Only a folder that cannot be synced is reported after
    /// the new file is in place.
    pub fn commit(self) -> Result<()> {
        let Replacement { temporary, target, folder } = self;
        temporary.as_file().sync_all().map_err(|e| Error::io("sync", &target, e))?;
        temporary.persist(&target).map_err(|e| Error::io("replace", &target, e.error))?;
        sync_folder(&folder)
    }
}

/// Gives a file the owner and group of the one that it replaces, as far as the system lets
/// this process: a superuser who writes into another user's folder leaves files theirs.
#[cfg(unix)]
fn keep_owner(file: &File, old: &Metadata) {
    use std::os::unix::fs::{MetadataExt, fchown};
    // Others than the superuser may at best choose among their own groups.
    if fchown(file, Some(old.uid()), Some(old.gid())).is_err() {
        let _ = fchown(file, None, Some(old.gid()));
    }
}

#[cfg(not(unix))]
fn keep_owner(_file: &File, _old: &Metadata) {}

/// What to say when no file can be made in `folder`: the system's error would name the
/// temporary file.
fn cannot_create(path: &Path, folder: &Path, error: std::io::Error) -> Error {
    if error.kind() == ErrorKind::NotFound {
        let (path, folder) = (path.display(), folder.display());
        return Error::Invalid(format!(
            "cannot write {path}: there is no folder {folder}; make it first"
        ));
    }
    Error::io("write", path, error.kind().into())
}

/// The file that `path` means, and what the system says of it if it is there.
fn target(path: &Path) -> Result<(PathBuf, Option<Metadata>)> {
    let failed = |e| Error::io("write", path, e);
    match fs::symlink_metadata(path) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok((path.to_owned(), None)),
        Err(e) => return Err(failed(e)),
        Ok(_) => {}
    }
    // Follows links; one that points nowhere is an error here.
    let target = fs::canonicalize(path).map_err(failed)?;
    let metadata = fs::metadata(&target).map_err(failed)?;
    if metadata.is_dir() {
        let text = format!("cannot write {}: it is a directory; name a file in it", path.display());
        return Err(Error::Invalid(text));
    }
    if !metadata.is_file() {
        let text = format!(
            "cannot write {}: it is no regular file, and a file can only be replaced as a whole",
            path.display()
        );
        return Err(Error::Invalid(text));
    }
    Ok((target, Some(metadata)))
}

/// Makes the new name last through a crash, where the system can sync directories.
#[cfg(unix)]
pub(crate) fn sync_folder(folder: &Path) -> Result<()> {
    match File::open(folder).and_then(|folder| folder.sync_all()) {
        // A folder that cannot be read, or a file system that knows no such sync: the file
        // itself is synced.
        Err(e)
            if matches!(
                e.kind(),
                ErrorKind::PermissionDenied | ErrorKind::InvalidInput | ErrorKind::Unsupported
            ) =>
        {
            Ok(())
        }
        result => result.map_err(|e| Error::io("sync", folder, e)),
    }
}

#[cfg(not(unix))]
pub(crate) fn sync_folder(_folder: &Path) -> Result<()> {
    Ok(())
}

/// Checks that `output` may be written.
pub(crate) fn check_output(input: &Path, output: &Path, overwrite: bool) -> Result<()> {
    if output.symlink_metadata().is_err() {
        return Ok(());
    }
    let same = fs::canonicalize(input).ok() == fs::canonicalize(output).ok();
    if same {
        return Err(Error::Invalid(format!(
            "{}: input and output are the same file; name another output",
            output.display()
        )));
    }
    let kind = fs::metadata(output).map(|metadata| metadata.is_file());
    if kind.is_ok_and(|is_file| is_file) && !overwrite {
        return Err(Error::Invalid(format!(
            "{} exists already; name another output, or allow it to be replaced (--force)",
            output.display()
        )));
    }
    Ok(())
}
