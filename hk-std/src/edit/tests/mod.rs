//! Edits on a disk that stops at any moment, or is full.

mod disk;

use std::path::Path;

use hk_core::build::{FileBuilder, TensorSpec};
use hk_core::{Flags, Hk, StorageType, Value};

use super::*;
use crate::verify::verify;
use disk::{Disk, State, crashes};

/// What a file says: metadata, each tensor's name and bytes, records, and whether it is sealed.
#[derive(Clone, Debug, PartialEq)]
struct Content {
    metadata: Vec<(String, String)>,
    tensors: Vec<(String, Vec<u8>)>,
    records: usize,
    sealed: bool,
}

impl Content {
    fn of(bytes: &[u8]) -> Result<Self, hk_core::Error> {
        let hk = Hk::parse(bytes)?;
        let pair = |entry: hk_core::format::MetadataEntry<'_>| {
            (entry.key.to_owned(), format!("{:?}", entry.value))
        };
        Ok(Content {
            metadata: hk.metadata().iter().map(pair).collect(),
            tensors: hk.tensors().map(|t| (t.name.to_owned(), t.data().to_vec())).collect(),
            records: hk.appendix().filter(Result::is_ok).count(),
            sealed: hk.header().flags.contains(Flags::SEALED),
        })
    }

    fn unsealed(mut self) -> Self {
        self.sealed = false;
        self
    }
}

/// A file of two tensors with `text` bytes of a chat template, payloads aligned to `alignment`.
fn file(alignment: u32, text: usize) -> Vec<u8> {
    let mut builder = FileBuilder::new();
    builder.alignment(alignment).unwrap();
    builder.metadata("general.name", Value::String("model")).unwrap();
    builder.metadata("tokenizer.chat_template", Value::String(&"t".repeat(text))).unwrap();
    for name in ["a.weight", "b.weight"] {
        builder.tensor(TensorSpec::new(name, StorageType::F32, &[300])).unwrap();
    }
    let plan = builder.plan().unwrap();
    let mut bytes = plan.head().concat();
    for (part, fill) in plan.parts().iter().zip(1..) {
        bytes.resize(part.span.offset as usize, 0);
        bytes.resize((part.span.offset + part.span.size) as usize, fill);
    }
    bytes
}

/// `file` with an appendix of one record.
fn with_appendix(mut file: Vec<u8>) -> Vec<u8> {
    file.resize(file.len().next_multiple_of(8), 0);
    let offset = file.len() as u64;
    let mut record = [0; 88];
    (record[0], record[2], record[72]) = (1, 1, 7);
    record[80..].fill(b'r');
    file.extend(record);
    file[0x48..0x50].copy_from_slice(&offset.to_le_bytes());
    file[8] |= 2;
    file
}

fn editor(disk: &Disk) -> Result<Editor> {
    Editor::over(Path::new("model.hk"), Box::new(disk.clone()), EditOptions::default())
}

fn sealed(file: Vec<u8>) -> Vec<u8> {
    let disk = Disk::new(State { bytes: file, journal: None });
    editor(&disk).unwrap().seal(&mut |_, _| ()).unwrap();
    disk.state().bytes
}

type Do = fn(&mut Editor) -> Result<Option<MetadataPlace>>;

fn set(editor: &mut Editor, key: &str, len: usize) -> Result<Option<MetadataPlace>> {
    let text = "n".repeat(len);
    let value = Value::String(&text);
    editor.edit_metadata(&[MetadataChange::Set { key, value }]).map(Some)
}

/// Files, an edit of each, and where the metadata are to be then.
fn cases() -> Vec<(&'static str, Vec<u8>, Do, Option<MetadataPlace>)> {
    use MetadataPlace::{EndOfFile, InFront};
    let grow: Do = |editor| set(editor, "tokenizer.chat_template", 1800);
    let add: Do = |editor| set(editor, "new", 900);
    let unset: Do = |editor| {
        let keys = ["general.name", "tokenizer.chat_template"];
        editor.edit_metadata(&keys.map(|key| MetadataChange::Unset { key })).map(Some)
    };
    let seal: Do = |editor| editor.seal(&mut |_, _| ()).map(|_| None);
    let unseal: Do = |editor| editor.unseal().map(|_| None);
    vec![
        ("moved", file(4096, 100), add, Some(InFront)),
        ("overlapping", file(4096, 2500), add, Some(InFront)),
        ("to the end", file(128, 200), grow, Some(EndOfFile)),
        ("taken out", file(128, 700), unset, Some(InFront)),
        ("moved, with an appendix", with_appendix(file(4096, 100)), add, Some(InFront)),
        ("overlapping, with an appendix", with_appendix(file(4096, 2500)), add, Some(InFront)),
        ("sealed, moved", sealed(file(4096, 100)), add, Some(InFront)),
        ("sealed, overlapping", sealed(file(4096, 2500)), add, Some(InFront)),
        ("sealed, to the end", sealed(file(128, 200)), grow, Some(EndOfFile)),
        ("seal", file(128, 10), seal, None),
        ("seal again", sealed(file(128, 10)), seal, None),
        ("unseal", sealed(file(128, 10)), unseal, None),
    ]
}

/// The same numbers in every run.
fn random() -> impl FnMut() -> u64 {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    }
}

#[test]
fn a_crash_at_any_moment_leaves_the_old_file_or_the_new_one() {
    let (mut points, mut random) = (0, random());
    for (name, bytes, edit, place) in cases() {
        let before = State { bytes, journal: None };
        let disk = Disk::new(before.clone());
        assert_eq!(edit(&mut editor(&disk).unwrap()).unwrap(), place, "{name}");
        let after = disk.state();
        assert_eq!((after.journal.as_ref(), verify(&after.bytes).faults()), (None, 0), "{name}");
        let both = [Content::of(&before.bytes).unwrap(), Content::of(&after.bytes).unwrap()];
        assert_eq!(both[0].tensors, both[1].tensors, "{name}");
        assert_ne!(both[0].metadata == both[1].metadata, place.is_some(), "{name}");

        let mut again = Vec::new();
        for image in crashes(&before, &disk.ops(), &mut random) {
            points += 1;
            // A reader that knows of no journal.
            if !name.contains("overlapping") {
                let found = Content::of(&image.bytes).unwrap().unsealed();
                let both = both.clone().map(Content::unsealed);
                assert!(both.contains(&found), "{name}");
            }
            let disk = Disk::new(image.clone());
            drop(editor(&disk).unwrap());
            check_repaired(name, &disk.state(), &both);
            // The repair itself can be interrupted; some of them will do.
            if random().is_multiple_of(8) {
                again.push((image, disk.ops()));
            }
        }
        for (image, ops) in again {
            for image in crashes(&image, &ops, &mut random) {
                points += 1;
                let disk = Disk::new(image);
                drop(editor(&disk).unwrap());
                check_repaired(name, &disk.state(), &both);
            }
        }
    }
    assert!(points > 5_000, "{points}");
}

fn check_repaired(name: &str, state: &State, both: &[Content; 2]) {
    assert_eq!(state.journal, None, "{name}");
    let found = Content::of(&state.bytes).unwrap();
    assert!(both.contains(&found), "{name}: {found:?}");
    assert_eq!(verify(&state.bytes).faults(), 0, "{name}");
}

#[test]
fn a_full_disk_leaves_the_old_file() {
    for (name, bytes, edit, _) in cases() {
        let before = State { bytes, journal: None };
        let mut refused = 0;
        for write in 0.. {
            let disk = Disk::new(before.clone()).full_at(write);
            match edit(&mut editor(&disk).unwrap()) {
                Ok(_) => break,
                Err(error) => assert!(matches!(error, Error::Io { .. }), "{error}"),
            }
            refused += 1;
            let (after, old) = (disk.state(), Content::of(&before.bytes).unwrap());
            assert_eq!((Content::of(&after.bytes).unwrap(), after.journal), (old, None), "{name}");
            assert_eq!(after.bytes.len(), before.bytes.len(), "{name}");
            assert_eq!(verify(&after.bytes).faults(), 0, "{name}");
        }
        assert!(refused > 0, "{name}");
    }
}

#[test]
fn metadata_before_an_appendix_stay_where_they_fit() {
    let disk = Disk::new(State { bytes: with_appendix(file(128, 200)), journal: None });
    let mut editor = editor(&disk).unwrap();
    let error = set(&mut editor, "new", 2000).unwrap_err();
    assert!(
        matches!(error, Error::MetadataExceedsPaddingWithAppendix { needed, room, .. }
        if needed > room),
        "{error}"
    );
    assert!(disk.ops().is_empty());
}

#[test]
fn a_broken_seal_is_not_covered_up() {
    let mut bytes = sealed(file(4096, 100));
    *bytes.last_mut().unwrap() ^= 1;
    let disk = Disk::new(State { bytes, journal: None });
    let mut editor = editor(&disk).unwrap();
    for result in [set(&mut editor, "new", 3).map(|_| ()), editor.seal(&mut |_, _| ()).map(|_| ())]
    {
        let text = result.unwrap_err().to_string();
        assert!(text.contains("seal is broken") && text.contains("--force"), "{text}");
    }
    assert!(disk.ops().is_empty());
    let options = EditOptions { force: true };
    let mut editor = Editor::over(Path::new("model.hk"), Box::new(disk.clone()), options).unwrap();
    set(&mut editor, "new", 3).unwrap();
    assert_eq!(verify(&disk.state().bytes).faults(), 0);
}

#[test]
fn a_journal_of_another_file_is_left_alone() {
    let disk = Disk::new(State { bytes: file(4096, 2500), journal: None });
    set(&mut editor(&disk).unwrap(), "new", 900).unwrap();
    let journal = disk.ops().iter().find_map(|op| match op {
        disk::Op::Journal(Some(bytes)) => Some(bytes.clone()),
        _ => None,
    });
    let other = State { bytes: file(128, 10), journal };
    let disk = Disk::new(other.clone());
    let error = editor(&disk).unwrap_err().to_string();
    assert!(error.contains("another file"), "{error}");
    assert_eq!(disk.state(), other);
    // One that is not whole says that the file was not touched.
    let mut torn = other;
    torn.journal.as_mut().unwrap().pop();
    let disk = Disk::new(torn.clone());
    drop(editor(&disk).unwrap());
    assert_eq!(disk.state(), State { journal: None, ..torn });
}

#[test]
fn changes_are_made_together_or_not_at_all() {
    let disk = Disk::new(State { bytes: file(4096, 100), journal: None });
    let mut editor = editor(&disk).unwrap();
    let set = |key, value| MetadataChange::Set { key, value };
    let error = editor
        .edit_metadata(&[set("new", Value::Int64(1)), MetadataChange::Unset { key: "nothing" }])
        .unwrap_err();
    assert!(error.to_string().contains("no metadata key \"nothing\""), "{error}");
    assert!(disk.ops().is_empty());
    let again = [set("general.name", Value::String("model"))];
    assert_eq!(editor.edit_metadata(&again).unwrap(), MetadataPlace::Unchanged);
    assert!(disk.ops().is_empty());
    editor
        .edit_metadata(&[
            set("new", Value::Bool(true)),
            set("general.name", Value::String("other")),
            MetadataChange::Unset { key: "tokenizer.chat_template" },
        ])
        .unwrap();
    let content = Content::of(&disk.state().bytes).unwrap();
    let pairs: Vec<_> = content.metadata.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    assert_eq!(pairs, [("general.name", "String(\"other\")"), ("new", "Bool(true)")]);
}
