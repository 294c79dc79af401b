//! The legacy blocks of 32 weights (blocks.md, "32 weights").

use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use super::Block;
use crate::storage::StorageType;

/// `q4_0`: an f16 scale and 4-bit codes with an offset of 8.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct BlockQ4_0 {
    d: [u8; 2],
    qs: [u8; 16],
}

impl Block<32> for BlockQ4_0 {
    const STORAGE: StorageType = StorageType::Q4_0;

    #[inline]
    fn decode(&self, out: &mut [f32; 32]) {
        let d = half::f16::from_le_bytes(self.d).to_f32();
        for (i, q) in self.qs.iter().enumerate() {
            out[i] = d * (i32::from(q & 15) - 8) as f32;
            out[i + 16] = d * (i32::from(q >> 4) - 8) as f32;
        }
    }
}
