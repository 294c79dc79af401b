//! Encoding rows of weights to elements and blocks.

// Too slow for Miri, which has the unsafe code of the kernels to look at.
#[cfg(all(
    not(miri),
    feature = "k-quants",
    feature = "i-quants",
    feature = "fp4",
    feature = "ternary"
))]
mod all;

use hk_core::{Backend, ErrorKind, Portable, StorageType, encode};

/// Types that have an encoder.
fn types() -> impl Iterator<Item = StorageType> {
    StorageType::all().filter(|&storage| encode::is_encodable(storage))
}

fn quantize(storage: StorageType, weights: &[f32], columns: usize) -> Result<Vec<u8>, ErrorKind> {
    let rows = weights.len() / columns;
    let len = encode::encoded_len(storage, rows, columns).map_err(|error| error.kind())?;
    let mut out = vec![0xAA; len];
    Portable.quantize(storage, weights, columns, None, &mut out).map_err(|error| error.kind())?;
    Ok(out)
}

#[test]
#[cfg_attr(miri, ignore = "hours")]
fn what_is_not_finite_is_named_by_its_index() {
    for storage in types() {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -f32::NAN] {
            for index in [0, 255, 1300, 5 * 1024 - 1] {
                let mut weights = vec![0.25; 5 * 1024];
                weights[index] = bad;
                weights[5 * 1024 - 1] = bad;
                let error = quantize(storage, &weights, 1024).unwrap_err();
                assert_eq!(error, ErrorKind::NotFinite { index: index as u64 }, "{storage}");
            }
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "hours")]
fn what_is_too_large_is_named_by_its_index() {
    for storage in types().filter(|&storage| storage != StorageType::F32) {
        let mut weights = vec![-0.5; 4096];
        weights[3000] = -f32::MAX;
        let error = quantize(storage, &weights, 1024).unwrap_err();
        assert_eq!(error, ErrorKind::TooLarge { storage, index: 3000 });
    }
}

#[test]
fn arguments_that_do_not_fit_are_refused() {
    let (q8_0, row) = (StorageType::Q8_0, [1.0; 64]);
    let kind = |storage, weights, columns, importance: Option<&[f32]>, len| {
        let mut out = vec![0; len];
        let result = Portable.quantize(storage, weights, columns, importance, &mut out);
        result.map_err(|error| error.kind())
    };
    for storage in [StorageType::INT8, StorageType::IQ1_S, StorageType::Q8_1, StorageType(0xEE)] {
        let expected = Err(ErrorKind::NotEncodable(storage));
        assert_eq!(kind(storage, &row, 64, None, 68), expected);
    }
    let expected = Err(ErrorKind::RowLength { weights: 16, multiple: 32 });
    assert_eq!(kind(q8_0, &row, 16, None, 68), expected);
    let expected = Err(ErrorKind::RowLength { weights: 64, multiple: 96 });
    assert_eq!(kind(q8_0, &row, 96, None, 0), expected);
    let expected = Err(ErrorKind::RowLength { weights: 64, multiple: 0 });
    assert_eq!(kind(q8_0, &row, 0, None, 0), expected);
    assert_eq!(kind(q8_0, &[], 0, None, 0), Ok(()));
    for len in [67, 69, 0] {
        let expected = Err(ErrorKind::EncodedLength { expected: 68, given: len as u64 });
        assert_eq!(kind(q8_0, &row, 32, None, len), expected);
    }
    let expected = Err(ErrorKind::ImportanceLength { columns: 32, given: 64 });
    assert_eq!(kind(q8_0, &row, 32, Some(&[1.0; 64]), 68), expected);
    for bad in [-1.0, f32::NAN, f32::INFINITY] {
        let mut importance = [1.0; 32];
        importance[7] = bad;
        let expected = Err(ErrorKind::Importance { column: 7 });
        assert_eq!(kind(q8_0, &row, 32, Some(&importance), 68), expected);
    }
    assert_eq!(kind(q8_0, &row, 32, Some(&[0.0; 32]), 68), Ok(()));
    let error = encode::encoded_len(q8_0, usize::MAX, 1 << 20).unwrap_err().kind();
    assert!(matches!(error, ErrorKind::ElementCount | ErrorKind::AddressSpace(_)), "{error:?}");
}
