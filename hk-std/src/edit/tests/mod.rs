//! Edits on a disk that stops at any moment, or is full.

mod disk;

use std::path::Path;

use hk_core::build::{FileBuilder, TensorSpec};
use hk_core::format::appendix::{Appendix, Lineage, RecordType};
use hk_core::{Flags, Hk, StorageType, Value};

use super::*;
use crate::verify::verify;
use disk::{Disk, State, crashes};

/// What a file says: metadata, each tensor's name and bytes, records, and whether it is sealed.
#[derive(Clone, Debug, PartialEq)]
struct Content {
    metadata: Vec<(String, String)>,
    tensors: Vec<(String, Vec<u8>)>,
    records: Vec<(String, u32, Vec<u8>)>,
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
            records: hk
                .appendix()
                .filter_map(Result::ok)
                .map(|r| (r.name.to_owned(), r.generation, r.data.to_vec()))
                .collect(),
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

/// `file` with an appendix of one record of generation 0.
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

fn append(editor: &mut Editor, len: usize) -> Result<Appended> {
    let record = NewRecord { target: "a.weight", ..NewRecord::new(RecordType::DELTA_PATCH, "new") };
    editor.append(&record, &mut &vec![b'd'; len][..], &mut |_, _| ())
}

/// `file` with a record of generation 0, and one of generation 1 behind it.
fn appended(file: Vec<u8>) -> Vec<u8> {
    let disk = Disk::new(State { bytes: with_appendix(file), journal: None });
    append(&mut editor(&disk).unwrap(), 700).unwrap();
    disk.state().bytes
}

/// `file` with a record of generation 1.
fn with_generation(file: Vec<u8>) -> Vec<u8> {
    let disk = Disk::new(State { bytes: file, journal: None });
    append(&mut editor(&disk).unwrap(), 700).unwrap();
    disk.state().bytes
}

/// A file with a record that ends where its data do.
fn unpadded() -> Vec<u8> {
    let mut bytes = appended(file(128, 10));
    let padding = (80 + "new".len() + "a.weight".len() + 700).wrapping_neg() % 8;
    bytes.truncate(bytes.len() - padding);
    bytes
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
    let append: Do = |editor| append(editor, 1500).map(|_| None);
    let back: Do = |editor| editor.rollback(0, &mut |_, _| ()).map(|_| None);
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
        ("first record", file(128, 10), append, None),
        ("another record", with_appendix(file(128, 10)), append, None),
        ("record after one without padding", unpadded(), append, None),
        ("sealed, first record", sealed(file(128, 10)), append, None),
        ("sealed, another record", sealed(with_appendix(file(128, 10))), append, None),
        ("rollback", appended(file(128, 10)), back, None),
        ("rollback of all", with_generation(file(128, 10)), back, None),
        ("sealed, rollback", sealed(appended(file(128, 10))), back, None),
        ("sealed, rollback of all", sealed(with_generation(file(128, 10))), back, None),
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
        assert_eq!(
            both[0].records != both[1].records,
            name.contains("record") || name.contains("rollback"),
            "{name}"
        );

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
            repaired(&disk);
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
                repaired(&disk);
                check_repaired(name, &disk.state(), &both);
            }
        }
    }
    assert!(points > 5_000, "{points}");
}

fn repaired(disk: &Disk) {
    repair::repair_files(Path::new("model.hk"), Box::new(disk.clone()), false).unwrap();
}

fn check_repaired(name: &str, state: &State, both: &[Content; 2]) {
    assert_eq!(state.journal, None, "{name}");
    let found = Content::of(&state.bytes).unwrap();
    assert!(both.contains(&found), "{name}: {found:?}");
    let report = verify(&state.bytes);
    assert_eq!(report.faults(), 0, "{name}: {:?}", report.findings());
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
        // To cut a file takes no room.
        assert!(refused > 0 || name == "rollback", "{name}");
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

#[test]
fn records_follow_one_another() {
    let disk = Disk::new(State { bytes: unpadded(), journal: None });
    let mut editor = editor(&disk).unwrap();
    let appended = append(&mut editor, 0).unwrap();
    assert_eq!((appended.index, appended.generation, appended.data_size), (2, 2, 0));
    let given = NewRecord {
        generation: Some(9),
        timestamp: Some(77),
        metrics: [1.0, 0.5, 0.25, -1.0],
        ..NewRecord::new(RecordType::CODE_EVAL, "given")
    };
    editor.append(&given, &mut &b"result"[..], &mut |_, _| ()).unwrap();
    let bytes = disk.state().bytes;
    let offset = editor.header().appendix_offset;
    let records: Vec<_> = Lineage::new(Appendix::new(&bytes, offset)).map(Result::unwrap).collect();
    assert_eq!(records.iter().map(|r| r.generation).collect::<Vec<_>>(), [0, 1, 2, 9]);
    let last = records.last().unwrap();
    assert_eq!((last.timestamp, last.metrics, last.flags), (77, given.metrics, 1));
    assert_eq!((last.data, last.offset % 8), (&b"result"[..], 0));
    assert_ne!(last.data_crc32, 0);
    assert!(records[2].timestamp > 1_700_000_000);
    assert_eq!(verify(&bytes).faults(), 0);
}

#[test]
fn a_record_costs_the_same_whatever_the_size_of_the_file() {
    let small = Disk::new(State { bytes: file(4096, 10), journal: None });
    let large = Disk::new(State { bytes: file(4096, 10), journal: None });
    let grown = large.state().bytes.len() as u64 + (8 << 20);
    large.clone().set_len(grown).unwrap();
    let costs = [&small, &large].map(|disk| {
        let before = disk.traffic();
        append(&mut editor(disk).unwrap(), 100).unwrap();
        append(&mut editor(disk).unwrap(), 100).unwrap();
        disk.traffic() - before
    });
    assert_eq!(costs[0], costs[1]);
    assert!(costs[0] < 10_000, "{costs:?}");
}

#[test]
fn what_another_library_left_is_repaired() {
    let path = Path::new("model.hk");
    let fix = |bytes: Vec<u8>| {
        let disk = Disk::new(State { bytes, journal: None });
        let said = repair::repair_files(path, Box::new(disk.clone()), true).unwrap();
        assert!(disk.ops().is_empty());
        let done = repair::repair_files(path, Box::new(disk.clone()), false).unwrap();
        assert!(done.starts_with(&said), "{said:?} {done:?}");
        (done, disk.state().bytes)
    };
    let whole = appended(file(128, 10));
    assert_eq!(fix(whole.clone()), (vec![], whole.clone()));

    let mut torn = whole.clone();
    torn.truncate(whole.len() - 100);
    let one = with_appendix(file(128, 10));
    let bytes = (torn.len() - one.len()) as u64;
    assert_eq!(fix(torn), (vec![RepairAction::CutRecord { index: 1, bytes }], one.clone()));

    let mut flagless = one.clone();
    flagless[8] &= !2;
    assert_eq!(fix(flagless), (vec![RepairAction::SetFlag], one.clone()));

    let mut lost = one.clone();
    lost[0x48..0x50].fill(0);
    let offset = one.len() as u64 - 88;
    assert_eq!(fix(lost), (vec![RepairAction::FindAppendix { offset, records: 1 }], one));

    let mut none = file(128, 10);
    none[8] |= 2;
    assert_eq!(fix(none), (vec![RepairAction::ClearFlag], file(128, 10)));

    let mut first = with_appendix(file(128, 10));
    first.truncate(first.len() - 3);
    let (done, after) = fix(first.clone());
    assert_eq!((done, after.len()), (vec![RepairAction::ForgetAppendix], first.len()));

    // Type 0 in front of a record that is whole is damage: nobody takes that one away.
    let mut damaged = whole;
    damaged[offset as usize] = 0;
    assert_eq!(fix(damaged.clone()), (vec![], damaged));
}
