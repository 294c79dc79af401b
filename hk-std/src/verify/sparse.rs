//! The structure of sparse payloads (payloads.md, "Sparse payloads").
//!
//! Each function gives the bytes that a payload needs, or where in it something is wrong
//! and what.

/// Where in a payload, and what.
pub(super) type Remark = (u64, String);

/// Bytes needed: all in u128, where no count of u64s overflows.
type Needed = Result<u128, Remark>;

/// A bit for each of `count` elements, padded to 4 bytes, then an f32 for each set bit.
pub(super) fn bitmask(data: &[u8], count: u64, notes: &mut Vec<Remark>) -> Needed {
    let mask_len = count.div_ceil(8);
    let padded = u128::from(mask_len).next_multiple_of(4);
    let Some(head) = prefix(data, padded) else {
        return Err((0, format!("a mask of {padded} bytes needed, {} there", data.len())));
    };
    // It fits: `head` is at least as long.
    let (mask, padding) = head.split_at(mask_len as usize);
    let (words, tail) = mask.as_chunks::<8>();
    let ones = words.iter().map(|word| u64::from_le_bytes(*word).count_ones());
    let ones = ones.chain(tail.iter().map(|byte| byte.count_ones()));
    let mut values: u128 = ones.map(u128::from).sum();
    let used = (count % 8) as u32;
    if let (1.., Some(&last)) = (used, mask.last()) {
        let stray = last >> used;
        values -= u128::from(stray.count_ones());
        if stray != 0 {
            let text = "mask bits past the last element are set".to_owned();
            notes.push((mask_len - 1, text));
        }
    }
    note_padding(padding, mask_len, notes);
    Ok(padded + 4 * values)
}

/// A nibble for each group of 4, padded to 4 bytes, then two f32 for each group.
pub(super) fn two_of_four(data: &[u8], count: u64, notes: &mut Vec<Remark>) -> Needed {
    if !count.is_multiple_of(4) {
        return Err((0, format!("2:4 sparsity of {count} elements, no multiple of 4")));
    }
    let groups = count / 4;
    let index_len = groups.div_ceil(2);
    let padded = u128::from(index_len).next_multiple_of(4);
    if let Some(head) = prefix(data, padded) {
        // It fits: `head` is at least as long.
        note_padding(head.split_at(index_len as usize).1, index_len, notes);
    }
    Ok(padded + 8 * u128::from(groups))
}

fn note_padding(padding: &[u8], at: u64, notes: &mut Vec<Remark>) {
    if padding.iter().any(|&byte| byte != 0) {
        notes.push((at, "padding is not zero".to_owned()));
    }
}

/// CSR and BSR: `u16 block_h | u16 block_w | u32 n_row_ptrs | u32 n_blocks`, row pointers,
/// block columns, blocks of f32.
pub(super) fn blocks(data: &[u8], shape: &[u64]) -> Needed {
    let &[rows, columns] = shape else {
        return Err((0, format!("CSR and BSR take 2 dimensions, not {}", shape.len())));
    };
    let head = Head::read(data)?;
    let block_rows = u128::from(rows.div_ceil(u64::from(head.height)));
    if u128::from(head.row_ptrs) != block_rows + 1 {
        let text =
            format!("{} row pointers where the shape has {block_rows} block rows", head.row_ptrs);
        return Err((4, text));
    }
    let needed = head.needed();
    let Some(body) = prefix(data, needed).and_then(|data| data.get(Head::LEN..)) else {
        return Err((0, format!("{needed} bytes needed, {} there", data.len())));
    };
    let (words, _) = body.as_chunks::<4>();
    // Both fit: they are within `needed`, which the data have.
    let (row_ptrs, rest) = words.split_at(head.row_ptrs as usize);
    let (block_columns, _) = rest.split_at(head.blocks as usize);
    let block_width = u64::from(head.width);
    check_rows(row_ptrs, block_columns, columns.div_ceil(block_width))?;
    Ok(needed)
}

struct Head {
    height: u16,
    width: u16,
    row_ptrs: u32,
    blocks: u32,
}

impl Head {
    const LEN: usize = 12;

    fn read(data: &[u8]) -> Result<Head, Remark> {
        let Some(&[a, b, c, d, e, f, g, h, i, j, k, l]) = data.first_chunk::<{ Head::LEN }>()
        else {
            return Err((0, format!("{} bytes needed, {} there", Head::LEN, data.len())));
        };
        let head = Head {
            height: u16::from_le_bytes([a, b]),
            width: u16::from_le_bytes([c, d]),
            row_ptrs: u32::from_le_bytes([e, f, g, h]),
            blocks: u32::from_le_bytes([i, j, k, l]),
        };
        if head.height == 0 || head.width == 0 {
            return Err((0, format!("blocks of {} x {}", head.height, head.width)));
        }
        Ok(head)
    }

    fn needed(&self) -> u128 {
        let block = u128::from(self.height) * u128::from(self.width);
        let words = u128::from(self.row_ptrs) + u128::from(self.blocks) * (1 + block);
        Head::LEN as u128 + 4 * words
    }
}

/// Checks the row pointers, and the columns of each row's blocks.
fn check_rows(
    row_ptrs: &[[u8; 4]],
    block_columns: &[[u8; 4]],
    column_count: u64,
) -> Result<(), Remark> {
    let row_ptr_at = |row: usize| Head::LEN as u64 + 4 * row as u64;
    let columns_at = row_ptr_at(row_ptrs.len());
    let mut start = 0usize;
    let mut sorted = Vec::new();
    for (row, row_ptr) in row_ptrs.iter().enumerate() {
        let end = u32::from_le_bytes(*row_ptr) as usize;
        let is_last = row + 1 == row_ptrs.len();
        let Some(columns) = block_columns.get(start..end).filter(|_| row > 0 || end == 0) else {
            let text = format!(
                "row pointer {row} is {end}: they start at 0, never decrease, and end at the number of blocks"
            );
            return Err((row_ptr_at(row), text));
        };
        if is_last && end != block_columns.len() {
            let text = format!(
                "the last row pointer is {end}, but there are {} blocks",
                block_columns.len()
            );
            return Err((row_ptr_at(row), text));
        }
        check_columns(columns, column_count, &mut sorted)
            .map_err(|(index, text)| (columns_at + 4 * (start + index) as u64, text))?;
        start = end;
    }
    Ok(())
}

/// Checks the blocks of one row: inside the tensor, and no two at one place. In any order;
/// `sorted` is room to sort them in.
fn check_columns(
    columns: &[[u8; 4]],
    column_count: u64,
    sorted: &mut Vec<u32>,
) -> Result<(), (usize, String)> {
    let number = |column: &[u8; 4]| u32::from_le_bytes(*column);
    let outside = columns.iter().position(|column| u64::from(number(column)) >= column_count);
    if let Some(index) = outside {
        let column = columns.get(index).map_or(0, number);
        return Err((index, format!("block column {column} where there are {column_count}")));
    }
    if columns.is_sorted_by(|a, b| number(a) < number(b)) {
        return Ok(());
    }
    sorted.clear();
    sorted.extend(columns.iter().map(number));
    sorted.sort_unstable();
    let twice = sorted.windows(2).find(|pair| pair.first() == pair.last());
    match twice.and_then(|pair| pair.first()) {
        Some(twice) => {
            let index = columns.iter().rposition(|column| number(column) == *twice);
            Err((index.unwrap_or(0), format!("two blocks at column {twice} of one row")))
        }
        None => Ok(()),
    }
}

fn prefix(data: &[u8], len: u128) -> Option<&[u8]> {
    data.get(..usize::try_from(len).ok()?)
}
