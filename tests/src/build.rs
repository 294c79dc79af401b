//! A small builder of HK files, written from the specification alone: it shares no code
//! with the product, and remembers where each number stands so that it can be spoilt.

use sha2::{Digest, Sha256};

/// A number in a built file.
#[derive(Clone, Debug)]
pub struct Field {
    /// What it is, for messages: `header.tensor_count`, `tensor 2.data_offset`, ...
    pub name: String,
    /// Where it stands.
    pub offset: usize,
    /// Its width in bytes.
    pub width: usize,
}

/// A built file.
#[derive(Clone, Debug)]
pub struct Built {
    /// The file.
    pub bytes: Vec<u8>,
    /// Every number in header, metadata, table of contents, packed arrays and records.
    pub fields: Vec<Field>,
}

impl Built {
    /// The field called `name`.
    ///
    /// # Panics
    /// When there is none.
    pub fn field(&self, name: &str) -> &Field {
        let found = self.fields.iter().find(|field| field.name == name);
        found.unwrap_or_else(|| panic!("no field {name}"))
    }

    /// The number that stands in `field`.
    pub fn get(&self, field: &Field) -> u64 {
        let mut number = [0; 8];
        number[..field.width].copy_from_slice(&self.bytes[field.offset..][..field.width]);
        u64::from_le_bytes(number)
    }

    /// The file with `value` in the field called `name`.
    pub fn with(&self, name: &str, value: u64) -> Vec<u8> {
        self.with_field(self.field(name), value)
    }

    /// The file with `value` in `field`.
    pub fn with_field(&self, field: &Field, value: u64) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        let number = &value.to_le_bytes()[..field.width];
        bytes[field.offset..][..field.width].copy_from_slice(number);
        bytes
    }
}

/// A tensor to build.
#[derive(Clone, Debug)]
pub struct Tensor {
    /// Name.
    pub name: String,
    /// Storage, tile and sparsity codes.
    pub codes: [u8; 3],
    /// Dimensions, outermost first.
    pub shape: Vec<u64>,
    /// Payload.
    pub data: Vec<u8>,
    /// Scales, empty for none.
    pub scales: Vec<u8>,
    /// Residual, empty for none.
    pub residual: Vec<u8>,
    /// Weights a block.
    pub block_size: u16,
    /// Takes its data range from this earlier tensor instead of `data`.
    pub shares: Option<usize>,
}

impl Tensor {
    /// A row-major tensor without scales or residual.
    pub fn new(name: &str, storage: u8, shape: &[u64], data: Vec<u8>) -> Self {
        Tensor {
            name: name.into(),
            codes: [storage, 0, 0],
            shape: shape.into(),
            data,
            scales: Vec::new(),
            residual: Vec::new(),
            block_size: 32,
            shares: None,
        }
    }
}

/// An appendix record to build.
#[derive(Clone, Debug)]
pub struct Record {
    /// Type byte.
    pub kind: u8,
    /// Name.
    pub name: String,
    /// Target.
    pub target: String,
    /// Content.
    pub data: Vec<u8>,
    /// Generation.
    pub generation: u32,
    /// Whether to state the CRC-32 of the content.
    pub crc: bool,
}

/// What to build.
#[derive(Clone, Debug, Default)]
pub struct Builder {
    /// Payload alignment, 128 when 0.
    pub alignment: u32,
    /// Metadata: key, type tag, value.
    pub pairs: Vec<(String, u8, Vec<u8>)>,
    /// Tensors.
    pub tensors: Vec<Tensor>,
    /// Appendix records.
    pub records: Vec<Record>,
}

impl Builder {
    /// Adds a metadata pair.
    #[must_use]
    pub fn pair(mut self, key: &str, tag: u8, value: impl Into<Vec<u8>>) -> Self {
        self.pairs.push((key.into(), tag, value.into()));
        self
    }

    /// Adds a tensor.
    #[must_use]
    pub fn tensor(mut self, tensor: Tensor) -> Self {
        self.tensors.push(tensor);
        self
    }

    /// Adds an appendix record.
    #[must_use]
    pub fn record(mut self, kind: u8, name: &str, data: &[u8]) -> Self {
        let generation = self.records.len() as u32 + 1;
        let (name, target, data) = (name.into(), "blk.0".into(), data.into());
        self.records.push(Record { kind, name, target, data, generation, crc: true });
        self
    }

    /// Builds the file.
    pub fn build(&self) -> Built {
        let alignment = if self.alignment == 0 { 128 } else { self.alignment as usize };
        let mut out = Out { bytes: vec![0; 128], fields: Vec::new() };
        self.put_pairs(&mut out);
        let toc = out.bytes.len();
        let names: usize = self.tensors.iter().map(|t| t.name.len() + 8 * t.shape.len()).sum();
        let toc_size = names + 60 * self.tensors.len();
        let data_start = (toc + toc_size).next_multiple_of(alignment);
        let payloads = self.put_toc(&mut out, data_start, alignment);
        assert_eq!(out.bytes.len(), toc + toc_size);
        out.bytes.resize(data_start, 0);
        out.bytes.extend(payloads);
        let appendix = if self.records.is_empty() { 0 } else { self.put_records(&mut out) };
        self.put_header(&mut out, [toc, toc_size, data_start, appendix], alignment);
        Built { bytes: out.bytes, fields: out.fields }
    }

    fn put_header(&self, out: &mut Out, places: [usize; 4], alignment: usize) {
        let [toc, toc_size, data_start, appendix] = places.map(|n| n as u64);
        let rest = out.bytes.split_off(128);
        let mut fields = std::mem::take(&mut out.fields);
        out.bytes.clear();
        out.bytes.extend(b"HKNT");
        let tiled = if alignment.is_multiple_of(128) { 1 << 4 } else { 1 << 5 };
        let paged = if alignment >= 4096 { 1 << 8 } else { 0 };
        let flags = 1 | tiled | paged | if appendix == 0 { 0 } else { 2 };
        out.put("header.version_major", 2, 1);
        out.put("header.version_minor", 2, 0);
        out.put("header.flags", 4, flags);
        out.put("header.alignment", 2, alignment as u64 & 0xFFFF);
        out.put("header.split_index", 2, 0);
        out.put("header.tensor_count", 8, self.tensors.len() as u64);
        out.put("header.metadata_kv_count", 8, self.pairs.len() as u64);
        out.put("header.metadata_offset", 8, 128);
        out.put("header.metadata_size", 8, toc - 128);
        out.put("header.tensor_toc_offset", 8, toc);
        out.put("header.tensor_toc_size", 8, toc_size);
        out.put("header.tensor_data_offset", 8, data_start);
        out.put("header.appendix_offset", 8, appendix);
        out.put("header.checksum", 8, 0);
        out.put("header.split_count", 2, 1);
        out.bytes.extend([0; 38]);
        assert_eq!(out.bytes.len(), 128);
        out.bytes.extend(rest);
        out.fields.append(&mut fields);
    }

    fn put_pairs(&self, out: &mut Out) {
        for (i, (key, tag, value)) in self.pairs.iter().enumerate() {
            out.put(&format!("pair {i}.key_len"), 2, key.len() as u64);
            out.bytes.extend(key.as_bytes());
            out.put(&format!("pair {i}.type"), 1, u64::from(*tag));
            out.put(&format!("pair {i}.value_len"), 4, value.len() as u64);
            if let (6, [1..=3, 0, 0, 0, _, _, _, _, ..]) = (tag, &value[..]) {
                out.note(&format!("pair {i}.array.kind"), 0, 1);
                out.note(&format!("pair {i}.array.count"), 4, 4);
                let count = u32::from_le_bytes([value[4], value[5], value[6], value[7]]) as usize;
                let offsets = if value[0] == 1 { count + 1 } else { 0 };
                for n in 0..offsets {
                    out.note(&format!("pair {i}.array.offset {n}"), 8 + 4 * n, 4);
                }
            }
            out.bytes.extend(value);
        }
    }

    /// Writes the table, and gives the payloads that follow from `start` on.
    fn put_toc(&self, out: &mut Out, start: usize, alignment: usize) -> Vec<u8> {
        let mut payloads = Vec::new();
        let mut spans: Vec<[usize; 2]> = Vec::new();
        let mut place = |bytes: &[u8]| {
            if bytes.is_empty() {
                return [0, 0];
            }
            let offset = (start + payloads.len()).next_multiple_of(alignment);
            payloads.resize(offset - start, 0);
            payloads.extend_from_slice(bytes);
            [offset, bytes.len()]
        };
        for (i, tensor) in self.tensors.iter().enumerate() {
            let data = tensor.shares.map_or_else(|| place(&tensor.data), |target| spans[target]);
            let (scales, residual) = (place(&tensor.scales), place(&tensor.residual));
            spans.push(data);
            out.put(&format!("tensor {i}.name_len"), 2, tensor.name.len() as u64);
            out.bytes.extend(tensor.name.as_bytes());
            for (code, name) in tensor.codes.iter().zip(["storage", "tile", "sparsity"]) {
                out.put(&format!("tensor {i}.{name}"), 1, u64::from(*code));
            }
            out.put(&format!("tensor {i}.ndim"), 1, tensor.shape.len() as u64);
            for (n, dim) in tensor.shape.iter().enumerate() {
                out.put(&format!("tensor {i}.dim {n}"), 8, *dim);
            }
            for (span, name) in [(data, "data"), (residual, "residual"), (scales, "scales")] {
                out.put(&format!("tensor {i}.{name}_offset"), 8, span[0] as u64);
                out.put(&format!("tensor {i}.{name}_size"), 8, span[1] as u64);
            }
            out.put(&format!("tensor {i}.block_size"), 2, u64::from(tensor.block_size));
            out.put(&format!("tensor {i}.sparsity_ratio"), 4, 0);
        }
        payloads
    }

    fn put_records(&self, out: &mut Out) -> usize {
        let start = out.bytes.len().next_multiple_of(8);
        out.bytes.resize(start, 0);
        let mut parent = [0; 32];
        for (i, record) in self.records.iter().enumerate() {
            let field = |name| format!("record {i}.{name}");
            out.put(&field("type"), 1, u64::from(record.kind));
            out.put(&field("flags"), 1, 1);
            out.put(&field("name_len"), 2, record.name.len() as u64);
            out.put(&field("generation"), 4, u64::from(record.generation));
            out.put(&field("timestamp"), 8, 1_700_000_000);
            out.bytes.extend(parent);
            out.bytes.extend([0; 16]);
            out.put(&field("target_len"), 2, record.target.len() as u64);
            out.put(&field("reserved"), 2, 0);
            let crc = if record.crc { crc32(&record.data) } else { 0 };
            out.put(&field("data_crc32"), 4, u64::from(crc));
            out.put(&field("data_size"), 8, record.data.len() as u64);
            let content = [record.name.as_bytes(), record.target.as_bytes(), &record.data].concat();
            parent = Sha256::digest(&content).into();
            out.bytes.extend(content);
            out.bytes.resize(out.bytes.len().next_multiple_of(8), 0);
        }
        start
    }
}

struct Out {
    bytes: Vec<u8>,
    fields: Vec<Field>,
}

impl Out {
    fn put(&mut self, name: &str, width: usize, value: u64) {
        self.note(name, 0, width);
        self.bytes.extend(&value.to_le_bytes()[..width]);
    }

    /// Remembers a number `ahead` bytes after what is there.
    fn note(&mut self, name: &str, ahead: usize, width: usize) {
        self.fields.push(Field { name: name.into(), offset: self.bytes.len() + ahead, width });
    }
}

/// CRC-32/ISO-HDLC, bit by bit.
pub fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| {
            (crc >> 1) ^ (0xEDB8_8320 & (crc & 1).wrapping_neg())
        })
    })
}

/// A packed array of strings.
pub fn pack_strings(strings: &[&[u8]]) -> Vec<u8> {
    let mut packed = vec![1, 0, 0, 0];
    packed.extend((strings.len() as u32).to_le_bytes());
    let mut end = 0u32;
    packed.extend(end.to_le_bytes());
    for string in strings {
        end += string.len() as u32;
        packed.extend(end.to_le_bytes());
    }
    packed.extend(strings.concat());
    packed
}

/// A packed array of numbers: kind 2 for f32, kind 3 for i32, given as 4 bytes each.
pub fn pack_numbers(kind: u8, numbers: &[[u8; 4]]) -> Vec<u8> {
    let mut packed = vec![kind, 0, 0, 0];
    packed.extend((numbers.len() as u32).to_le_bytes());
    packed.extend(numbers.concat());
    packed
}

/// A small file with one of everything: all value types and an unknown one, all three
/// packed arrays, dense, block, dual-mode and reference tensors, two records.
pub fn one_of_everything() -> Built {
    let f32s = |n: u8| -> Vec<u8> { (0..n).flat_map(|i| f32::from(i).to_le_bytes()).collect() };
    let mut dual = Tensor::new("dual", 0x10, &[2, 5], vec![0x21, 0x43, 0x65, 0x87, 0xA9]);
    dual.scales = f32s(3);
    dual.residual = f32s(10);
    dual.block_size = 4;
    let mut tied = Tensor::new("tied", 0x31, &[6], Vec::new());
    tied.shares = Some(0);
    Builder { alignment: 16, ..Builder::default() }
        .pair("general.architecture", 1, "llama")
        .pair("llama.block_count", 2, 30i64.to_le_bytes())
        .pair("e", 3, 0.1f64.to_le_bytes())
        .pair("b", 4, [1])
        .pair("j", 5, "{\"a\":[1]}")
        .pair("raw", 6, [9, 9])
        .pair("words", 6, pack_strings(&[b"hi", b"", "wörld".as_bytes(), b"\xFF"]))
        .pair("scores", 6, pack_numbers(2, &[1.5f32.to_le_bytes(), f32::NAN.to_le_bytes()]))
        .pair("types", 6, pack_numbers(3, &[(-1i32).to_le_bytes(), 7i32.to_le_bytes()]))
        .pair("later", 0x77, "?")
        .tensor(Tensor::new("rows", 0, &[2, 3], f32s(6)))
        .tensor(Tensor::new("scalar", 0, &[], vec![0, 0, 0xC0, 0x7F]))
        .tensor(Tensor::new("q", 0x15, &[3, 32], (0..54).collect()))
        .tensor(Tensor::new("nothing", 0x30, &[4, 5], Vec::new()))
        .tensor(Tensor::new("empty", 0, &[0, 7], Vec::new()))
        .tensor(dual)
        .tensor(tied)
        .tensor(Tensor::new("unknown", 0xEE, &[3], vec![1, 2, 3]))
        .record(1, "lora", b"adapter")
        .record(0x99, "späť", b"")
        .build()
}
