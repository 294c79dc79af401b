//! Each check, on a file that is wrong in just that way.

mod payloads;
mod sample;

use hk_core::format::seal::Sealer;

use super::{Finding, Severity, verify};
use sample::{PAYLOADS, Sample, record, set};

const F32: u8 = 0x00;
const SHARED_REF: u8 = 0x31;

fn reference(name: &str) -> Vec<u8> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/data/reference/");
    std::fs::read(format!("{folder}{name}")).unwrap()
}

fn lines(file: &[u8]) -> Vec<String> {
    verify(file).findings().iter().map(Finding::to_string).collect()
}

/// The file has one finding, of this severity, at this offset, with these words.
#[track_caller]
fn only(file: &[u8], severity: Severity, offset: u64, words: &str) {
    let report = verify(file);
    let [finding] = report.findings() else { panic!("{:#?}", lines(file)) };
    assert_eq!((finding.severity, finding.offset), (severity, offset), "{finding}");
    assert!(finding.text.contains(words), "{finding}");
    assert_eq!(report.is_sound(), severity == Severity::Note);
}

#[track_caller]
fn fault(file: &[u8], offset: u64, words: &str) {
    only(file, Severity::Fault, offset, words);
}

#[track_caller]
fn note(file: &[u8], offset: u64, words: &str) {
    only(file, Severity::Note, offset, words);
}

/// Among the findings is one with these words, and there are no more than `most`.
#[track_caller]
fn among(file: &[u8], severity: Severity, most: usize, words: &str) {
    let report = verify(file);
    let found = |f: &Finding| f.severity == severity && f.text.contains(words);
    let ok = report.findings().iter().any(found) && report.findings().len() <= most;
    assert!(ok, "{words}: {:#?}", lines(file));
}

/// Two small tensors and nothing wrong.
fn pair() -> Sample {
    let mut sample = Sample::new();
    sample.add("a", F32, &[2, 4], &[1; 32]);
    sample.add("b", F32, &[4], &[2; 16]);
    sample
}

#[test]
fn samples_are_sound() {
    assert_eq!(lines(&pair().bytes()), [""; 0]);
}

#[test]
fn reference_files_are_sound() {
    let notes = |name| {
        let report = verify(&reference(name));
        assert!(report.is_sound(), "{name}: {:?}", report.findings());
        report.notes()
    };
    for name in [
        "all_types.hk",
        "ref-00001-of-00002.hk",
        "ref-00002-of-00002.hk",
        "ref_128.hk",
        "ref_4096_raw.hk",
        "ref_48.hk",
        "ref_65536.hk",
        "ref_appendix.hk",
        "ref_appendix_rolled_back.hk",
        "ref_edited.hk",
    ] {
        assert_eq!(notes(name), 0, "{name}");
    }
    // The edit moved the metadata to the end and left the old ones behind.
    note(&reference("ref_edited_eof.hk"), 128, "58 bytes of 128..211, not zero");
}

#[test]
fn header_faults() {
    let good = pair().bytes();
    fault(b"GGUF", 0, "not an HK file");
    fault(&good[..100], 0, "128 bytes needed, 100 there");
    let with = |at: usize, value: u8| {
        let mut file = good.clone();
        file[at] = value;
        file
    };
    fault(&with(4, 2), 4, "version 2");
    fault(&with(8, 0x10), 8, "LITTLE_ENDIAN");
    note(&with(6, 3), 6, "version 1.3");
    note(&with(10, 0x40), 8, "unknown flags 0x400000");
    note(&with(8, 0x01), 8, "TILE_ALIGNED is clear");
    note(&with(9, 1), 8, "UNIVERSAL_PAGE_ALIGNED is set");
    note(&with(8, 0x19), 8, "SPARSITY_2_4 is set");
    note(&with(8, 0x13), 8, "HAS_APPENDIX is set, but appendix_offset is 0");
    note(&with(8, 0x51), 0x58, "IS_SHARDED is set");
    note(&with(0x58, 2), 0x58, "IS_SHARDED is clear, but split_count is 2");
    note(&with(0x0E, 1), 0x0E, "split_index 1 is past");
    note(&with(0x50, 1), 0x50, "checksum");
    note(&with(0x60, 1), 0x5A, "reserved");
    note(&with(0x7E, 1), 0x7A, "reserved");
    note(&with(0x40, 1), 0x40, "tensor_data_offset is 4097, but the first payload is at 4096");
}

#[test]
fn an_alignment_of_65536_is_recorded_as_0() {
    let mut sample = Sample::of(F32, 0, &[1], &[0; 4]);
    (sample.alignment, sample.flags) = (0, 0x111);
    fault(&sample.bytes(), PAYLOADS, "multiple of 65536");
    let flags = reference("ref_65536.hk");
    assert_eq!(&flags[12..14], [0, 0]);
    assert_eq!(lines(&flags), [""; 0]);
}

#[test]
fn sections_out_of_bounds() {
    let good = pair().bytes();
    let len = good.len() as u64;
    for (field, name) in [(0x20, "metadata"), (0x30, "table of contents")] {
        for offset in [len, len + 1, u64::MAX - 1] {
            let mut file = good.clone();
            set(&mut file, field, offset);
            among(&file, Severity::Fault, 5, &format!("the {name}"));
        }
    }
    let mut file = good.clone();
    set(&mut file, 0x48, len + 1);
    among(&file, Severity::Fault, 3, "appendix_offset");
    // What is there of a section that is cut short is still checked.
    let mut sample = pair();
    sample.metadata.push((b"x".to_vec(), 4, vec![0, 0]));
    let mut file = sample.bytes();
    set(&mut file, 0x28, len);
    among(&file, Severity::Fault, 6, "a value of type 0x04 cannot be 2 bytes long");
}

#[test]
fn counts_that_do_not_fit() {
    let mut file = pair().bytes();
    set(&mut file, 0x10, u64::MAX);
    among(&file, Severity::Fault, 3, "entry 2");
    let mut file = pair().bytes();
    set(&mut file, 0x18, u64::MAX);
    among(&file, Severity::Fault, 3, "pair 1 of 18446744073709551615");
    let mut file = pair().bytes();
    set(&mut file, 0x18, 0);
    note(&file, 128, "25 bytes left over");
    let mut file = pair().bytes();
    set(&mut file, 0x10, 1);
    among(&file, Severity::Note, 2, "left over after the last entry");
}

#[test]
fn metadata_faults() {
    let with = |key: &[u8], tag: u8, value: &[u8]| {
        let mut sample = pair();
        sample.metadata = vec![(key.to_vec(), tag, value.to_vec()), (b"z".to_vec(), 4, vec![1])];
        sample.bytes()
    };
    let value = 128 + 2 + 1 + 5;
    fault(&with(b"k\xFF", 1, b"x"), 131, "a key is not UTF-8");
    fault(&with(b"k", 1, b"ab\xFF"), value + 2, "not UTF-8");
    fault(&with(b"k", 5, b"\xC3("), value, "not UTF-8");
    fault(&with(b"k", 2, &[0; 7]), value, "a value of type 0x02 cannot be 7 bytes");
    fault(&with(b"k", 3, &[0; 9]), value, "a value of type 0x03 cannot be 9 bytes");
    fault(&with(b"k", 4, &[]), value, "a value of type 0x04 cannot be 0 bytes");
    fault(&with(b"z", 4, &[1]), 128 + 9, "readers take the first, at byte 128");
    note(&with(b"k", 5, b"{\"a\": "), value, "does not parse");
    note(&with(b"k", 9, b"xyz"), 128, "unknown type 0x09");
    note(&with(b"split_count", 1, b"3"), 128 + 18, "\"3\" here, but 1 in the header");
    assert_eq!(lines(&with(b"split_index", 2, &[0; 8])), [""; 0]);
    // A long run of brackets is no reason to run out of stack.
    note(&with(b"k", 5, "[".repeat(2000).as_bytes()), value, "does not parse");
}

#[test]
fn entries_that_cannot_be_read() {
    let toc = pair().toc_at();
    let second = toc + 2 + 1 + 4 + 16 + 54;
    let with = |change: fn(&mut sample::Entry)| {
        let mut sample = pair();
        change(&mut sample.entries[0]);
        sample.bytes()
    };
    let broken_name = with(|entry| entry.name = b"\xFF".to_vec());
    among(&broken_name, Severity::Fault, 3, "entry 0: text is not UTF-8");
    // The entry after it is still checked.
    let mut sample = pair();
    sample.entries[0].shape = vec![u64::MAX, 3];
    sample.entries[1].data.1 = 15;
    among(&sample.bytes(), Severity::Fault, 3, "entry 0: the product of the dimensions");
    among(&sample.bytes(), Severity::Fault, 3, "data of 15 bytes where type and shape need 16");
    let mut file = pair().bytes();
    file[second as usize + 1] = 1;
    among(&file, Severity::Fault, 3, "entry 1: a tensor name of 257 bytes");
    let mut file = pair().bytes();
    file[second as usize + 6] = 9;
    among(&file, Severity::Fault, 3, "entry 1: a tensor of 9 dimensions");
}

#[test]
fn names_and_ranges() {
    let (toc, first_len) = (pair().toc_at(), 2 + 1 + 4 + 16 + 54);
    let with = |change: fn(&mut sample::Entry)| {
        let mut sample = pair();
        change(&mut sample.entries[1]);
        sample.bytes()
    };
    let second = toc + first_len;
    among(&with(|b| b.name = b"a".to_vec()), Severity::Fault, 1, "a second tensor of this name");
    among(&with(|b| b.data.0 = 1 << 40), Severity::Fault, 2, "16 bytes at 1099511627776, passes");
    among(&with(|b| b.data.1 = u64::MAX), Severity::Fault, 2, "passes the end");
    note(&with(|b| b.sparsity_ratio = f32::NAN), second, "sparsity_ratio NaN");
    let unaligned = with(|b| b.data.0 -= 1);
    among(&unaligned, Severity::Fault, 2, "data does not start on a multiple of 128");
    // An alignment need not be a power of two: 4128 is a multiple of 48, 4224 is as well.
    let mut sample = pair();
    (sample.alignment, sample.flags) = (48, 0x21);
    sample.entries[0].data.0 = 4128;
    let mut file = sample.bytes();
    set(&mut file, 0x40, 4128);
    assert!(verify(&file).is_sound(), "{:?}", lines(&file));
}

#[test]
fn overlaps() {
    let at = |offset: u64, size: u64| {
        let mut sample = pair();
        sample.entries[1].data = (offset, size);
        sample.entries[1].shape = vec![size / 4];
        sample.bytes()
    };
    among(&at(4096, 16), Severity::Fault, 2, "overlaps data of \"b\" (4096..4112)");
    among(&at(0, 16), Severity::Fault, 3, "the header (0..128)");
    among(&at(128, 16), Severity::Fault, 3, "the metadata (128..153)");
    among(&at(4096, 32), Severity::Fault, 2, "by 32 bytes");
    // Sections overlap each other.
    let mut file = pair().bytes();
    set(&mut file, 0x20, 120);
    among(&file, Severity::Fault, 6, "the metadata (120..145) overlaps the header (0..128) by 8");
    let mut sample = pair();
    (sample.appendix, sample.flags) = (4096, 0x13);
    among(&sample.bytes(), Severity::Fault, 4, "overlaps");
}

#[test]
fn shared_references_share() {
    let tied = |shape: &[u64], change: fn(&mut sample::Entry)| {
        let mut sample = pair();
        let data = sample.entries[0].data;
        let entry = sample.add("tied", SHARED_REF, shape, &[]);
        entry.data = data;
        change(entry);
        sample.bytes()
    };
    assert_eq!(lines(&tied(&[4, 2], |_| ())), [""; 0]);
    among(&tied(&[9], |_| ()), Severity::Fault, 1, "data of 32 bytes where type and shape need 36");
    let part = tied(&[4, 2], |entry| entry.data.1 = 16);
    among(&part, Severity::Fault, 2, "shared_ref whose offset and size match no earlier tensor");
    among(&part, Severity::Fault, 2, "overlaps");
    // One that finds no target is f32 if its size is.
    let mut sample = pair();
    sample.entries[1].storage = SHARED_REF;
    assert_eq!(lines(&sample.bytes()), [""; 0]);
    // Then its own layout and sparsity decide how it decodes.
    sample.entries[1].tile = 5;
    among(&sample.bytes(), Severity::Fault, 1, "tile layout block_sparse_2_4 on f32");
    // The same range without a reference is an overlap.
    let copied = tied(&[2, 4], |entry| entry.storage = F32);
    among(&copied, Severity::Fault, 1, "overlaps data of \"a\" (4096..4128) by 32 bytes");
}

#[test]
fn bytes_that_belong_to_nothing() {
    let mut file = pair().bytes();
    file[4095] = 1;
    note(&file, 4095, "1 byte of");
    let mut file = pair().bytes();
    file.extend([0, 0, 7, 0, 7]);
    let end = file.len() as u64;
    note(&file, end - 3, &format!("2 bytes of {}..{end}, not zero", end - 5));
}

#[test]
fn appendix_records() {
    let with = |records: &[u8]| {
        let mut sample = pair();
        let end = sample.bytes().len().next_multiple_of(8);
        (sample.appendix, sample.flags) = (end as u64, 0x13);
        let mut file = sample.bytes();
        file.resize(end, 0);
        file.extend(records);
        (file, end as u64)
    };
    let plain = |kind, data: &[u8]| record(kind, b"r", data, [0; 32], 0);
    assert_eq!(lines(&with(&plain(1, b"data")).0), [""; 0]);
    let case = |records: &[u8], severity, offset: u64, words: &str| {
        let (file, start) = with(records);
        only(&file, severity, start + offset, words);
    };
    case(&[], Severity::Note, 0, "without records");
    case(&plain(0, b""), Severity::Fault, 0, "type 0");
    case(&plain(9, b""), Severity::Note, 0, "unknown record type 0x09");
    case(&plain(1, b"data")[..84], Severity::Fault, 0, "ends inside this record");
    let pair = |parent| [plain(1, b"one"), record(1, b"r", b"two", parent, 0)].concat();
    let (file, start) = with(&pair([7; 32]));
    among(&file, Severity::Fault, 2, "parent_hash is not the hash of the record before it");
    among(&file, Severity::Note, 2, "generation 0 comes after generation 0");
    among(&with(&pair([0; 32])).0, Severity::Note, 2, "parent_hash is not set");
    assert_eq!(verify(&file).findings()[0].offset, start + 88);
    case(&record(1, b"r", b"x", [0; 32], 5), Severity::Fault, 0, "00000005 is stated");
    case(
        &record(1, b"r", b"123456789", [0; 32], 0xCBF4_3926)[..90],
        Severity::Note,
        0,
        "ends 6 bytes before",
    );
    case(&record(1, b"\xFF", b"", [0; 32], 0), Severity::Fault, 0, "not UTF-8");
    let mut dirty = plain(1, b"x");
    *dirty.last_mut().unwrap() = 1;
    case(&dirty, Severity::Note, 0, "padding is not zero");
    let leftover = [plain(1, b"x"), vec![0, 3]].concat();
    case(&leftover, Severity::Note, 88, "2 bytes after the last record");
}

#[test]
fn seals() {
    let seal = |mut file: Vec<u8>| {
        file[9] |= 2;
        let header = hk_core::Header::parse(&file).unwrap();
        let mut sealer = Sealer::new(&header);
        sealer.update(&file[128..]);
        let digest = sealer.finish();
        file[0x50..0x58].copy_from_slice(&digest[..8]);
        file[0x5A..0x7A].copy_from_slice(&digest);
        file
    };
    let sealed = seal(pair().bytes());
    assert_eq!(lines(&sealed), [""; 0]);
    for at in [PAYLOADS as usize, 130, 0x7A] {
        let mut file = sealed.clone();
        file[at] ^= 1;
        among(&file, Severity::Fault, 3, "the seal is broken");
    }
    let mut file = sealed.clone();
    file[0x50] ^= 1;
    fault(&file, 0x50, "checksum field");
}

#[test]
fn findings_are_bounded() {
    let mut file = Sample::new().bytes();
    file.truncate(128);
    let count = 20_000u64;
    for _ in 0..count {
        file.extend([0, 0, 9, 0, 0, 0, 0]);
    }
    set(&mut file, 0x18, count);
    set(&mut file, 0x28, count * 7);
    let report = verify(&file);
    assert_eq!((report.faults(), report.notes()), (count - 1, count));
    assert_eq!(report.findings().len(), 20_000);
    assert_eq!(report.left_out(), 2 * count - 1 - 20_000);
}
