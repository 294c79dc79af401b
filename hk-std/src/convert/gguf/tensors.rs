//! The tensor table of a GGUF file, checked.

use std::collections::HashSet;
use std::io::{Read, Seek};

use hk_core::StorageType;
use hk_core::build::TensorSpec;
use hk_core::format::{MAX_DIMENSIONS, MAX_NAME_LEN};

use super::source::{DAMAGED, Fault, Result, Source};

/// A tensor of a GGUF file.
#[derive(Clone, Debug)]
pub(super) struct Tensor {
    /// What the HK file says of it.
    pub(super) spec: TensorSpec,
    /// Where its bytes stand in the GGUF file.
    pub(super) offset: u64,
    /// Where its entry stands in the GGUF file.
    entry: u64,
}

/// Fewest bytes of an entry: name length, dimensions, type, offset.
const MIN_ENTRY: u64 = 8 + 4 + 4 + 8;

/// Reads `count` entries and checks where they say that their bytes stand.
pub(super) fn read_tensors<R: Read + Seek>(
    source: &mut Source<R>,
    count: u64,
    alignment: u64,
) -> Result<Vec<Tensor>> {
    source.need(count, MIN_ENTRY, "tensors")?;
    let mut tensors = Vec::new();
    let mut names = HashSet::new();
    for index in 0..count {
        let start = source.offset();
        let name = read_name(source).map_err(|e| e.within(format_args!("tensor {index}")))?;
        let place = format!("tensor {index}, {name:?}");
        if !names.insert(name.clone()) {
            let text =
                "a tensor before it has the same name: write the file again with unique names";
            return Err(Fault::new(start, text).within(place));
        }
        tensors.push(read_tensor(source, name, start, alignment).map_err(|e| e.within(place))?);
    }
    // Offsets count from the first aligned byte after the table.
    let data = source.offset().next_multiple_of(alignment);
    for tensor in &mut tensors {
        place(tensor, data, source.len(), alignment)
            .map_err(|e| e.within(format_args!("tensor {:?}", tensor.spec.name)))?;
    }
    check_overlap(&tensors)?;
    Ok(tensors)
}

fn read_name<R: Read + Seek>(source: &mut Source<R>) -> Result<String> {
    let start = source.offset();
    let len = source.u64()?;
    source.need(len, 1, "bytes")?;
    if len > MAX_NAME_LEN as u64 {
        return Err(Fault::new(
            start,
            format!(
                "a name of {len} bytes, where HK takes at most {MAX_NAME_LEN}: rename the tensor"
            ),
        ));
    }
    let text_start = source.offset();
    let mut name = Vec::new();
    source.append(&mut name, len)?;
    String::from_utf8(name).map_err(|_| {
        Fault::new(text_start, "the name is not UTF-8: write the file again with UTF-8 names")
    })
}

/// Reads what follows the name. `offset` is then still relative to the payloads.
fn read_tensor<R: Read + Seek>(
    source: &mut Source<R>,
    name: String,
    entry: u64,
    alignment: u64,
) -> Result<Tensor> {
    let shape = read_shape(source)?;
    let start = source.offset();
    let storage = storage_type(source.u32()?).map_err(|text| Fault::new(start, text))?;
    let weights = storage.geometry().map_or(1, |geometry| geometry.weights);
    let row = shape.last().copied().unwrap_or(1);
    if row % u64::from(weights) != 0 {
        return Err(Fault::new(
            start,
            format!(
                "rows of {row} weights are no whole number of {storage} blocks of {weights}; {DAMAGED}"
            ),
        ));
    }
    storage.payload_len(&shape).map_err(|_| {
        Fault::new(start, format!("the size of {shape:?} {storage} weights passes 2^64; {DAMAGED}"))
    })?;
    let start = source.offset();
    let offset = source.u64()?;
    if offset % alignment != 0 {
        return Err(Fault::new(
            start,
            format!("its offset {offset} is no multiple of the alignment {alignment}; {DAMAGED}"),
        ));
    }
    Ok(Tensor { spec: TensorSpec::new(name, storage, &shape), offset, entry })
}

/// Reads the dimensions, innermost first, and reverses them.
fn read_shape<R: Read + Seek>(source: &mut Source<R>) -> Result<Vec<u64>> {
    let start = source.offset();
    let ndim = source.u32()?;
    if ndim as usize > MAX_DIMENSIONS {
        return Err(Fault::new(
            start,
            format!("{ndim} dimensions, where HK takes at most {MAX_DIMENSIONS}; {DAMAGED}"),
        ));
    }
    let mut shape = Vec::with_capacity(MAX_DIMENSIONS);
    source.values(ndim.into(), |dim| shape.push(u64::from_le_bytes(dim)))?;
    shape.reverse();
    Ok(shape)
}

/// Turns the tensor's offset, relative to the first payload at `data`, into an absolute
/// one, and compares its end with the file's length.
fn place(tensor: &mut Tensor, data: u64, file: u64, alignment: u64) -> Result<()> {
    let (relative, size) = (tensor.offset, tensor.spec.data_size);
    // An empty tensor needs no bytes; it may stand after the padding at the end, which may
    // be missing.
    let limit = if size == 0 { file.checked_next_multiple_of(alignment) } else { Some(file) };
    let start = data.checked_add(relative);
    let end = start.and_then(|start| start.checked_add(size));
    match (start, end, limit) {
        (Some(start), Some(end), Some(limit)) if end <= limit => {
            tensor.offset = start;
            Ok(())
        }
        _ => Err(Fault::new(
            tensor.entry,
            format!(
                "its {size} bytes at offset {relative} after byte {data} pass the end of the \
                 file of {file} bytes; {DAMAGED}"
            ),
        )),
    }
}

/// No two tensors may share bytes: GGUF lays them out one after the other.
fn check_overlap(tensors: &[Tensor]) -> Result<()> {
    let mut order: Vec<&Tensor> = tensors.iter().filter(|t| t.spec.data_size > 0).collect();
    order.sort_by_key(|tensor| tensor.offset);
    for (first, second) in order.iter().zip(order.iter().skip(1)) {
        // The sum was checked against the file's length.
        if first.offset + first.spec.data_size > second.offset {
            let text = format!("its bytes overlap those of {:?}; {DAMAGED}", first.spec.name);
            let place = format_args!("tensor {:?}", second.spec.name).to_string();
            return Err(Fault::new(second.entry, text).within(place));
        }
    }
    Ok(())
}

/// The storage type of GGUF's tensor type `id` (payloads.md, "GGUF"). The error says what
/// the type is and what to do about it.
fn storage_type(id: u32) -> Result<StorageType, String> {
    Ok(match id {
        0 => StorageType::F32,
        1 => StorageType::F16,
        2 => StorageType::Q4_0,
        3 => StorageType::Q4_1,
        6 => StorageType::Q5_0,
        7 => StorageType::Q5_1,
        8 => StorageType::Q8_0,
        9 => StorageType::Q8_1,
        10 => StorageType::Q2_K,
        11 => StorageType::Q3_K,
        12 => StorageType::Q4_K,
        13 => StorageType::Q5_K,
        14 => StorageType::Q6_K,
        15 => StorageType::Q8_K,
        16 => StorageType::IQ2_XXS,
        17 => StorageType::IQ2_XS,
        18 => StorageType::IQ3_XXS,
        19 => StorageType::IQ1_S,
        20 => StorageType::IQ4_NL,
        21 => StorageType::IQ3_S,
        22 => StorageType::IQ2_S,
        23 => StorageType::IQ4_XS,
        24 => StorageType::INT8,
        25 => StorageType::INT16,
        26 => StorageType::INT32,
        27 => StorageType::INT64,
        28 => StorageType::F64,
        29 => StorageType::IQ1_M,
        30 => StorageType::BF16,
        34 => StorageType::TQ1_0,
        35 => StorageType::TQ2_0,
        39 => StorageType::MXFP4,
        40 => StorageType::NVFP4,
        other => return Err(refusal(other)),
    })
}

/// What to say of a tensor type that HK does not have.
fn refusal(id: u32) -> String {
    let name = match id {
        4 => "Q4_2",
        5 => "Q4_3",
        31 => "Q4_0_4_4",
        32 => "Q4_0_4_8",
        33 => "Q4_0_8_8",
        36 => "IQ4_NL_4_4",
        37 => "IQ4_NL_4_8",
        38 => "IQ4_NL_8_8",
        41 => {
            return "tensor type Q1_0 (41) has no HK storage type: quantize the model to another \
                    type"
                .into();
        }
        _ => {
            return format!(
                "tensor type {id} is not known here; either the file is newer than this program \
                 or it is damaged"
            );
        }
    };
    format!(
        "tensor type {name} ({id}) was withdrawn from GGUF and has no HK storage type: quantize \
         the model again"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dense_and_block_type_of_the_table_has_its_name() {
        let known: Vec<StorageType> = (0..100).filter_map(|id| storage_type(id).ok()).collect();
        assert_eq!(known.len(), 33);
        assert_eq!(known.iter().filter(|t| t.is_block()).count(), 25);
        for (id, word) in [(4, "Q4_2"), (38, "IQ4_NL_8_8"), (41, "Q1_0"), (u32::MAX, "4294967295")]
        {
            let text = storage_type(id).unwrap_err();
            assert!(text.contains(word), "{text}");
        }
    }
}
