//! GGUF files for tests, written from the format's description, independent of the product.
//! A built file says where each of its numbers stands, so that tests can spoil them.

/// A metadata value.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)] // The names are GGUF's.
pub enum Meta {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    F32(f32),
    Bool(u8),
    Str(Vec<u8>),
    /// Element type number, elements.
    Arr(u32, Vec<Meta>),
    U64(u64),
    I64(i64),
    F64(f64),
}

impl Meta {
    /// A string.
    pub fn text(text: &str) -> Meta {
        Meta::Str(text.as_bytes().to_vec())
    }

    /// The number of its type.
    pub fn type_id(&self) -> u32 {
        match self {
            Meta::U8(_) => 0,
            Meta::I8(_) => 1,
            Meta::U16(_) => 2,
            Meta::I16(_) => 3,
            Meta::U32(_) => 4,
            Meta::I32(_) => 5,
            Meta::F32(_) => 6,
            Meta::Bool(_) => 7,
            Meta::Str(_) => 8,
            Meta::Arr(..) => 9,
            Meta::U64(_) => 10,
            Meta::I64(_) => 11,
            Meta::F64(_) => 12,
        }
    }

    /// Its type and its bytes, as a metadata pair has them.
    pub fn typed_bytes(&self) -> Vec<u8> {
        let mut out = Out::default();
        out.u32("value type", self.type_id());
        self.write(&mut out);
        out.bytes
    }

    fn write(&self, out: &mut Out) {
        match self {
            Meta::U8(n) => out.bytes.push(*n),
            Meta::I8(n) => out.bytes.extend(n.to_le_bytes()),
            Meta::U16(n) => out.bytes.extend(n.to_le_bytes()),
            Meta::I16(n) => out.bytes.extend(n.to_le_bytes()),
            Meta::U32(n) => out.u32("value", *n),
            Meta::I32(n) => out.bytes.extend(n.to_le_bytes()),
            Meta::F32(x) => out.bytes.extend(x.to_le_bytes()),
            Meta::Bool(byte) => out.bytes.push(*byte),
            Meta::Str(text) => out.string("string length", text),
            Meta::Arr(element, values) => {
                out.u32("element type", *element);
                out.u64("array count", values.len() as u64);
                values.iter().for_each(|value| value.write(out));
            }
            Meta::U64(n) => out.u64("value", *n),
            Meta::I64(n) => out.bytes.extend(n.to_le_bytes()),
            Meta::F64(x) => out.bytes.extend(x.to_le_bytes()),
        }
    }
}

/// A tensor: dimensions as GGUF lists them, innermost first.
#[derive(Clone, Debug)]
pub struct TensorInfo {
    /// Name.
    pub name: Vec<u8>,
    /// Dimensions, innermost first.
    pub dims: Vec<u64>,
    /// Number of its type.
    pub kind: u32,
    /// Its bytes.
    pub data: Vec<u8>,
    /// Its offset, where it shall not be the next aligned one.
    pub offset: Option<u64>,
}

/// A GGUF file to be.
#[derive(Clone, Debug)]
pub struct Gguf {
    /// Version.
    pub version: u32,
    /// Metadata pairs.
    pub pairs: Vec<(Vec<u8>, Meta)>,
    /// Tensors.
    pub tensors: Vec<TensorInfo>,
    /// Alignment used; `general.alignment` is not added by itself.
    pub alignment: usize,
    /// Whether the last tensor is padded.
    pub pad_end: bool,
}

impl Default for Gguf {
    fn default() -> Self {
        Gguf { version: 3, pairs: Vec::new(), tensors: Vec::new(), alignment: 32, pad_end: true }
    }
}

/// A number in a built file.
#[derive(Clone, Copy, Debug)]
pub struct Number {
    /// What it counts.
    pub what: &'static str,
    /// Where it stands.
    pub offset: usize,
    /// Its size in bytes.
    pub width: usize,
}

/// The bytes of a file, and its numbers.
#[derive(Clone, Debug, Default)]
pub struct Built {
    /// The file.
    pub bytes: Vec<u8>,
    /// Its counts, lengths, types, dimensions and offsets.
    pub numbers: Vec<Number>,
}

type Out = Built;

impl Built {
    fn u32(&mut self, what: &'static str, n: u32) {
        self.numbers.push(Number { what, offset: self.bytes.len(), width: 4 });
        self.bytes.extend(n.to_le_bytes());
    }

    fn u64(&mut self, what: &'static str, n: u64) {
        self.numbers.push(Number { what, offset: self.bytes.len(), width: 8 });
        self.bytes.extend(n.to_le_bytes());
    }

    fn string(&mut self, what: &'static str, text: &[u8]) {
        self.u64(what, text.len() as u64);
        self.bytes.extend(text);
    }

    fn pad(&mut self, alignment: usize) {
        self.bytes.resize(self.bytes.len().next_multiple_of(alignment), 0);
    }

    /// The file with `number` set to `value`, cut to its width.
    pub fn with(&self, number: Number, value: u64) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        let value = value.to_le_bytes();
        bytes[number.offset..][..number.width].copy_from_slice(&value[..number.width]);
        bytes
    }
}

impl Gguf {
    /// Adds a metadata pair.
    pub fn pair(mut self, key: &str, value: Meta) -> Self {
        self.pairs.push((key.into(), value));
        self
    }

    /// Adds a tensor at the next aligned offset.
    pub fn tensor(mut self, name: &str, kind: u32, dims: &[u64], data: Vec<u8>) -> Self {
        let (name, dims) = (name.into(), dims.to_vec());
        self.tensors.push(TensorInfo { name, dims, kind, data, offset: None });
        self
    }

    /// The file.
    pub fn build(&self) -> Built {
        let mut out = Out::default();
        out.bytes.extend(b"GGUF");
        out.u32("version", self.version);
        out.u64("tensor count", self.tensors.len() as u64);
        out.u64("pair count", self.pairs.len() as u64);
        for (key, value) in &self.pairs {
            out.string("key length", key);
            out.u32("value type", value.type_id());
            value.write(&mut out);
        }
        let mut next = 0;
        for tensor in &self.tensors {
            out.string("name length", &tensor.name);
            out.u32("dimension count", tensor.dims.len() as u32);
            tensor.dims.iter().for_each(|dim| out.u64("dimension", *dim));
            out.u32("tensor type", tensor.kind);
            out.u64("tensor offset", tensor.offset.unwrap_or(next));
            next = (next + tensor.data.len() as u64).next_multiple_of(self.alignment as u64);
        }
        for tensor in &self.tensors {
            out.pad(self.alignment);
            out.bytes.extend(&tensor.data);
        }
        if self.pad_end {
            out.pad(self.alignment);
        }
        out
    }
}

/// Type numbers of GGUF with weights and bytes a block, and HK's name (payloads.md, "GGUF").
pub const TYPES: [(u32, u64, usize, &str); 33] = [
    (0, 1, 4, "f32"),
    (1, 1, 2, "f16"),
    (2, 32, 18, "q4_0"),
    (3, 32, 20, "q4_1"),
    (6, 32, 22, "q5_0"),
    (7, 32, 24, "q5_1"),
    (8, 32, 34, "q8_0"),
    (9, 32, 36, "q8_1"),
    (10, 256, 84, "q2_k"),
    (11, 256, 110, "q3_k"),
    (12, 256, 144, "q4_k"),
    (13, 256, 176, "q5_k"),
    (14, 256, 210, "q6_k"),
    (15, 256, 292, "q8_k"),
    (16, 256, 66, "iq2_xxs"),
    (17, 256, 74, "iq2_xs"),
    (18, 256, 98, "iq3_xxs"),
    (19, 256, 50, "iq1_s"),
    (20, 32, 18, "iq4_nl"),
    (21, 256, 110, "iq3_s"),
    (22, 256, 82, "iq2_s"),
    (23, 256, 136, "iq4_xs"),
    (24, 1, 1, "int8"),
    (25, 1, 2, "int16"),
    (26, 1, 4, "int32"),
    (27, 1, 8, "int64"),
    (28, 1, 8, "f64"),
    (29, 256, 56, "iq1_m"),
    (30, 1, 2, "bf16"),
    (34, 256, 54, "tq1_0"),
    (35, 256, 66, "tq2_0"),
    (39, 32, 17, "mxfp4"),
    (40, 64, 36, "nvfp4"),
];
