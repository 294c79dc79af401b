use hk_core::{
    Error, ErrorKind, Part, Section, Shape, SparsityType, StorageType, TensorEntry, TileLayout, Toc,
};

use crate::{Bytes, parts};

/// An entry with a different number in every field.
fn distinct() -> Vec<u8> {
    let head = Bytes::default().u16(3).raw("one").raw([0x42, 1, 2, 2]);
    let spans = head.u64(3).u64(4).u64(5).u64(6).u64(7).u64(8).u64(9).u64(10);
    spans.u16(11).u32(0.25f32.to_bits()).0
}

#[test]
fn every_field_stands_where_the_specification_says() {
    let bytes = distinct();
    let (entry, len) = TensorEntry::read(&bytes, 17).unwrap();
    assert_eq!((entry.index, entry.name, len), (17, "one", bytes.len()));
    assert_eq!(entry.storage, StorageType::Q4_K);
    assert_eq!((entry.tile, entry.sparsity), (TileLayout::COL_MAJOR, SparsityType::CSR));
    assert_eq!((&entry.shape[..], entry.shape.count()), (&[3, 4][..], 12));
    let spans = [entry.data, entry.residual, entry.scales].map(|span| [span.offset, span.size]);
    assert_eq!(spans, [[5, 6], [7, 8], [9, 10]]);
    assert_eq!((entry.block_size, entry.sparsity_ratio), (11, 0.25));
    let parts: Vec<Part> = entry.parts().map(|(part, _)| part).collect();
    assert_eq!(parts, [Part::Data, Part::Scales, Part::Residual]);
    let mut nameless = entry;
    nameless.name = "";
    assert_eq!(entry.without_name(), nameless);
}

#[test]
fn cut_at_every_byte() {
    let bytes = distinct();
    for len in 0..bytes.len() {
        let error = TensorEntry::read(&bytes[..len], 4).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Truncated { .. }), "{len}: {error}");
        assert_eq!((error.section(), error.index()), (Section::Toc, Some(4)));
    }
}

#[test]
fn the_largest_entry_takes_252_bytes() {
    let (name, shape) = ("n".repeat(128), [1; 8]);
    let bytes = Bytes::default().tensor(&name, 0, &shape, [0, 0]).0;
    assert_eq!(bytes.len(), 252);
    let (entry, len) = TensorEntry::read(&bytes, 0).unwrap();
    assert_eq!((entry.name, entry.shape.len(), len), (&name[..], 8, 252));
}

#[test]
fn names_and_dimensions_beyond_the_limits() {
    let error = |bytes: Bytes| parts(TensorEntry::read(&bytes.0, 2).unwrap_err());
    let long = Bytes::default().tensor(&"n".repeat(129), 0, &[], [0, 0]);
    assert_eq!(error(long), (ErrorKind::NameLength(129), Section::Toc, 0, Some(2)));
    let many = Bytes::default().tensor("n", 0, &[1; 9], [0, 0]);
    // 2 of the length, 1 of the name, 3 codes.
    assert_eq!(error(many), (ErrorKind::Dimensions(9), Section::Toc, 6, Some(2)));
    let mut text = Bytes::default().tensor("abc", 0, &[], [0, 0]);
    text.0[3] = 0xFF;
    assert_eq!(error(text), (ErrorKind::Text, Section::Toc, 3, Some(2)));
    // An empty name is one.
    let nameless = Bytes::default().tensor("", 0, &[], [0, 0]).0;
    assert_eq!(TensorEntry::read(&nameless, 0).unwrap().0.name, "");
}

#[test]
fn products_of_dimensions() {
    let count = |shape: &[u64]| {
        let bytes = Bytes::default().tensor("n", 0, shape, [0, 0]).0;
        let entry = TensorEntry::read(&bytes, 0).map(|(entry, _)| entry.shape);
        assert_eq!(entry.is_ok(), Shape::new(shape).is_ok(), "{shape:?}");
        entry.map(|shape| (shape.count(), shape.row_len())).map_err(|e| e.kind())
    };
    assert_eq!(count(&[]), Ok((1, 1)));
    assert_eq!(count(&[3, 5]), Ok((15, 5)));
    assert_eq!(count(&[u64::MAX, 0, u64::MAX]), Ok((0, u64::MAX)));
    assert_eq!(count(&[u64::MAX, 2, 0]), Ok((0, 0)));
    assert_eq!(count(&[u64::MAX, 1]), Ok((u64::MAX, 1)));
    assert_eq!(count(&[1 << 32, (1 << 32) - 1]), Ok((((1 << 32) - 1) << 32, (1 << 32) - 1)));
    assert_eq!(count(&[1 << 32, 1 << 32]), Err(ErrorKind::ElementCount));
    assert_eq!(count(&[u64::MAX, u64::MAX]), Err(ErrorKind::ElementCount));
    assert_eq!(Shape::new(&[1; 9]).unwrap_err().kind(), ErrorKind::Dimensions(9));
    assert_eq!(Shape::new(&[1; 300]).unwrap_err().kind(), ErrorKind::Dimensions(255));
}

#[test]
fn ranges_are_compared_with_the_file() {
    let check = |data: [u64; 2]| {
        let bytes = Bytes::default().tensor("n", 0, &[1], data).0;
        Toc::parse(&bytes, 1, 500).map(|toc| toc.len()).map_err(|e| (e.kind(), e.index()))
    };
    let outside = |size| {
        let part = Part::Data;
        Err((ErrorKind::OutOfBounds { part, size, file: 500 }, Some(0)))
    };
    assert_eq!(check([0, 500]), Ok(1));
    assert_eq!(check([496, 4]), Ok(1));
    assert_eq!(check([497, 4]), outside(4));
    assert_eq!(check([1 << 32, 4]), outside(4));
    assert_eq!(check([(1 << 32) + 496, 4]), outside(4));
    assert_eq!(check([0, 1 << 32]), outside(1 << 32));
    assert_eq!(check([u64::MAX, 2]), outside(2));
    assert_eq!(check([2, u64::MAX]), outside(u64::MAX));
    // No bytes are none, wherever they are said to be.
    assert_eq!(check([u64::MAX, 0]), Ok(1));
}

#[test]
fn tables_walk_as_they_parsed() {
    let bytes = Bytes::default()
        .tensor("a", 0, &[2], [0, 8])
        .tensor("b", 0xEE, &[], [8, 1])
        .tensor("a", 0x15, &[32], [16, 18])
        .raw([9; 5])
        .0;
    let toc = Toc::parse(&bytes, 3, 100).unwrap();
    let names: Vec<&str> = toc.iter().map(|entry| entry.name).collect();
    assert_eq!((names, toc.len()), (vec!["a", "b", "a"], 3));
    assert_eq!(toc.used(), bytes.len() as u64 - 5);
    // Of two equal names the first.
    assert_eq!(toc.get("a").map(|entry| entry.index), Some(0));
    assert_eq!(toc.get("c"), None);
    let offsets: Vec<u64> = toc.iter().map(|entry| entry.offset).collect();
    assert_eq!(offsets, [0, 69, 130]);
    let left = toc.iter().len();
    assert_eq!((left, toc.into_iter().count()), (3, 3));
    let short: Result<Toc<'_>, Error> = Toc::parse(&bytes, 4, 100);
    assert_eq!(short.unwrap_err().index(), Some(3));
}
