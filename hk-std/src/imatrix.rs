//! Importance matrices as llama.cpp writes them: how much each column of a matrix counts.
//!
//! Two forms are read, told apart by content: the GGUF one (tensors `NAME.in_sum2`, the sums of
//! squared activations, and `NAME.counts`) and the older `.dat` one, little-endian: `i32`
//! number of entries, then for each `i32` length of the name, name, `i32` calls, `i32` number
//! of values, `f32` values, which are means times calls.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use hk_core::StorageType;
use hk_core::format::MAX_NAME_LEN;

use crate::convert::gguf;
use crate::error::{Error, Result};

/// Most bytes that a file may have: matrices are large, a number for each of their columns is
/// not.
const LARGEST: u64 = 1 << 30;

/// A weight for each column, by tensor name.
#[derive(Clone, Debug, Default)]
pub struct Imatrix(HashMap<String, Arc<[f32]>>);

impl Imatrix {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// A file that cannot be read, is neither of the two forms, ends early, or holds numbers
    /// that are negative or not finite.
    pub fn read(path: &Path) -> Result<Self> {
        let failed = |e| Error::io("read", path, e);
        let mut file = File::open(path).map_err(|e| Error::io("open", path, e))?;
        let metadata = file.metadata().map_err(failed)?;
        if !metadata.is_file() || metadata.len() > LARGEST {
            return Err(invalid(path, "no importance matrix: not a file, or one over 1 GiB"));
        }
        let mut magic = [0; 4];
        file.read_exact(&mut magic).map_err(failed)?;
        if magic == *b"GGUF" {
            return Self::from_gguf(&file, path);
        }
        let mut bytes = magic.to_vec();
        file.read_to_end(&mut bytes).map_err(failed)?;
        Self::from_entries(&bytes).map_err(|text| invalid(path, &text))
    }

    /// A weight for each of the `columns` columns of tensor `name`, `None` where nothing is known
    /// of it. Where there are several rows of weights, as the older form has for the experts of a
    /// layer, they count together.
    ///
    /// # Errors
    /// How many weights there are, where those are not whole rows of `columns`.
    pub fn columns(
        &self,
        name: &str,
        columns: u64,
    ) -> Option<std::result::Result<Arc<[f32]>, usize>> {
        let weights = self.0.get(name)?;
        let fits = usize::try_from(columns).ok();
        let columns = fits.filter(|&columns| columns > 0 && weights.len() % columns == 0);
        Some(match columns {
            Some(columns) if columns == weights.len() => Ok(weights.clone()),
            Some(columns) => Ok(sum_of_rows(weights, columns, 1.0).into()),
            None => Err(weights.len()),
        })
    }

    /// How many tensors there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn from_gguf(file: &File, path: &Path) -> Result<Self> {
        let tensors = gguf::tensors(file, path)?;
        // By name, so that a file of a million entries takes no million searches.
        let by_name: HashMap<_, _> =
            tensors.iter().map(|(spec, offset)| (spec.name.as_str(), (spec, *offset))).collect();
        let mut matrices = Imatrix::default();
        for (spec, offset) in &tensors {
            let Some(name) = spec.name.strip_suffix(".in_sum2") else { continue };
            let fault = |what: &str| invalid(path, &format!("{:?}: {what}", spec.name));
            let counts = by_name.get(format!("{name}.counts").as_str()).copied();
            let Some((counts, counts_offset)) = counts else {
                return Err(fault(
                    "no counts beside it: the file is damaged, or no importance matrix",
                ));
            };
            if [spec, counts].iter().any(|spec| spec.storage != StorageType::F32) {
                return Err(fault("it or its counts are not f32: write the matrix again"));
            }
            let columns = spec.shape.last().copied().unwrap_or(0);
            let columns = usize::try_from(columns).ok().filter(|&columns| columns > 0);
            let columns = columns.ok_or_else(|| fault("no columns: write the matrix again"))?;
            // At most the file, by the checks of its table, so that memory holds them.
            let sums =
                floats(file, *offset, spec.data_size).map_err(|e| Error::io("read", path, e))?;
            let counts = floats(file, counts_offset, counts.data_size)
                .map_err(|e| Error::io("read", path, e))?;
            let total: f32 = counts.iter().sum();
            let means = sum_of_rows(&sums, columns, total);
            matrices
                .add(name, if total > 0.0 { means } else { Vec::new() })
                .map_err(|e| fault(&e))?;
        }
        match matrices.is_empty() {
            true => Err(invalid(
                path,
                "a GGUF file without importance matrices: give the file that llama-imatrix wrote",
            )),
            false => Ok(matrices),
        }
    }

    fn from_entries(bytes: &[u8]) -> std::result::Result<Self, String> {
        let mut reader = Entries { bytes, at: 0 };
        let mut matrices = Imatrix::default();
        let count = reader.number("number of entries", bytes.len() as u64 / 12)?;
        for index in 0..count {
            let len = reader.number("length of a name", MAX_NAME_LEN as u64)?;
            let name = reader.take(len, "a name")?;
            let name = std::str::from_utf8(name)
                .map_err(|_| format!("entry {index}: a name that is not UTF-8; {DAMAGED}"))?;
            let calls = reader.number("number of calls", i32::MAX as u64)?.max(1) as f32;
            let len = reader.number("number of values", bytes.len() as u64 / 4)?;
            let values = reader.take(len * 4, "values")?.as_chunks().0;
            let means = values.iter().map(|&bytes| f32::from_le_bytes(bytes) / calls).collect();
            matrices.add(name, means).map_err(|e| format!("{name:?}: {e}"))?;
        }
        match matrices.is_empty() {
            true => Err(format!("no importance matrix of any tensor; {DAMAGED}")),
            false => Ok(matrices),
        }
    }

    /// Adds what is known of a tensor. All zeros say nothing.
    fn add(&mut self, name: &str, means: Vec<f32>) -> std::result::Result<(), String> {
        if means.iter().any(|mean| !(0.0..f32::INFINITY).contains(mean)) {
            return Err(format!("a weight that is negative, NaN or infinite; {DAMAGED}"));
        }
        if means.iter().any(|&mean| mean > 0.0) {
            self.0.insert(name.to_owned(), means.into());
        }
        Ok(())
    }
}

const DAMAGED: &str = "the file is damaged, or no importance matrix";

fn invalid(path: &Path, text: &str) -> Error {
    Error::Invalid(format!("{}: {text}", path.display()))
}

/// The sum of rows of `columns` numbers, over `total`.
fn sum_of_rows(rows: &[f32], columns: usize, total: f32) -> Vec<f32> {
    let mut sums = vec![0.0; columns];
    for row in rows.chunks_exact(columns) {
        for (sum, number) in sums.iter_mut().zip(row) {
            *sum += number / total;
        }
    }
    sums
}

/// `len` bytes of floats from `offset` on.
fn floats(mut file: &File, offset: u64, len: u64) -> std::io::Result<Vec<f32>> {
    file.seek(SeekFrom::Start(offset))?;
    let mut bytes = Vec::new();
    file.take(len).read_to_end(&mut bytes)?;
    Ok(bytes.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect())
}

/// Reads the older form.
struct Entries<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Entries<'a> {
    fn take(&mut self, len: u64, what: &str) -> std::result::Result<&'a [u8], String> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let taken = usize::try_from(len).ok().and_then(|len| rest.get(..len));
        let taken = taken.ok_or_else(|| {
            format!("{what} of {len} bytes at byte {} passes the end; {DAMAGED}", self.at)
        })?;
        self.at += taken.len();
        Ok(taken)
    }

    /// A number that is not negative and at most `most`.
    fn number(&mut self, what: &str, most: u64) -> std::result::Result<u64, String> {
        let at = self.at;
        let bytes = self.take(4, what)?.first_chunk().copied().unwrap_or_default();
        let number = i32::from_le_bytes(bytes);
        let found = u64::try_from(number).ok().filter(|&number| number <= most);
        found.ok_or_else(|| format!("{number} as {what} at byte {at}; {DAMAGED}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(entries: &[(&str, i32, &[f32])]) -> Vec<u8> {
        let mut bytes = (entries.len() as i32).to_le_bytes().to_vec();
        for (name, calls, values) in entries {
            bytes.extend((name.len() as i32).to_le_bytes());
            bytes.extend(name.as_bytes());
            bytes.extend(calls.to_le_bytes());
            bytes.extend((values.len() as i32).to_le_bytes());
            bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        }
        // What follows the entries in newer files: the last chunk and the data set.
        bytes.extend([3, 0, 0, 0, 1, 0, 0, 0, b'x']);
        bytes
    }

    fn read(bytes: &[u8]) -> std::result::Result<Imatrix, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("imatrix");
        std::fs::write(&path, bytes).unwrap();
        Imatrix::read(&path).map_err(|e| e.to_string())
    }

    fn all(matrices: &Imatrix, name: &str) -> Vec<f32> {
        matrices.0.get(name).expect("is there").to_vec()
    }

    #[test]
    fn rows_of_experts_count_together() {
        let matrices = read(&entries(&[("a", 1, &[1.0, 2.0, 3.0, 6.0])])).unwrap();
        let columns =
            |name, columns| matrices.columns(name, columns).map(|found| found.map(|c| c.to_vec()));
        assert_eq!(columns("a", 4), Some(Ok(vec![1.0, 2.0, 3.0, 6.0])));
        assert_eq!(columns("a", 2), Some(Ok(vec![4.0, 8.0])));
        assert_eq!(columns("a", 3), Some(Err(4)));
        assert_eq!(columns("a", 0), Some(Err(4)));
        assert_eq!(columns("b", 4), None);
    }

    #[test]
    fn the_older_form() {
        let file =
            entries(&[("a.weight", 4, &[8.0, 0.0, 2.0]), ("b", 0, &[1.0]), ("c", 2, &[0.0])]);
        let matrices = read(&file).unwrap();
        assert_eq!(all(&matrices, "a.weight"), [2.0, 0.0, 0.5]);
        assert_eq!(all(&matrices, "b"), [1.0]);
        assert_eq!(matrices.len(), 2);
        for end in 0..file.len() - 9 {
            assert!(read(&file[..end]).is_err(), "{end}");
        }
        for wrong in [f32::NAN, -1.0, f32::INFINITY] {
            assert!(read(&entries(&[("a", 1, &[wrong])])).unwrap_err().contains("\"a\""));
        }
        let mut huge = file.clone();
        huge[4 + 4 + 8 + 4..][..4].copy_from_slice(&i32::MAX.to_le_bytes());
        assert!(read(&huge).unwrap_err().contains("number of values at byte 20"));
    }

    /// A GGUF file of f32 tensors.
    fn gguf(tensors: &[(&str, &[u64], &[f32])]) -> Vec<u8> {
        let mut bytes = b"GGUF\x03\0\0\0".to_vec();
        bytes.extend((tensors.len() as u64).to_le_bytes());
        bytes.extend(0_u64.to_le_bytes());
        let mut offset = 0_u64;
        for (name, shape, values) in tensors {
            bytes.extend((name.len() as u64).to_le_bytes());
            bytes.extend(name.as_bytes());
            bytes.extend((shape.len() as u32).to_le_bytes());
            bytes.extend(shape.iter().rev().flat_map(|dim| dim.to_le_bytes()));
            bytes.extend(0_u32.to_le_bytes());
            bytes.extend(offset.to_le_bytes());
            offset += (values.len() as u64 * 4).next_multiple_of(32);
        }
        for (_, _, values) in tensors {
            bytes.resize(bytes.len().next_multiple_of(32), 0);
            bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        }
        bytes
    }

    #[test]
    fn the_gguf_form() {
        let file = gguf(&[
            ("a.weight.in_sum2", &[1, 3], &[8.0, 0.0, 2.0]),
            ("a.weight.counts", &[1, 1], &[4.0]),
            ("x.in_sum2", &[2, 2], &[1.0, 2.0, 3.0, 6.0]),
            ("x.counts", &[2, 1], &[1.0, 3.0]),
            ("never.in_sum2", &[1, 1], &[0.0]),
            ("never.counts", &[1, 1], &[0.0]),
        ]);
        let matrices = read(&file).unwrap();
        assert_eq!(all(&matrices, "a.weight"), [2.0, 0.0, 0.5]);
        assert_eq!(all(&matrices, "x"), [1.0, 2.0]);
        assert_eq!(matrices.len(), 2);
        for end in 0..file.len() {
            assert!(read(&file[..end]).is_err(), "{end}");
        }
        let error = read(&gguf(&[("a.in_sum2", &[1, 1], &[1.0])])).unwrap_err();
        assert!(error.contains("\"a.in_sum2\": no counts"), "{error}");
        assert!(read(&gguf(&[("a", &[1, 1], &[1.0])])).unwrap_err().contains("llama-imatrix"));
    }
}
