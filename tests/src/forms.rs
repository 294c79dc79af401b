//! Tensors of every form that is not plain, made at random together with the weights that they
//! stand for, from payloads.md alone.

use crate::build::{Builder, Built, Tensor};
use crate::rng::Rng;

/// A tensor and what it decodes to.
#[derive(Clone, Debug)]
pub struct Sample {
    /// What to store.
    pub tensor: Tensor,
    /// Its weights without the residual.
    pub base: Vec<f32>,
    /// Its weights with it.
    pub whole: Vec<f32>,
}

impl Sample {
    fn of(tensor: Tensor, weights: Vec<f32>) -> Self {
        Sample { tensor, base: weights.clone(), whole: weights }
    }
}

/// Storage codes.
pub const DQ4: u8 = 0x10;
/// See [`DQ4`].
pub const DQ8: u8 = 0x11;
/// See [`DQ4`].
pub const DQT: u8 = 0x14;
/// See [`DQ4`].
pub const SPARSE_F16: u8 = 0x20;
/// See [`DQ4`].
pub const SPARSE_2_4: u8 = 0x22;
/// See [`DQ4`].
pub const IQ4_NL: u8 = 0x55;
/// See [`DQ4`].
pub const MXFP4: u8 = 0x62;
/// See [`DQ4`].
pub const NVFP4: u8 = 0x63;

const NF4: &str = "-1.0 -0.6961928 -0.5250731 -0.3949175 -0.2844414 -0.1847734 -0.0910500 0.0 \
    0.0795803 0.1609302 0.2461123 0.3379152 0.4407098 0.5626170 0.7229568 1.0";
const NL4: &str = "-1.0 -0.7903226 -0.6129032 -0.4677419 -0.3387097 -0.2258065 -0.1290323 \
    -0.0483871 0.0483871 0.1290323 0.2258065 0.3387097 0.4677419 0.6129032 0.7903226 1.0";
const E2M1: &str = "0 .5 1 1.5 2 3 4 6 -0 -.5 -1 -1.5 -2 -3 -4 -6";

fn power_of_two(n: i32) -> f32 {
    let factor = if n < 0 { 0.5 } else { 2.0 };
    (0..n.abs()).fold(1.0, |power, _| power * factor)
}

fn number(rng: &mut Rng) -> f32 {
    let exponent = rng.below(40) as i32 - 20;
    (rng.next_u64() as i32 as f32) * power_of_two(exponent - 31)
}

fn numbers(count: usize, rng: &mut Rng) -> Vec<f32> {
    (0..count).map(|_| number(rng)).collect()
}

fn bytes(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|x| x.to_le_bytes()).collect()
}

/// A scale of one byte and what it is.
fn scale_byte(storage: u8, rng: &mut Rng) -> (u8, f32) {
    let byte = rng.next_u64() as u8;
    if storage == MXFP4 {
        let scale = if byte == 255 { f32::INFINITY } else { power_of_two(i32::from(byte) - 127) };
        return (byte, scale);
    }
    let (exponent, fraction) = (i32::from(byte >> 3 & 15), f32::from(byte & 7));
    let magnitude = match (byte & 0x7F, exponent) {
        (0x7F, _) => f32::NAN,
        (_, 0) => fraction / 512.0,
        _ => (8.0 + fraction) * power_of_two(exponent - 10),
    };
    (byte, if byte >= 128 { -magnitude } else { magnitude })
}

/// Blocks of codes with scales beside them, of a type from [`DQ4`] to [`DQT`] or of split
/// scales; `block` counts where it is not settled.
pub fn scaled(storage: u8, count: usize, block: u16, residual: bool, rng: &mut Rng) -> Sample {
    let block_size = match storage {
        MXFP4 => 32,
        NVFP4 => 16,
        _ => usize::from(block),
    };
    let table = |text: &str| -> Vec<f32> {
        text.split_whitespace().map(|word| word.parse().expect("a number")).collect()
    };
    let (bits, values) = match storage {
        DQ4 => (4, table(NF4)),
        IQ4_NL => (4, table(NL4)),
        MXFP4 | NVFP4 => (4, table(E2M1)),
        DQT => (2, Vec::new()),
        _ => (8, (0..=255u8).map(|code| f32::from(code as i8)).collect()),
    };
    let (mut codes, mut scales, mut base) = (Vec::new(), Vec::new(), Vec::new());
    let mut left = count;
    while left > 0 {
        let len = left.min(block_size);
        left -= len;
        let packed = rng.bytes((len * bits).div_ceil(8));
        let scale = if storage == MXFP4 || storage == NVFP4 {
            let (byte, scale) = scale_byte(storage, rng);
            scales.push(byte);
            scale
        } else {
            let scale = number(rng);
            scales.extend(scale.to_le_bytes());
            scale
        };
        for i in 0..len {
            let code = packed[i * bits / 8] >> (i * bits % 8) & (0xFF >> (8 - bits));
            base.push(match (storage, code) {
                (DQT, 0) => 0.0,
                (DQT, 1) => scale,
                (DQT, _) => -scale,
                _ => values[usize::from(code)] * scale,
            });
        }
        codes.extend(packed);
    }
    let mut tensor = Tensor::new("scaled", storage, &[count as u64], codes);
    tensor.scales = scales;
    tensor.block_size = block;
    let mut whole = base.clone();
    if residual {
        let added = numbers(count, rng);
        tensor.residual = bytes(&added);
        whole.iter_mut().zip(added).for_each(|(weight, added)| *weight += added);
    }
    Sample { tensor, base, whole }
}

/// A bitmask, on its own type or on tagged f32.
pub fn bitmask(count: usize, tagged: bool, rng: &mut Rng) -> Sample {
    let mut mask = vec![0; count.div_ceil(8).next_multiple_of(4)];
    let (mut values, mut weights) = (Vec::new(), vec![0.0; count]);
    let density = 1 + rng.below(4);
    for (i, weight) in weights.iter_mut().enumerate() {
        if rng.below(4) < density {
            *weight = number(rng);
            mask[i / 8] |= 1 << (i % 8);
            values.push(*weight);
        }
    }
    let storage = if tagged { 0 } else { SPARSE_F16 };
    let mut tensor =
        Tensor::new("bitmask", storage, &[count as u64], [mask, bytes(&values)].concat());
    tensor.codes[2] = u8::from(tagged);
    Sample::of(tensor, weights)
}

/// 2:4 groups, `count` a multiple of 4: any indexes, also descending and equal ones.
pub fn two_of_four(count: usize, tagged: bool, rng: &mut Rng) -> Sample {
    let mut indexes = vec![0; count.div_ceil(8).next_multiple_of(4)];
    let (mut values, mut weights) = (Vec::new(), vec![0.0; count]);
    for (i, group) in weights.chunks_mut(4).enumerate() {
        for shift in [0, 2] {
            let (at, value) = (rng.below(4), number(rng));
            indexes[i / 2] |= (at as u8) << (i % 2 * 4 + shift);
            group[at] = value;
            values.push(value);
        }
    }
    let storage = if tagged { 0 } else { SPARSE_2_4 };
    let data = [indexes, bytes(&values)].concat();
    let mut tensor = Tensor::new("two of four", storage, &[count as u64], data);
    tensor.codes[2] = if tagged { 3 } else { 0 };
    Sample::of(tensor, weights)
}

/// CSR or BSR in blocks of `block`, which hang over the edges where they do not divide `shape`;
/// columns in any order.
pub fn compressed_rows(shape: [usize; 2], block: [usize; 2], rng: &mut Rng) -> Sample {
    let ([rows, columns], [height, width]) = (shape, block);
    let mut weights = vec![0.0; rows * columns];
    let (mut row_ptrs, mut block_columns, mut values) = (vec![0u32], Vec::new(), Vec::new());
    let density = rng.below(4);
    for block_row in 0..rows.div_ceil(height) {
        let mut here: Vec<usize> =
            (0..columns.div_ceil(width)).filter(|_| rng.below(4) < density).collect();
        if rng.below(2) == 0 && !here.is_empty() {
            let middle = rng.below(here.len());
            here.rotate_left(middle);
        }
        for block_column in here {
            block_columns.push(block_column as u32);
            for (row, column) in (0..height).flat_map(|r| (0..width).map(move |c| (r, c))) {
                let value = number(rng);
                values.push(value);
                let (row, column) = (block_row * height + row, block_column * width + column);
                if row < rows && column < columns {
                    weights[row * columns + column] = value;
                }
            }
        }
        row_ptrs.push(block_columns.len() as u32);
    }
    let mut data = Vec::new();
    data.extend((height as u16).to_le_bytes());
    data.extend((width as u16).to_le_bytes());
    data.extend((row_ptrs.len() as u32).to_le_bytes());
    data.extend((block_columns.len() as u32).to_le_bytes());
    data.extend(row_ptrs.iter().chain(&block_columns).flat_map(|word| word.to_le_bytes()));
    data.extend(bytes(&values));
    let mut tensor = Tensor::new("rows", 0, &[rows as u64, columns as u64], data);
    tensor.codes[2] = if block == [1, 1] { 2 } else { 5 };
    Sample::of(tensor, weights)
}

/// A matrix of f32 (0), uint8 (8) or int16 (10) in another order: `tile` is the code of the
/// layout.
pub fn ordered(storage: u8, tile: u8, shape: [usize; 2], rng: &mut Rng) -> Sample {
    let [rows, columns] = shape;
    let [tile_rows, tile_columns] = match tile {
        1 => [rows.max(1), 1],
        2 => [16, 16],
        3 => [16, 8],
        4 => [32, 16],
        6 => [32, 32],
        _ => [64, 64],
    };
    let mut weights = vec![0.0; rows * columns];
    let mut data = Vec::new();
    for top in (0..rows).step_by(tile_rows) {
        for left in (0..columns).step_by(tile_columns) {
            for (row, column) in
                (0..tile_rows).flat_map(|r| (0..tile_columns).map(move |c| (top + r, left + c)))
            {
                let bits = rng.next_u64();
                let value = match storage {
                    0 => number(rng),
                    8 => f32::from(bits as u8),
                    _ => f32::from(bits as i16),
                };
                match storage {
                    0 => data.extend(value.to_le_bytes()),
                    8 => data.push(bits as u8),
                    _ => data.extend((bits as i16).to_le_bytes()),
                }
                if row < rows && column < columns {
                    weights[row * columns + column] = value;
                }
            }
        }
    }
    let mut tensor = Tensor::new("ordered", storage, &[rows as u64, columns as u64], data);
    tensor.codes[1] = tile;
    Sample::of(tensor, weights)
}

/// A tensor of a form, size and content of its own for each seed.
pub fn any(rng: &mut Rng) -> Sample {
    let (count, tagged) = (rng.below(700), rng.below(2) == 0);
    let shape = [rng.below(40), rng.below(90)];
    match rng.below(6) {
        0 | 1 => {
            let storage = rng.pick(&[DQ4, DQ8, DQT, IQ4_NL, MXFP4, NVFP4]);
            let block = rng.pick(&[1, 2, 3, 5, 16, 31, 32, 64, 100, 300]);
            scaled(storage, count.max(1), block, storage <= DQT && tagged, rng)
        }
        2 => bitmask(count, tagged, rng),
        3 => two_of_four(count & !3, tagged, rng),
        4 => {
            let block = [1 + rng.below(9), 1 + rng.below(9)];
            compressed_rows(shape, if tagged { block } else { [1, 1] }, rng)
        }
        _ => {
            let (storage, tile) = (rng.pick(&[0, 8, 10]), rng.pick(&[1, 2, 3, 4, 6, 7]));
            ordered(storage, tile, shape, rng)
        }
    }
}

/// A file with a small tensor of each form.
pub fn every_form() -> Built {
    let rng = &mut Rng::new(7);
    let mut samples = vec![
        bitmask(100, false, rng),
        two_of_four(52, false, rng),
        compressed_rows([7, 9], [2, 4], rng),
        compressed_rows([5, 6], [1, 1], rng),
        ordered(10, 3, [17, 9], rng),
        ordered(8, 1, [5, 7], rng),
    ];
    for storage in [DQ4, DQ8, DQT, IQ4_NL, MXFP4, NVFP4] {
        samples.push(scaled(storage, 45, 7, storage <= DQT, rng));
    }
    let mut builder = Builder { alignment: 16, ..Builder::default() };
    for (index, sample) in samples.into_iter().enumerate() {
        let name = format!("{index}");
        builder.tensors.push(Tensor { name, ..sample.tensor });
    }
    builder.build()
}
