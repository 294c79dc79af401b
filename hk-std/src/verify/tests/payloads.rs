//! Sizes and structure of payloads of each kind.

use super::sample::{Entry, PAYLOADS, Sample};
use super::{F32, among, fault, lines, note};
use crate::verify::Severity;

const Q4_0: u8 = 0x15;
const Q4_K: u8 = 0x42;
const IQ4_NL: u8 = 0x55;
const DQ4: u8 = 0x10;
const DQ8: u8 = 0x11;
const DQT: u8 = 0x14;
const SPARSE_F16: u8 = 0x20;
const SPARSE_2_4: u8 = 0x22;
const NULL_REF: u8 = 0x30;

fn entry_at() -> u64 {
    Sample::new().toc_at()
}

/// A file of one tensor with something changed.
fn with(mut sample: Sample, change: impl FnOnce(&mut Entry)) -> Vec<u8> {
    change(&mut sample.entries[0]);
    sample.bytes()
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

#[test]
fn sizes_of_dense_and_block_types() {
    let of = |storage, shape: &[u64], len| Sample::of(storage, 0, shape, &vec![0; len]).bytes();
    assert_eq!(lines(&of(F32, &[], 4)), [""; 0]);
    assert_eq!(lines(&of(F32, &[0, 9], 0)), [""; 0]);
    assert_eq!(lines(&of(Q4_0, &[33], 36)), [""; 0]);
    fault(&of(F32, &[3], 11), PAYLOADS, "data of 11 bytes where type and shape need 12");
    fault(&of(Q4_K, &[2, 256], 287), PAYLOADS, "need 288");
    note(&of(Q4_K, &[2, 256], 289), PAYLOADS, "need only 288");
    note(&of(NULL_REF, &[5], 3), PAYLOADS, "need only 0");
    fault(&of(F32, &[1 << 40, 1 << 23], 8), PAYLOADS, "need 36893488147419103232");
    note(&of(0xEE, &[5], 3), entry_at(), "unknown storage type 0xee");
    note(&of(0x32, &[5], 3), entry_at(), "lora_ref has no published payload");
}

#[test]
fn what_goes_with_what() {
    let tagged = |storage, sparsity| {
        with(Sample::of(storage, 0, &[4, 8], &[0; 128]), |entry| entry.sparsity = sparsity)
    };
    fault(&tagged(Q4_0, 1), entry_at(), "sparsity bitmask on q4_0");
    fault(&tagged(SPARSE_F16, 3), entry_at(), "sparsity structured_2_4 on sparse_f16");
    note(&tagged(F32, 77), entry_at(), "unknown sparsity type 0x4d");
    assert_eq!(lines(&tagged(F32, 4)), [""; 0]);
    let tiled = |storage, shape: &[u64], tile, len| {
        let sample = Sample::of(storage, 0, shape, &vec![0; len]);
        with(sample, |entry| entry.tile = tile)
    };
    assert_eq!(lines(&tiled(F32, &[17, 9], 3, 32 * 16 * 4)), [""; 0]);
    fault(&tiled(F32, &[17, 9], 3, 32 * 16 * 4 - 1), PAYLOADS, "need 2048");
    assert_eq!(lines(&tiled(F32, &[7, 11], 1, 308)), [""; 0]);
    fault(&tiled(F32, &[8], 2, 1024), entry_at(), "tile layout tile_16x16 on f32");
    fault(&tiled(Q4_0, &[16, 16], 2, 1024), entry_at(), "tile layout tile_16x16 on q4_0");
    fault(&tiled(F32, &[16, 16], 5, 1024), entry_at(), "tile layout block_sparse_2_4 on f32");
    note(&tiled(F32, &[16, 16], 99, 1024), entry_at(), "unknown tile layout 0x63");
    assert_eq!(lines(&tiled(SPARSE_2_4, &[2, 4], 5, 4 + 16)), [""; 0]);
}

#[test]
fn dual_mode() {
    let of = |storage, count, data: usize, scales: usize, residual: usize, block| {
        let mut sample = Sample::of(storage, 0, &[count], &vec![0; data]);
        sample.beside(&vec![0; scales], &vec![0; residual], block);
        sample.bytes()
    };
    // 31 weights a block take 16 bytes; the last, of 7, needs 4.
    let (scales_at, residual_at) = (PAYLOADS + 128, PAYLOADS + 256);
    assert_eq!(lines(&of(DQ4, 38, 20, 8, 0, 31)), [""; 0]);
    assert_eq!(lines(&of(DQ4, 38, 32, 8, 152, 31)), [""; 0]);
    fault(&of(DQ4, 38, 19, 8, 0, 31), PAYLOADS, "need 20");
    note(&of(DQ4, 38, 33, 8, 0, 31), PAYLOADS, "need only 20");
    fault(&of(DQ4, 38, 20, 7, 0, 31), scales_at, "scales of 7 bytes");
    fault(&of(DQ4, 38, 20, 0, 0, 31), entry_at(), "scales of 0 bytes");
    note(&of(DQ4, 38, 20, 12, 0, 31), scales_at, "scales of 12 bytes");
    fault(&of(DQ4, 38, 20, 8, 151, 31), residual_at, "residual of 151 bytes");
    fault(&of(DQ4, 38, 20, 8, 0, 0), entry_at(), "block_size is 0");
    assert_eq!(lines(&of(DQ8, 100, 100, 16, 400, 32)), [""; 0]);
    assert_eq!(
        lines(&of(DQT, 10, 3, 16, 0, 3)),
        ["fault: payload, byte 4096, tensor \"t\": data of 3 bytes where type and shape need 4"]
    );
    // Four blocks of three weights take a byte each, the last one too.
    assert_eq!(lines(&of(DQT, 10, 4, 16, 0, 3)), [""; 0]);
    assert_eq!(lines(&of(IQ4_NL, 320, 160, 40, 0, 32)), [""; 0]);
    fault(&of(IQ4_NL, 320, 160, 39, 0, 32), PAYLOADS + 256, "scales of 39 bytes");
    note(&of(IQ4_NL, 320, 160, 40, 4, 32), PAYLOADS + 384, "residual that iq4_nl does not use");
    note(&of(F32, 1, 4, 8, 0, 32), scales_at, "scales that f32 does not use");
}

#[test]
fn bitmasks() {
    let of = |count, data: &[u8]| Sample::of(SPARSE_F16, 0, &[count], data).bytes();
    let mut data = vec![0b1000_0001, 0b1, 0, 0];
    data.extend([9; 12]);
    assert_eq!(lines(&of(9, &data)), [""; 0]);
    fault(&of(9, &data[..15]), PAYLOADS, "need 16");
    fault(&of(9, &data[..3]), PAYLOADS, "a mask of 4 bytes needed, 3 there");
    fault(&of(1 << 60, &data), PAYLOADS, "a mask of 144115188075855872 bytes needed");
    data[1] |= 2;
    note(&of(9, &data), PAYLOADS + 1, "mask bits past the last element");
    data[1] = 1;
    data[3] = 1;
    note(&of(9, &data), PAYLOADS + 2, "padding is not zero");
    assert_eq!(lines(&of(0, &[])), [""; 0]);
    // The same on f32, by its tag.
    let tagged = Sample::of(F32, 1, &[100], &[[0xFF; 16].as_slice(), &[0; 400]].concat());
    among(&tagged.bytes(), Severity::Note, 2, "mask bits past");
}

#[test]
fn two_of_four() {
    let of = |count, data: usize| Sample::of(SPARSE_2_4, 0, &[count], &vec![0; data]).bytes();
    assert_eq!(lines(&of(12, 4 + 24)), [""; 0]);
    fault(&of(12, 27), PAYLOADS, "need 28");
    note(&of(12, 29), PAYLOADS, "need only 28");
    fault(&of(13, 100), PAYLOADS, "no multiple of 4");
    let mut tagged = Sample::of(F32, 3, &[8], &[0; 4 + 16]);
    tagged.flags |= 8;
    assert_eq!(lines(&tagged.bytes()), [""; 0]);
}

/// Rows of 2 x 2 blocks in a tensor of 4 x 5: 2 block rows, 3 block columns.
fn bsr(row_ptrs: &[u32], columns: &[u32]) -> Vec<u8> {
    let mut data = vec![2, 0, 2, 0];
    data.extend(words(&[row_ptrs.len() as u32, columns.len() as u32]));
    data.extend(words(row_ptrs));
    data.extend(words(columns));
    data.extend(vec![0; columns.len() * 16]);
    data
}

#[test]
fn compressed_rows() {
    let of = |data: &[u8]| Sample::of(F32, 5, &[4, 5], data).bytes();
    let (rows_at, columns_at) = (PAYLOADS + 12, PAYLOADS + 24);
    // Columns may stand in any order.
    assert_eq!(lines(&of(&bsr(&[0, 2, 3], &[2, 0, 1]))), [""; 0]);
    fault(&of(&bsr(&[0, 2, 3], &[1, 1, 1])), columns_at + 4, "two blocks at row 0, column 1");
    fault(
        &of(&bsr(&[0, 2, 3], &[0, 1, 3])),
        columns_at + 8,
        "block column 3 where the shape has 3",
    );
    fault(&of(&bsr(&[1, 2, 3], &[0, 1, 2])), rows_at, "row pointer 0 is 1");
    fault(&of(&bsr(&[0, 2, 1], &[0, 1, 2])), rows_at + 8, "row pointer 2 is 1");
    fault(&of(&bsr(&[0, 9, 3], &[0, 1, 2])), rows_at + 4, "row pointer 1 is 9");
    fault(&of(&bsr(&[0, 1, 2], &[0, 1, 2])), rows_at + 8, "row pointer 2 is 2 where 3 to 3 can be");
    fault(&of(&bsr(&[0, 3], &[0, 1, 2])), PAYLOADS + 4, "2 row pointers");
    let whole = bsr(&[0, 2, 3], &[2, 0, 1]);
    fault(&of(&whole[..whole.len() - 1]), PAYLOADS, "data of 83 bytes where the shape needs 84");
    fault(&of(&whole[..11]), PAYLOADS, "data of 11 bytes where the shape needs 12");
    note(&of(&[&whole[..], &[0]].concat()), PAYLOADS, "need only 84");
    let mut flat = whole.clone();
    flat[0] = 0;
    fault(&of(&flat), PAYLOADS, "sparse blocks of 0 x 2");
    let mut huge = whole.clone();
    huge[8..12].fill(0xFF);
    fault(&of(&huge), PAYLOADS, "data of 84 bytes");
    fault(&Sample::of(F32, 2, &[20], &whole).bytes(), PAYLOADS, "take 2 dimensions, not 1");
}

#[test]
fn many_tensors_over_the_same_bytes_take_no_longer() {
    let mut sample = Sample::of(SPARSE_F16, 0, &[8 * 4096], &[0; 4096]);
    sample.entries[0].name = vec![b'0'];
    let first = sample.entries[0].clone();
    for name in 1..40u8 {
        sample.entries.push(Entry { name: vec![b'0' + name], ..first.clone() });
    }
    among(&sample.bytes(), Severity::Note, 79, "too many tensors claim the same bytes");
}
