//! Repairing what an interrupted edit left, ours or another library's.

use std::fmt;
use std::path::Path;

use hk_core::Flags;

use super::appendix::{Broken, Records};
use super::commit::Edit;
use super::files::{Files, OnDisk};
use super::journal::{Found, recover};
use super::{EditOptions, Editor, failed, foreign_journal, read_head};
use crate::error::{Error, Result};

/// What was done, or is to be done, to repair a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RepairAction {
    /// An interrupted edit is undone.
    Undo,
    /// An interrupted rollback is finished.
    Finish,
    /// A journal of an edit that did not come to touch the file is taken away.
    DropJournal,
    /// The last record, which is not whole, is cut off.
    CutRecord {
        /// Its position, from 0.
        index: usize,
        /// Bytes that are cut off.
        bytes: u64,
    },
    /// There is no whole record: the header leads to none any more. No byte is cut off.
    ForgetAppendix,
    /// Records stand behind the last payload, and the header leads to them again.
    FindAppendix {
        /// Where they begin.
        offset: u64,
        /// How many there are.
        records: usize,
    },
    /// The flag `HAS_APPENDIX` is set, as the header has the offset of an appendix.
    SetFlag,
    /// The flag `HAS_APPENDIX` is cleared, as there is no appendix.
    ClearFlag,
}

impl fmt::Display for RepairAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Undo => {
                f.write_str("an edit was interrupted: what stood there before it is put back")
            }
            Self::Finish => f.write_str("a rollback was interrupted: it is finished"),
            Self::DropJournal => f.write_str(
                "an edit was interrupted before it touched the file: its journal is taken away",
            ),
            Self::CutRecord { index, bytes } => write!(
                f,
                "appendix record {index} is not whole, as an interrupted append leaves it: its \
                 {bytes} bytes are cut off"
            ),
            Self::ForgetAppendix => f.write_str(
                "the appendix has no whole record: the header leads to none any more, and the \
                 bytes stay",
            ),
            Self::FindAppendix { offset, records } => write!(
                f,
                "HAS_APPENDIX is set without an offset: appendix records ({records}) stand at byte \
                 {offset}, and the header leads to them again"
            ),
            Self::SetFlag => f.write_str("there is an appendix: HAS_APPENDIX is set"),
            Self::ClearFlag => f.write_str("there is no appendix: HAS_APPENDIX is cleared"),
        }
    }
}

/// Repairs what an interrupted edit has left of a file, and says what that takes; with
/// `dry_run`, only says. A sealed file stays sealed.
///
/// # Errors
/// As [`Editor::open`]; a seal that is broken, where more than a journal is to be repaired.
pub fn repair(path: impl AsRef<Path>, dry_run: bool) -> Result<Vec<RepairAction>> {
    let path = path.as_ref();
    repair_files(path, Box::new(OnDisk::open(path)?), dry_run)
}

pub(super) fn repair_files(
    path: &Path,
    mut files: Box<dyn Files + Send>,
    dry_run: bool,
) -> Result<Vec<RepairAction>> {
    let mut actions = Vec::new();
    match recover(&mut *files, dry_run).map_err(|e| failed(path, e))? {
        None => {}
        Some(Found::Torn) => actions.push(RepairAction::DropJournal),
        Some(Found::Undone) => actions.push(RepairAction::Undo),
        Some(Found::Finished) => actions.push(RepairAction::Finish),
        Some(Found::Foreign) => return Err(foreign_journal(path)),
    }
    if dry_run && !actions.is_empty() {
        // What else there is shows only once that is done.
        return Ok(actions);
    }
    if dry_run {
        let head = read_head(path, &mut *files)?;
        let mut editor = Editor { path: path.to_owned(), files, head, undone: false, force: false };
        actions.extend(editor.broken()?);
    } else {
        let mut editor = Editor::over(path, files, EditOptions::default())?;
        while let Some(action) = editor.broken()? {
            editor.mend(action)?;
            actions.push(action);
        }
    }
    Ok(actions)
}

impl Editor {
    /// What is wrong first with the appendix, as interrupted edits leave it.
    fn broken(&mut self) -> Result<Option<RepairAction>> {
        let header = &self.head.header;
        let flag = header.flags.contains(Flags::HAS_APPENDIX);
        if header.appendix_offset == 0 {
            return if flag { self.lost().map(Some) } else { Ok(None) };
        }
        if !flag {
            return Ok(Some(RepairAction::SetFlag));
        }
        let records = self.records()?;
        let (index, bytes) = (records.places.len(), self.head.len.saturating_sub(records.end));
        Ok(match (records.broken, index) {
            (None | Some(Broken::Damaged), _) => None,
            (Some(Broken::Last), 0) => Some(RepairAction::ForgetAppendix),
            (Some(Broken::Last), _) => Some(RepairAction::CutRecord { index, bytes }),
        })
    }

    /// Looks for the appendix of a file whose header has the flag alone: a chain of records of
    /// known types from the first place behind all payloads to the end of the file.
    fn lost(&mut self) -> Result<RepairAction> {
        let (offset, len) = (self.head.end().next_multiple_of(8), self.head.len);
        let records = Records::read(&mut *self.files, offset, len)
            .map_err(|e| Error::io("read", &self.path, e))?;
        let count = records.places.len();
        Ok(match records.are_all() {
            true => RepairAction::FindAppendix { offset, records: count },
            false => RepairAction::ClearFlag,
        })
    }

    fn mend(&mut self, action: RepairAction) -> Result<()> {
        let mut header = self.head.header;
        self.check_seal(&mut |_, _| ())?;
        match action {
            RepairAction::CutRecord { index, .. } => {
                let end = self.records()?.end;
                return self.cut(index, end, &mut |_, _| ());
            }
            RepairAction::FindAppendix { offset, .. } => header.appendix_offset = offset,
            RepairAction::SetFlag => header.flags = header.flags.with(Flags::HAS_APPENDIX),
            _ => {
                header.appendix_offset = 0;
                header.flags = Flags(header.flags.0 & !Flags::HAS_APPENDIX.0);
            }
        }
        self.commit(Edit { header, writes: Vec::new(), overlaps: false }, &mut |_, _| ())
    }
}
