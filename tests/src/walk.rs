//! A walk over everything that a file offers, with every promise of the API checked on the
//! way: for corrupt files and for fuzzing, where the content can be anything.

use std::ops::Range;

use hk_core::format::appendix::Record;
use hk_core::format::seal;
use hk_core::{
    Activation, Array, Backend, Error, ErrorKind, Header, Hk, Metadata, Portable, Residual,
    Section, Tensor, Toc, Value,
};

use hk_std::verify::{Report, verify};

use crate::{bits, oracle};

/// Tensors decoded of one file; looking up references walks the table each time.
const MOST_TENSORS: usize = 256;
/// Elements decoded at once.
const MOST_ELEMENTS: u64 = 700;

/// What a walk met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Walked {
    /// Metadata pairs.
    pub pairs: usize,
    /// Packed arrays among them.
    pub arrays: usize,
    /// Tensors.
    pub tensors: usize,
    /// Tensors that decoded.
    pub decoded: usize,
    /// Whole appendix records.
    pub records: usize,
    /// Whether the seal is intact.
    pub sealed: bool,
    /// Whether verifying found no fault.
    pub sound: bool,
}

/// Parses `file` and reads everything in it.
///
/// # Errors
/// What [`Hk::parse`] says.
///
/// # Panics
/// When the reader breaks a promise: its verdict or content differs from the specification,
/// an error points outside the file or says nothing, or decoding depends on the range.
pub fn walk(file: &[u8]) -> Result<Walked, Error> {
    let parsed = Hk::parse(file);
    let content = oracle::read(file);
    let hk = match (parsed, &content) {
        (Err(error), None) => {
            check_error(&error, file);
            check_sections(file, Err(error));
            assert!(!walk_report(file).is_sound(), "verify has no fault, parse has: {error}");
            return Err(error);
        }
        (Ok(hk), Some(content)) => {
            check_content(&hk, content);
            check_sections(file, Ok(hk));
            hk
        }
        (parsed, content) => panic!("parse gave {parsed:?}, the specification {content:?}"),
    };
    let report = walk_report(file);
    let mut walked =
        Walked { sound: report.is_sound(), pairs: hk.metadata().len(), ..Walked::default() };
    walked.arrays = walk_arrays(hk.metadata());
    walked.tensors = hk.tensors().len();
    for tensor in hk.tensors().take(MOST_TENSORS) {
        let (faults, result) = (report.faults(), walk_tensor(&tensor, file));
        walked.decoded += usize::from(result.is_ok());
        if let Err(error) = result {
            let refused = !is_fault(&error);
            assert!(refused || faults > 0, "verify has no fault, decoding has: {error}");
        }
    }
    walked.records = walk_appendix(&hk, &report);
    let seal = seal::verify(file, hk.header());
    assert!(seal != seal::Seal::Broken || !walked.sound, "verify passes a broken seal");
    walked.sealed = seal == seal::Seal::Intact;
    Ok(walked)
}

/// Whether decoding failed because the file is wrong, and not for want of a decoder.
fn is_fault(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::TooShort { .. }
            | ErrorKind::ElementCount
            | ErrorKind::DanglingReference
            | ErrorKind::BlockSize(_)
            | ErrorKind::Sparse(_)
    )
}

/// Every structural check, each finding one line about a place in the file.
fn walk_report(file: &[u8]) -> Report {
    let report = verify(file);
    for finding in report.findings() {
        let line = finding.to_string();
        assert!(finding.offset <= file.len() as u64, "{line}");
        assert!(!line.contains(char::is_control), "{line:?}");
    }
    report
}

/// An error names a place in the file and has something to say.
fn check_error(error: &Error, file: &[u8]) {
    assert!(
        error.section() == Section::Call || error.offset() <= file.len() as u64,
        "{error:?} points past the end of {} bytes",
        file.len()
    );
    assert!(error.to_string().len() > 10, "{error:?}");
}

fn check_content(hk: &Hk<'_>, content: &oracle::Content<'_>) {
    assert_eq!(hk.header().to_bytes(), content.header);
    assert_eq!(hk.metadata().len(), content.pairs.len());
    assert_eq!(hk.metadata().iter().len(), content.pairs.len());
    assert!(hk.metadata().used() <= hk.header().metadata.size);
    for (entry, (key, tag, bytes)) in hk.metadata().iter().zip(&content.pairs) {
        assert_eq!((entry.key, entry.value.tag().0), (*key, *tag));
        let same = match entry.value {
            Value::String(text) | Value::Json(text) => text.as_bytes() == *bytes,
            Value::Int64(number) => number.to_le_bytes() == *bytes,
            Value::Float64(number) => number.to_bits().to_le_bytes() == *bytes,
            Value::Bool(truth) => truth == (*bytes != [0]),
            Value::Bytes(there) | Value::Unknown(_, there) => there == *bytes,
            other => panic!("a value that the walk does not know: {other:?}"),
        };
        assert!(same, "{entry:?} is {bytes:?} in the file");
    }
    assert_eq!(hk.tensors().len(), content.tensors.len());
    for (index, (tensor, there)) in hk.tensors().zip(&content.tensors).enumerate() {
        assert_eq!(tensor.index as usize, index);
        let span = |span: hk_core::Span| (span.offset, span.size);
        let read = oracle::Tensor {
            name: tensor.name,
            codes: [tensor.storage.0, tensor.tile.0, tensor.sparsity.0],
            shape: tensor.shape.to_vec(),
            spans: [span(tensor.data), span(tensor.residual), span(tensor.scales)],
            block_size: tensor.block_size,
            sparsity_ratio: tensor.sparsity_ratio.to_bits(),
        };
        assert_eq!(&read, there);
    }
}

/// Reading section by section comes to the same as reading at once.
fn check_sections(file: &[u8], whole: Result<Hk<'_>, Error>) {
    let file_len = file.len() as u64;
    let parts = Header::parse(file.get(..128).unwrap_or(file)).and_then(|header| {
        header.check(file_len)?;
        let range = |span: hk_core::Span| &file[span.offset as usize..][..span.size as usize];
        let metadata = Metadata::parse(range(header.metadata), header.metadata_kv_count)?;
        let toc = Toc::parse(range(header.toc), header.tensor_count, file_len)?;
        Ok((metadata.used(), toc.used()))
    });
    match (whole, parts) {
        (Ok(hk), Ok(used)) => assert_eq!(used, (hk.metadata().used(), hk.toc().used())),
        (Err(a), Err(b)) => {
            assert_eq!((a.kind(), a.section(), a.index()), (b.kind(), b.section(), b.index()));
        }
        (whole, parts) => panic!("at once {whole:?}, in parts {parts:?}"),
    }
}

fn walk_arrays(metadata: Metadata<'_>) -> usize {
    let mut arrays = 0;
    for entry in metadata.iter() {
        let Value::Bytes(bytes) = entry.value else {
            assert!(entry.value.array().is_err());
            continue;
        };
        let array = entry.value.array();
        assert_eq!(array.is_ok(), oracle::is_array(bytes), "{bytes:?}");
        match array {
            Ok(Array::Strings(strings)) => {
                let all: Vec<&[u8]> = strings.iter().collect();
                assert_eq!(all.len(), strings.len());
                assert!(bytes.ends_with(&all.concat()));
                let one_by_one = (0..all.len()).all(|i| strings.get(i) == Some(all[i]));
                assert!(one_by_one && strings.get(all.len()).is_none());
            }
            Ok(Array::F32(numbers)) => {
                let all: Vec<u8> = numbers.iter().flat_map(f32::to_le_bytes).collect();
                assert_eq!(all.len(), bytes[8..].len());
                assert!(numbers.get(numbers.len()).is_none());
            }
            Ok(Array::I32(numbers)) => {
                let all: Vec<u8> = numbers.iter().flat_map(i32::to_le_bytes).collect();
                assert_eq!(all, bytes[8..]);
                assert!(numbers.get(numbers.len()).is_none());
            }
            Ok(other) => panic!("an array that the walk does not know: {other:?}"),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Array);
                continue;
            }
        }
        arrays += 1;
    }
    arrays
}

/// Reads a tensor's bytes, resolves it, decodes its start, its end and something between;
/// says why not, if it does not decode.
fn walk_tensor(tensor: &Tensor<'_>, file: &[u8]) -> Result<(), Error> {
    assert_eq!(tensor.data().len() as u64, tensor.entry().data.size);
    assert_eq!(tensor.scales().len() as u64, tensor.entry().scales.size);
    assert_eq!(tensor.residual().len() as u64, tensor.entry().residual.size);
    let resolved = match tensor.resolve() {
        Ok(resolved) => resolved,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::DanglingReference);
            check_error(&error, file);
            return Err(error);
        }
    };
    assert_eq!((resolved.name, resolved.shape), (tensor.name, tensor.shape));
    walk_rows(&resolved);
    let count = tensor.shape.count();
    let short = count.min(MOST_ELEMENTS);
    let start = decode(tensor, 0..short, Residual::Add);
    if let Err(error) = start {
        check_error(&error, file);
        assert_eq!(error.index(), Some(tensor.index), "{error:?}");
        let again = decode(tensor, count - short..count, Residual::Add);
        assert!(again.is_err() || short < count, "only a range of the same elements decoded");
        return Err(error);
    }
    let start = start.unwrap_or_default();
    check_range(tensor, 0..short, &start);
    for residual in [Residual::Skip, Residual::Add] {
        let end = match decode(tensor, count - short..count, residual) {
            Ok(end) => end,
            // Of the content of a sparse payload a range sees its own part.
            Err(error) if matches!(error.kind(), ErrorKind::Sparse(_)) => return Err(error),
            Err(error) => panic!("{}: the start decodes, the end: {error}", tensor.name),
        };
        if short == count && residual == Residual::Add {
            assert_same(&start, &end);
        }
    }
    let next = count.saturating_add(1);
    for range in [0..next, next..next, u64::MAX..u64::MAX, 0..u64::MAX] {
        if range.end > count {
            let error = decode_to(tensor, range, &mut []).expect_err("a range past the end");
            assert!(matches!(error.kind(), ErrorKind::Range { .. }), "{error:?}");
        }
    }
    let error = decode_to(tensor, 0..short, &mut vec![0.0; short as usize + 1]);
    let error = error.expect_err("a wrong length");
    assert!(matches!(error.kind(), ErrorKind::OutputLength { .. }), "{error:?}");
    Ok(())
}

/// A part of `range` decodes to that part of what the whole range decoded to.
fn check_range(tensor: &Tensor<'_>, range: Range<u64>, whole: &[f32]) {
    let third = (range.end - range.start) / 3;
    let part = third..range.end - third;
    let inner = &whole[part.start as usize..part.end as usize];
    let decoded = decode(tensor, part, Residual::Add);
    assert_same(&decoded.unwrap_or_else(|e| panic!("{}: {e}", tensor.name)), inner);
}

fn assert_same(a: &[f32], b: &[f32]) {
    assert_eq!(bits(a), bits(b));
}

fn decode(tensor: &Tensor<'_>, range: Range<u64>, residual: Residual) -> Result<Vec<f32>, Error> {
    let mut out = vec![0.5; (range.end - range.start) as usize];
    tensor.dequantize_range(&Portable, range, &mut out, residual)?;
    Ok(out)
}

fn decode_to(tensor: &Tensor<'_>, range: Range<u64>, out: &mut [f32]) -> Result<(), Error> {
    tensor.dequantize_range(&Portable, range, out, Residual::Add)
}

/// Multiplies the first row, whatever its bytes are, with a row of large and small numbers.
fn walk_rows(tensor: &Tensor<'_>) {
    let row_len = tensor.shape.row_len();
    let (Ok(bytes), 1..=4096) = (tensor.storage.payload_len(&[row_len]), row_len) else { return };
    let Some(row) = tensor.data().get(..bytes as usize) else { return };
    let activation: Vec<f32> = (0..row_len).map(|i| 1e30 / (i as f32 - 7.5)).collect();
    let mut scratch = vec![0; Activation::scratch_len(tensor.storage, row_len as usize)];
    let Ok(activation) = Portable.activation(tensor.storage, &activation, &mut scratch) else {
        return;
    };
    let _any = Portable.dot(tensor.storage, row, activation);
}

fn walk_appendix(hk: &Hk<'_>, report: &Report) -> usize {
    let mut appendix = hk.appendix();
    let mut records = 0;
    // Unknown after a record whose name is no text: it is stepped over.
    let mut end = Some(hk.header().appendix_offset);
    for (index, record) in (0..).zip(appendix.by_ref()) {
        match record {
            Ok(record) => {
                assert_eq!((record.index, record.offset), (index, end.unwrap_or(record.offset)));
                end = Some(record_end(&record));
                if let Err(error) = record.check_crc() {
                    check_error(&error, hk.bytes());
                    assert!(!report.is_sound(), "verify has no fault: {error}");
                }
                records += 1;
            }
            Err(error) => {
                check_error(&error, hk.bytes());
                assert!(!report.is_sound(), "verify has no fault: {error}");
                let at = (error.index(), error.offset());
                assert_eq!(at, (Some(index), end.unwrap_or(error.offset())));
                end = None;
            }
        }
    }
    assert!(appendix.next().is_none());
    assert!(appendix.leftover().len() < 80);
    records
}

fn record_end(record: &Record<'_>) -> u64 {
    let size = 80 + record.name.len() + record.target.len() + record.data.len();
    let padding = size.next_multiple_of(8) - size - usize::from(record.missing_padding);
    record.offset + (size + padding) as u64
}
