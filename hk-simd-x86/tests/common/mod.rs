//! What the tests of decoding and of products share.
#![allow(dead_code)]

use hk_core::StorageType;

/// Pseudorandom numbers (xorshift64), the same in every run.
pub struct Random(u64);

impl Random {
    pub fn new(seed: usize) -> Self {
        Random(0x9E37_79B9_7F4A_7C15 ^ (seed as u64) << 20)
    }

    pub fn next(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 32) as u32
    }

    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        std::iter::repeat_with(|| self.next() as u8).take(len).collect()
    }

    /// Numbers of very different magnitude.
    pub fn floats(&mut self, len: usize) -> Vec<f32> {
        let float = || {
            let (bits, power) = (self.next(), self.next() % 12);
            (bits as i32 as f32) / (1_u64 << (28 + power)) as f32
        };
        std::iter::repeat_with(float).take(len).collect()
    }
}

/// The types that have a decoder.
pub fn types() -> impl Iterator<Item = StorageType> {
    StorageType::all().filter(|storage| storage.geometry().is_some())
}

/// Where in a block its f16 stand (blocks.md).
fn halves(storage: StorageType) -> &'static [usize] {
    match storage {
        StorageType::F16 => &[0],
        StorageType::Q4_1 | StorageType::Q5_1 | StorageType::Q8_1 => &[0, 2],
        StorageType::Q4_K | StorageType::Q5_K => &[0, 2],
        StorageType::Q2_K => &[80, 82],
        StorageType::Q3_K => &[108],
        StorageType::Q6_K => &[208],
        StorageType::TQ1_0 => &[52],
        StorageType::TQ2_0 => &[64],
        StorageType::IQ1_M | StorageType::MXFP4 | StorageType::NVFP4 => &[],
        _ if storage.is_block() && storage != StorageType::Q8_K => &[0],
        _ => &[],
    }
}

/// Blocks of random bits. Three in four have ordinary numbers for scales; the others may have
/// any: subnormal, infinite, NaN.
pub fn payload(storage: StorageType, blocks: usize, random: &mut Random) -> Vec<u8> {
    let bytes = storage.geometry().unwrap().bytes as usize;
    let mut payload = random.bytes(blocks * bytes);
    for block in payload.chunks_exact_mut(bytes) {
        if random.next().is_multiple_of(4) {
            continue;
        }
        for &at in halves(storage) {
            block[at + 1] = block[at + 1] & 0x9F | 0x20;
        }
        match storage {
            StorageType::IQ1_M => block[55] = block[55] & 0x9F | 0x20,
            StorageType::F32 | StorageType::Q8_K => block[3] = block[3] & 0x87 | 0x38,
            StorageType::BF16 => block[1] = block[1] & 0x87 | 0x38,
            StorageType::MXFP4 => block[0] = block[0] & 0x0F | 0x70,
            _ => {}
        }
    }
    payload
}

/// The same bits, or NaN both.
pub fn same(a: f32, b: f32) -> bool {
    a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()
}

/// Bytes right in front of memory that may not be read, so that a kernel that reads past
/// their end does not come back.
#[cfg(all(unix, not(miri)))]
pub struct AtTheEdge {
    map: memmap2::MmapMut,
    room: usize,
}

#[cfg(all(unix, not(miri)))]
impl AtTheEdge {
    /// Room for `len` bytes.
    pub fn new(len: usize) -> Self {
        const PAGE: usize = 65_536;
        let room = len.div_ceil(PAGE) * PAGE;
        let map = memmap2::MmapMut::map_anon(room + PAGE).unwrap();
        let page = map.as_ptr().wrapping_add(room).cast_mut();
        // SAFETY: the last page of our own map, to which nothing has a reference: `bytes`
        // gives out what is in front of it.
        let forbidden = unsafe { libc::mprotect(page.cast(), PAGE, libc::PROT_NONE) };
        assert_eq!(forbidden, 0);
        AtTheEdge { map, room }
    }

    /// The last `len` bytes.
    pub fn bytes(&mut self, len: usize) -> &mut [u8] {
        &mut self.map[self.room - len..self.room]
    }
}

/// Where such memory cannot be had: an allocation of its own, whose end Miri watches.
#[cfg(not(all(unix, not(miri))))]
pub struct AtTheEdge(Vec<u8>);

#[cfg(not(all(unix, not(miri))))]
impl AtTheEdge {
    /// Room for `len` bytes.
    pub fn new(len: usize) -> Self {
        AtTheEdge(vec![0; len])
    }

    /// The last `len` bytes.
    pub fn bytes(&mut self, len: usize) -> &mut [u8] {
        let start = self.0.len() - len;
        &mut self.0[start..]
    }
}
