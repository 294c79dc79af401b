//! The structure of sparse payloads (payloads.md, "Sparse payloads").
//!
//! Each function gives the bytes that a payload needs, or where in it something is wrong
//! and what.

use hk_core::decode::{CompressedRows, marks_len, ones};
use hk_core::{Error, Portable, SparseFault};

/// Where in a payload, and what.
pub(super) type Remark = (u64, String);

/// Bytes needed: all in u128, where no count of u64s overflows.
type Needed = Result<u128, Remark>;

/// A bit for each of `count` elements, padded to 4 bytes, then an f32 for each set bit.
pub(super) fn bitmask(data: &[u8], count: u64, notes: &mut Vec<Remark>) -> Needed {
    let padded = marks_len(count);
    let Some(mask) = prefix(data, padded) else {
        return Err((0, format!("a mask of {padded} bytes needed, {} there", data.len())));
    };
    // It fits: the mask is longer.
    let (bits, padding) = mask.split_at(count.div_ceil(8) as usize);
    let used = (count % 8) as u32;
    if let (1.., Some(&last)) = (used, bits.last())
        && last >> used != 0
    {
        let text = "mask bits past the last element are set".to_owned();
        notes.push((bits.len() as u64 - 1, text));
    }
    note_padding(padding, bits.len() as u64, notes);
    let values = ones(&Portable, mask, count);
    Ok(u128::from(padded) + 4 * u128::from(values))
}

/// A nibble for each group of 4, padded to 4 bytes, then two f32 for each group.
pub(super) fn two_of_four(data: &[u8], count: u64, notes: &mut Vec<Remark>) -> Needed {
    if !count.is_multiple_of(4) {
        return Err((0, SparseFault::Groups { count }.to_string()));
    }
    let padded = marks_len(count);
    if let Some(indexes) = prefix(data, padded) {
        let used = count.div_ceil(8);
        // It fits: the indexes are longer.
        note_padding(indexes.split_at(used as usize).1, used, notes);
    }
    Ok(u128::from(padded) + 2 * u128::from(count))
}

fn note_padding(padding: &[u8], at: u64, notes: &mut Vec<Remark>) {
    if padding.iter().any(|&byte| byte != 0) {
        notes.push((at, "padding is not zero".to_owned()));
    }
}

/// CSR and BSR: row pointers, block columns, blocks of f32.
pub(super) fn compressed_rows(data: &[u8], shape: &[u64]) -> Needed {
    let remark = |error: Error| (error.offset(), error.kind().to_string());
    let payload = CompressedRows::parse(data, shape).map_err(remark)?;
    let mut sorted = Vec::new();
    for row in 0..payload.block_rows() {
        let blocks = payload.row(row).map_err(remark)?;
        if blocks.ascends {
            continue;
        }
        sorted.clear();
        sorted.extend(blocks.columns().enumerate().map(|(index, column)| (column, index)));
        sorted.sort_unstable();
        let twice = sorted.windows(2).find_map(|pair| match *pair {
            [(a, _), (column, index)] if a == column => Some((column, index)),
            _ => None,
        });
        if let Some((column, index)) = twice {
            let text = SparseFault::Twice { row: row as u64, column }.to_string();
            return Err((payload.column_offset(blocks.first + index), text));
        }
    }
    Ok(u128::from(payload.len()))
}

fn prefix(data: &[u8], len: u64) -> Option<&[u8]> {
    data.get(..usize::try_from(len).ok()?)
}
