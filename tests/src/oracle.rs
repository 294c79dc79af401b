//! A second reader of HK files, written from the specification with vectors and 128-bit
//! numbers instead of care: it says of any bytes whether they are a file, and what is in it.

/// What a file holds, as plain data.
#[derive(Debug, PartialEq, Eq)]
pub struct Content<'a> {
    /// Header bytes.
    pub header: &'a [u8],
    /// Key, tag and value bytes of each metadata pair.
    pub pairs: Vec<(&'a str, u8, &'a [u8])>,
    /// Tensors.
    pub tensors: Vec<Tensor<'a>>,
}

/// What the table of contents says of a tensor.
#[derive(Debug, PartialEq, Eq)]
pub struct Tensor<'a> {
    /// Name.
    pub name: &'a str,
    /// Storage, tile and sparsity codes.
    pub codes: [u8; 3],
    /// Dimensions.
    pub shape: Vec<u64>,
    /// Offset and size of data, residual and scales.
    pub spans: [(u64, u64); 3],
    /// Weights a block.
    pub block_size: u16,
    /// Bits of the ratio.
    pub sparsity_ratio: u32,
}

/// Reads a whole file; `None` when it is not one.
pub fn read(file: &[u8]) -> Option<Content<'_>> {
    let header = file.get(..128)?;
    let number = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().expect("8 bytes"));
    let sound = header.starts_with(b"HKNT") && header[4..6] == [1, 0] && header[8] & 1 == 1;
    if !sound || number(0x48) > file.len() as u64 {
        return None;
    }
    let mut metadata = Cut(span(file, number(0x20), number(0x28))?);
    let mut toc = Cut(span(file, number(0x30), number(0x38))?);
    let mut pairs = Vec::new();
    for _ in 0..number(0x18) {
        pairs.push(read_pair(&mut metadata)?);
    }
    let mut tensors = Vec::new();
    for _ in 0..number(0x10) {
        tensors.push(read_tensor(&mut toc, file)?);
    }
    Some(Content { header, pairs, tensors })
}

fn read_pair<'a>(section: &mut Cut<'a>) -> Option<(&'a str, u8, &'a [u8])> {
    let key_len = section.number(2)?;
    let key = str::from_utf8(section.take(key_len)?).ok()?;
    let tag = section.number(1)? as u8;
    let value_len = section.number(4)?;
    let value = section.take(value_len)?;
    let sound = match tag {
        1 | 5 => str::from_utf8(value).is_ok(),
        2 | 3 => value.len() == 8,
        4 => value.len() == 1,
        _ => true,
    };
    sound.then_some((key, tag, value))
}

fn read_tensor<'a>(section: &mut Cut<'a>, file: &[u8]) -> Option<Tensor<'a>> {
    let name_len = section.number(2).filter(|&len| len <= 128)?;
    let name = str::from_utf8(section.take(name_len)?).ok()?;
    let codes = section.take(3)?.try_into().expect("3 bytes");
    let ndim = section.number(1).filter(|&ndim| ndim <= 8)?;
    let shape: Vec<u64> = (0..ndim).map(|_| section.number(8)).collect::<Option<_>>()?;
    if !shape.contains(&0) {
        let product = |count: u128, &dim: &u64| count.checked_mul(u128::from(dim));
        shape.iter().try_fold(1u128, product).filter(|&count| count <= u128::from(u64::MAX))?;
    }
    let mut spans = [(0, 0); 3];
    for (offset, size) in &mut spans {
        (*offset, *size) = (section.number(8)?, section.number(8)?);
        // An empty range means none, wherever it points.
        if *size > 0 {
            span(file, *offset, *size)?;
        }
    }
    let block_size = section.number(2)? as u16;
    let sparsity_ratio = section.number(4)? as u32;
    Some(Tensor { name, codes, shape, spans, block_size, sparsity_ratio })
}

/// Whether `value` is a sound packed array.
pub fn is_array(value: &[u8]) -> bool {
    let [kind, 0, 0, 0, a, b, c, d, body @ ..] = value else { return false };
    let count = u32::from_le_bytes([*a, *b, *c, *d]) as usize;
    if *kind == 2 || *kind == 3 {
        return body.len() as u128 == count as u128 * 4;
    }
    let table = (count as u128 + 1) * 4;
    if *kind != 1 || (body.len() as u128) < table {
        return false;
    }
    let (table, data) = body.split_at(table as usize);
    let offsets: Vec<u32> =
        table.chunks_exact(4).map(|b| u32::from_le_bytes(b.try_into().expect("4 bytes"))).collect();
    let ends = (offsets.first(), offsets.last().map(|&end| end as usize));
    ends == (Some(&0), Some(data.len())) && offsets.is_sorted()
}

fn span(file: &[u8], offset: u64, size: u64) -> Option<&[u8]> {
    let end = u128::from(offset) + u128::from(size);
    (end <= file.len() as u128).then(|| &file[offset as usize..end as usize])
}

struct Cut<'a>(&'a [u8]);

impl<'a> Cut<'a> {
    fn take(&mut self, len: u64) -> Option<&'a [u8]> {
        if len > self.0.len() as u64 {
            return None;
        }
        let (head, rest) = self.0.split_at(len as usize);
        self.0 = rest;
        Some(head)
    }

    fn number(&mut self, width: u64) -> Option<u64> {
        let mut number = [0; 8];
        number[..width as usize].copy_from_slice(self.take(width)?);
        Some(u64::from_le_bytes(number))
    }
}
