use hk_core::format::{HEADER_LEN, MAGIC};
use hk_core::{ErrorKind, Flags, Header, Section, Span};

use crate::{Bytes, parts};

/// A header with a different number in every field.
fn distinct() -> Vec<u8> {
    let start = Bytes::default().raw("HKNT").u16(1).u16(2).u32(0x0003_0005).u16(4).u16(5);
    let counts = start.u64(6).u64(7);
    let sections = counts.u64(8).u64(9).u64(10).u64(11).u64(12).u64(13);
    let reserved: Vec<u8> = (100..138).collect();
    sections.u64(14).u16(15).raw(reserved).0
}

#[test]
fn every_field_stands_where_the_specification_says() {
    let bytes = distinct();
    assert_eq!((bytes.len(), &bytes[..4]), (HEADER_LEN, &MAGIC[..]));
    let header = Header::parse(&bytes).unwrap();
    assert_eq!((header.version_major, header.version_minor), (1, 2));
    assert_eq!((header.flags, header.alignment, header.split_index), (Flags(0x30005), 4, 5));
    assert_eq!((header.tensor_count, header.metadata_kv_count), (6, 7));
    assert_eq!(header.metadata, Span { offset: 8, size: 9 });
    assert_eq!(header.toc, Span { offset: 10, size: 11 });
    assert_eq!((header.tensor_data_offset, header.appendix_offset), (12, 13));
    assert_eq!((header.checksum, header.split_count), (14, 15));
    assert_eq!((header.reserved[0], header.reserved[37]), (100, 137));
    assert_eq!(header.to_bytes(), bytes[..]);
}

#[test]
fn what_is_no_hk_file() {
    let bytes = distinct();
    let kind = |bytes: &[u8]| Header::parse(bytes).unwrap_err().kind();
    assert_eq!(kind(b"GGUF"), ErrorKind::NotHk);
    assert_eq!(kind(b"HKN!"), ErrorKind::NotHk);
    assert_eq!(kind(b"X"), ErrorKind::NotHk);
    for len in 0..HEADER_LEN {
        let (needed, available) = (128, len as u64);
        assert_eq!(kind(&bytes[..len]), ErrorKind::Truncated { needed, available });
    }
    let spoilt = |at: usize, byte: u8| {
        let mut bytes = bytes.clone();
        bytes[at] = byte;
        parts(Header::parse(&bytes).unwrap_err())
    };
    assert_eq!(spoilt(4, 2), (ErrorKind::Version(2), Section::Header, 4, None));
    assert_eq!(spoilt(5, 1), (ErrorKind::Version(257), Section::Header, 4, None));
    assert_eq!(spoilt(8, 4), (ErrorKind::NotLittleEndian, Section::Header, 8, None));
}

#[test]
fn sections_are_compared_with_the_file() {
    let check = |metadata, toc, file: u64| {
        let header = Header::parse(&Bytes::header(0, metadata, 0, toc).0).unwrap();
        header.check(file).map_err(parts)
    };
    assert_eq!(check([128, 0], [128, 0], 128), Ok(()));
    assert_eq!(check([128, 72], [200, 0], 200), Ok(()));
    let outside = |size, at| {
        Err((ErrorKind::SectionOutOfBounds { size, file: 200 }, Section::Header, at, None))
    };
    assert_eq!(check([128, 73], [200, 0], 200), outside(73, 0x20));
    assert_eq!(check([201, 0], [200, 0], 200), outside(0, 0x20));
    assert_eq!(check([128, u64::MAX], [200, 0], 200), outside(u64::MAX, 0x20));
    assert_eq!(check([u64::MAX, 1], [200, 0], 200), outside(1, 0x20));
    assert_eq!(check([128, 0], [1 << 32, 8], 200), outside(8, 0x30));
    assert_eq!(check([128, 0], [200, (1 << 32) + 1], 200), outside((1 << 32) + 1, 0x30));
}

#[test]
fn counts_are_compared_with_their_sections() {
    let check = |kv_count, size, tensor_count, toc_size| {
        let bytes = Bytes::header(kv_count, [128, size], tensor_count, [128, toc_size]).0;
        Header::parse(&bytes).unwrap().check(1 << 50).map_err(|e| (e.kind(), e.offset()))
    };
    assert_eq!(check(3, 21, 2, 120), Ok(()));
    let count = |claimed, possible, at| Err((ErrorKind::Count { claimed, possible }, at));
    assert_eq!(check(4, 21, 2, 120), count(4, 3, 0x18));
    assert_eq!(check(3, 21, 3, 179), count(3, 2, 0x10));
    assert_eq!(check(u64::MAX, 21, 2, 120), count(u64::MAX, 3, 0x18));
    let most = u64::from(u32::MAX);
    assert_eq!(check(0, 0, most, 60 * most), Ok(()));
    assert_eq!(check(0, 0, most + 1, 60 * (most + 1)), count(most + 1, most, 0x10));
}

#[test]
fn an_appendix_begins_inside_the_file_or_at_its_end() {
    let check = |offset: u64| {
        let mut header = Header::empty();
        header.appendix_offset = offset;
        header.check(1000).map_err(|e| (e.kind(), e.offset()))
    };
    assert_eq!(check(0), Ok(()));
    assert_eq!(check(999), Ok(()));
    assert_eq!(check(1000), Ok(()));
    let outside = ErrorKind::SectionOutOfBounds { size: 0, file: 1000 };
    assert_eq!(check(1001), Err((outside, 0x48)));
    assert_eq!(check(u64::MAX), Err((outside, 0x48)));
}

#[test]
fn numbers_that_stand_for_others() {
    let mut header = Header::empty();
    assert_eq!((header.payload_alignment(), header.shards()), (128, 1));
    (header.alignment, header.split_count) = (0, 0);
    assert_eq!((header.payload_alignment(), header.shards()), (65536, 1));
    (header.alignment, header.split_count) = (3, 7);
    assert_eq!((header.payload_alignment(), header.shards()), (3, 7));
    assert_eq!(Header::parse(&header.to_bytes()), Ok(header));
}

#[test]
fn flags_by_name() {
    let flags = Flags(0x8000_0213);
    let names: Vec<&str> = flags.names().collect();
    assert_eq!(names, ["LITTLE_ENDIAN", "HAS_APPENDIX", "TILE_ALIGNED", "SEALED"]);
    assert_eq!(flags.unknown(), 0x8000_0000);
    assert_eq!(Flags(0x3FF).names().count(), 10);
    assert_eq!(Flags(0x3FF).unknown(), 0);
    assert!(flags.contains(Flags::SEALED) && !flags.contains(Flags::IS_SHARDED));
    assert_eq!(Flags::for_alignment(128), Flags::TILE_ALIGNED);
    assert_eq!(Flags::for_alignment(48), Flags::FLEXIBLE_ALIGNMENT);
    let page = Flags::TILE_ALIGNED.with(Flags::UNIVERSAL_PAGE_ALIGNED);
    assert_eq!(Flags::for_alignment(4096), page);
    assert_eq!(Flags::for_alignment(65536), page);
    let odd = Flags::FLEXIBLE_ALIGNMENT.with(Flags::UNIVERSAL_PAGE_ALIGNED);
    assert_eq!(Flags::for_alignment(4097), odd);
}
