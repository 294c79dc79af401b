//! Blocks of 256 weights by way of the 16-bit integers that hk-core makes of them, sub-scales
//! included, for types whose codes take longer to look up than to be multiplied in two planes.

use core::marker::PhantomData;

use hk_core::dot::portable::Weights;

use super::Level;
use super::block_256::Block256;
use super::lanes::column;
use super::of_256::{Kind, Type256};

/// The type that `B` is a block of.
pub(in crate::arch) struct Generic<B>(PhantomData<B>);

/// What is added to an integer to make it a code.
const OFFSET: i16 = 4096;

impl<B: Weights<256>, const BYTES: usize> Type256<BYTES> for Generic<B> {
    const KIND: Kind = Kind::Planes;

    #[inline(always)]
    fn unpack<V: Level<L>, const L: usize>(
        level: V,
        blocks: &[&[u8; BYTES]; L],
        to: &mut Block256<V::V, V::F>,
    ) {
        let (mut low_plane, mut high_plane, mut d) = ([[0; 256]; L], [[0; 256]; L], [0.0; L]);
        let rows = blocks.iter().zip(low_plane.iter_mut().zip(&mut high_plane));
        for ((block, (low, high)), d) in rows.zip(&mut d) {
            let Ok(block) = B::ref_from_bytes(block.as_slice()) else { return };
            let mut integers = [0; 256];
            block.unpack(&mut integers);
            for ((low, high), integer) in low.iter_mut().zip(high).zip(integers) {
                // 0 to 8192: seven bits, and seven above them.
                let code = integer + OFFSET;
                *low = (code & 127) as u8;
                *high = (code >> 7) as u8;
            }
            *d = block.scale();
        }
        for (plane, codes) in [(&low_plane, &mut to.codes), (&high_plane, &mut to.high)] {
            let plane = plane.each_ref();
            for (at, codes) in (0..256).step_by(16).zip(codes.as_chunks_mut::<4>().0) {
                *codes = column(level, &plane, at);
            }
        }
        let offset = u32::from((-OFFSET) as u16);
        to.corrections = [level.splat(offset | offset << 16); 8];
        to.d = level.load_floats(&d);
    }
}
