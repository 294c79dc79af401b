//! What edits of a file share, and those that need nothing else: `hk seal`, `hk unseal`,
//! `hk repair`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use hk_std::Result;
use hk_std::edit::{EditOptions, Editor};

use crate::output;
use crate::progress::Progress;
use crate::text;

const SEAL_HELP: &str = "\
A sealed file carries the SHA-256 of itself: `hk verify` then finds any byte that has changed. Edits
by hk keep it sealed; one of a file whose seal does not match is refused without --force.";

const REPAIR_HELP: &str = "\
An edit that the machine stopped in the middle of leaves a journal, FILE.journal, by which it is
undone: here, or by the next edit. Nothing else is changed; `hk verify FILE` says whether the file is
sound.";

/// `--force`.
#[derive(clap::Args)]
pub struct Force {
    /// Edit a sealed file also where its seal does not match
    #[arg(long)]
    force: bool,
}

/// Make a file carry a digest of itself
#[derive(clap::Args)]
#[command(after_help = SEAL_HELP)]
pub struct SealArgs {
    /// The HK file
    file: PathBuf,
    #[command(flatten)]
    force: Force,
}

/// Take the digest out of a sealed file
#[derive(clap::Args)]
pub struct UnsealArgs {
    /// The HK file
    file: PathBuf,
}

/// Undo an edit that was interrupted
#[derive(clap::Args)]
#[command(after_help = REPAIR_HELP)]
pub struct RepairArgs {
    /// The HK file
    file: PathBuf,
    /// Only say what there is to do
    #[arg(long)]
    dry_run: bool,
}

/// Opens a file for editing, and says what that took.
///
/// # Errors
/// As [`Editor::open`].
pub fn open(file: &Path, force: &Force) -> Result<Editor> {
    let editor = Editor::open(file, EditOptions { force: force.force })?;
    if editor.undone() {
        output::say(&format_args!(
            "note: {}: an interrupted edit was undone first",
            file.display()
        ));
    }
    Ok(editor)
}

/// Does `edit`, with a bar where it takes long to hash a sealed file.
pub fn with_progress<T>(edit: impl FnOnce(&mut dyn FnMut(u64, u64)) -> T) -> T {
    let mut bar: Option<Progress> = None;
    edit(&mut |done, total| {
        bar.get_or_insert_with(|| Progress::bytes(total, "hashing the file")).set_of(done, total);
    })
}

/// Runs `hk seal`.
pub fn seal(args: &SealArgs) -> Result<ExitCode> {
    let mut editor = open(&args.file, &args.force)?;
    let digest = with_progress(|progress| editor.seal(progress))?;
    output::to_stdout(|out| writeln!(out, "{}", text::hex(&digest)))?;
    Ok(ExitCode::SUCCESS)
}

/// Runs `hk unseal`.
pub fn unseal(args: &UnsealArgs) -> Result<ExitCode> {
    if !open(&args.file, &Force { force: false })?.unseal()? {
        output::say(&format_args!("note: {} is not sealed", args.file.display()));
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs `hk repair`.
pub fn repair(args: &RepairArgs) -> Result<ExitCode> {
    let actions = hk_std::edit::repair(&args.file, args.dry_run)?;
    let file = text::clean(&args.file.display().to_string());
    output::to_stdout(|out| {
        if actions.is_empty() {
            return writeln!(out, "{file}: no edit was interrupted, nothing to do");
        }
        let not_done = if args.dry_run { " (not done: --dry-run)" } else { "" };
        actions.iter().try_for_each(|action| writeln!(out, "{file}: {action}{not_done}"))
    })?;
    Ok(ExitCode::SUCCESS)
}
