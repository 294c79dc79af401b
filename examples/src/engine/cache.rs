//! Keys and values of the text so far, in f16.

use alloc::vec::Vec;

use hk_core::Backend;

use super::memory;
use crate::error::Result;
use crate::hyperparameters::Hyperparameters;

/// Positions a page.
const PAGE: usize = 64;
/// Bytes of a number.
const F16: usize = 2;

/// Keys and values of one layer. Memory grows by pages with the text; a page holds, for
/// each head, its numbers position after position, as rows that dot products are taken
/// with.
pub(super) struct Cache {
    keys: Vec<Vec<u8>>,
    values: Vec<Vec<u8>>,
    heads: usize,
    head_len: usize,
}

impl Cache {
    pub(super) fn new(numbers: &Hyperparameters) -> Self {
        let (heads, head_len) = (numbers.kv_heads, numbers.head_len);
        Cache { keys: Vec::new(), values: Vec::new(), heads, head_len }
    }

    /// Makes room for `positions` in all.
    pub(super) fn grow(&mut self, positions: usize) -> Result<()> {
        let bytes = self.heads.saturating_mul(self.head_len).saturating_mul(PAGE * F16);
        for pages in [&mut self.keys, &mut self.values] {
            while pages.len() < positions.div_ceil(PAGE) {
                let page = memory::zeros(bytes)?;
                let len = pages.len();
                pages
                    .try_reserve(1)
                    .map_err(|_| crate::Error::Memory(len * size_of::<Vec<u8>>()))?;
                pages.push(page);
            }
        }
        Ok(())
    }

    /// Bytes that keys and values take.
    pub(super) fn bytes(&self) -> usize {
        self.keys.iter().chain(&self.values).map(Vec::len).sum()
    }

    /// Keeps the key and the value of all heads at `position`, which there is room for.
    pub(super) fn set(
        &mut self,
        backend: &dyn Backend,
        position: usize,
        key: &[f32],
        value: &[f32],
    ) {
        for (pages, numbers) in [(&mut self.keys, key), (&mut self.values, value)] {
            let Some(page) = pages.get_mut(position / PAGE) else { return };
            let heads = page.chunks_exact_mut(PAGE * self.head_len * F16);
            for (page, numbers) in heads.zip(numbers.chunks_exact(self.head_len)) {
                let at = position % PAGE * self.head_len * F16;
                backend.to_f16(numbers, page[at..].as_chunks_mut::<F16>().0);
            }
        }
    }

    /// Keys of `head`, page by page: rows of f16.
    pub(super) fn keys(&self, head: usize) -> Result<Vec<&[[u8; F16]]>> {
        self.pages(&self.keys, head)
    }

    /// Values of `head`, page by page: rows of f16.
    pub(super) fn values(&self, head: usize) -> Result<Vec<&[[u8; F16]]>> {
        self.pages(&self.values, head)
    }

    fn pages<'a>(&self, pages: &'a [Vec<u8>], head: usize) -> Result<Vec<&'a [[u8; F16]]>> {
        let bytes = PAGE * self.head_len * F16;
        let mut all = memory::with_room(pages.len())?;
        all.extend(pages.iter().map(|page| page[head * bytes..][..bytes].as_chunks().0));
        Ok(all)
    }
}
