use hk_core::{
    Error, ErrorKind, Hk, Part, Portable, Residual, Section, SparsityType, StorageType, Tensor,
    TileLayout,
};

use crate::Bytes;

/// Four f32 at 800, and tensors over them.
fn file(toc: (u64, Bytes)) -> Vec<u8> {
    let (count, toc) = toc;
    let mut file = Bytes::file((0, Bytes::default()), (count, toc), &[]);
    assert!(file.len() <= 800);
    file.resize(800, 0);
    for weight in [1.0f32, -2.0, 3.5, 0.25] {
        file.extend(weight.to_le_bytes());
    }
    file
}

fn decode(tensor: &Tensor<'_>) -> Result<Vec<f32>, Error> {
    let mut out = vec![9.0; tensor.shape.count() as usize];
    tensor.dequantize_into(&Portable, &mut out, Residual::Add)?;
    Ok(out)
}

#[test]
fn tensors_by_name_and_by_bytes() {
    let toc = Bytes::default().tensor("a", 0, &[2, 2], [800, 16]).tensor("b", 0, &[], [804, 4]);
    let file = file((2, toc));
    let hk = Hk::parse(&file).unwrap();
    let (a, b) = (hk.tensor("a").unwrap(), hk.tensor("b").unwrap());
    assert_eq!(decode(&a), Ok(vec![1.0, -2.0, 3.5, 0.25]));
    assert_eq!(decode(&b), Ok(vec![-2.0]));
    assert_eq!((a.data(), b.data()), (&file[800..816], &file[804..808]));
    assert!(a.scales().is_empty() && a.residual().is_empty());
    assert!(hk.tensor("c").is_none() && hk.appendix().next().is_none());
    let outline = hk.outline();
    assert_eq!(outline.over(&file).tensors().len(), 2);
}

#[test]
fn payloads_too_short_fail_only_their_tensor() {
    let toc = Bytes::default().tensor("short", 0, &[5], [800, 16]).tensor("ok", 0, &[4], [800, 16]);
    let file = file((3, toc.tensor("none", 0, &[1], [u64::MAX, 0])));
    let hk = Hk::parse(&file).unwrap();
    let error = decode(&hk.tensor("short").unwrap()).unwrap_err();
    let kind = ErrorKind::TooShort { part: Part::Data, needed: 20, available: 16 };
    assert_eq!((error.kind(), error.section()), (kind, Section::Payload));
    assert_eq!((error.offset(), error.index()), (800, Some(0)));
    assert!(decode(&hk.tensor("ok").unwrap()).is_ok());
    // Bytes that are not there stand nowhere: the entry is what is wrong.
    let none = hk.tensor("none").unwrap();
    let error = decode(&none).unwrap_err();
    assert_eq!((error.section(), error.offset()), (Section::Toc, none.offset));
}

#[test]
fn shared_references() {
    let toc = Bytes::default()
        .tensor("early", 0x31, &[4], [800, 16])
        .tensor("null", 0x30, &[4], [800, 16])
        .tensor("codes", 0x05, &[16], [800, 16])
        .tensor("rows", 0, &[4], [800, 16]);
    let late = toc.tensor("late", 0x31, &[3], [800, 16]).tensor("lost", 0x31, &[2], [804, 4]);
    let file = file((6, late));
    let hk = Hk::parse(&file).unwrap();
    let tensor = |name| hk.tensor(name).unwrap();
    // Nothing stands before it, and its size is that of its shape as f32.
    assert_eq!(tensor("early").resolve().unwrap().storage, StorageType::F32);
    assert_eq!(decode(&tensor("early")), Ok(vec![1.0, -2.0, 3.5, 0.25]));
    // The first that is no reference, with a shape of its own.
    let late = tensor("late").resolve().unwrap();
    assert_eq!((late.storage, late.name, late.index), (StorageType::INT8, "late", 4));
    assert_eq!(decode(&tensor("late")), Ok(vec![0.0, 0.0, -128.0]));
    let error = decode(&tensor("lost")).unwrap_err();
    let place = (error.kind(), error.section(), error.index());
    assert_eq!(place, (ErrorKind::DanglingReference, Section::Toc, Some(5)));
    assert_eq!(error.offset(), tensor("lost").offset);
    assert!(tensor("late").refers_to(tensor("codes").entry()));
    assert!(!tensor("late").refers_to(tensor("null").entry()));
}

#[test]
fn null_references_are_zeros_of_any_size() {
    let file = file((1, Bytes::default().tensor("n", 0x30, &[1 << 60], [0, 0])));
    let hk = Hk::parse(&file).unwrap();
    let mut out = [9.0; 3];
    let range = (1 << 60) - 3..1 << 60;
    let tensor = hk.tensor("n").unwrap();
    tensor.dequantize_range(&Portable, range, &mut out, Residual::Add).unwrap();
    assert_eq!(out, [0.0; 3]);
}

#[test]
fn what_has_no_decoder_is_named() {
    let codes = [(0x12, 0, 0), (0x32, 0, 0), (0xEE, 0, 0), (0, 9, 0), (0, 0, 9), (0x15, 2, 0)];
    for (storage, tile, sparsity) in codes {
        let mut toc = Bytes::default().tensor("t", storage, &[2, 2], [800, 16]);
        (toc.0[4], toc.0[5]) = (tile, sparsity);
        let file = file((1, toc));
        let hk = Hk::parse(&file).unwrap();
        let error = decode(&hk.tensor("t").unwrap()).unwrap_err();
        let storage = StorageType(storage);
        let expected = match (tile, sparsity) {
            (0, 0) => ErrorKind::Undecodable(storage),
            (0, _) => ErrorKind::Sparsity(storage, SparsityType(sparsity)),
            _ => ErrorKind::TileLayout(storage, TileLayout(tile)),
        };
        assert_eq!((error.kind(), error.index()), (expected, Some(0)));
        let text = error.to_string();
        assert!(text.contains(&storage.to_string()), "{text}");
        assert!(hk.tensor("t").unwrap().locate(0..1).is_err());
    }
}

#[test]
fn an_outline_over_other_bytes_gives_nothing_out_of_bounds() {
    let toc = Bytes::default().tensor("a", 0, &[4], [800, 16]).tensor("b", 0x31, &[4], [800, 16]);
    let file = file((2, toc));
    let outline = Hk::parse(&file).unwrap().outline();
    let noise: Vec<u8> = (0..file.len()).map(|i| (i * 73 + 5) as u8).collect();
    for other in
        [&[][..], &file[..128], &file[..200], &file[..810], &noise, &[0; 816], &[0xFF; 816]]
    {
        let hk = outline.over(other);
        assert!(hk.metadata().iter().count() == 0 && hk.appendix().next().is_none());
        assert!(hk.tensors().count() <= 2);
        for tensor in hk.tensors() {
            assert!(tensor.data().len() <= other.len());
            // An error or weights, whatever they are.
            let _ = tensor.dequantize_range(&Portable, 0..0, &mut [], Residual::Add);
            let _ = tensor.resolve().map(|resolved| resolved.data().len());
        }
    }
}
