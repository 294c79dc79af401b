//! Keys and values of the text so far, in f16.

use alloc::vec::Vec;

use half::f16;

use super::memory;
use crate::error::Result;
use crate::hyperparameters::Hyperparameters;

/// Positions a page.
pub(super) const PAGE: usize = 64;
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

    /// Keeps the key of all heads at `position`, which there is room for.
    pub(super) fn set_key(&mut self, position: usize, key: &[f32]) {
        Self::set(&mut self.keys, self.head_len, position, key);
    }

    /// Keeps the value of all heads at `position`, which there is room for.
    pub(super) fn set_value(&mut self, position: usize, value: &[f32]) {
        Self::set(&mut self.values, self.head_len, position, value);
    }

    fn set(pages: &mut [Vec<u8>], head_len: usize, position: usize, numbers: &[f32]) {
        let Some(page) = pages.get_mut(position / PAGE) else { return };
        let heads = page.chunks_exact_mut(PAGE * head_len * F16);
        for (page, numbers) in heads.zip(numbers.chunks_exact(head_len)) {
            let at = position % PAGE * head_len * F16;
            let (out, _) = page[at..].as_chunks_mut::<F16>();
            for (out, &number) in out.iter_mut().zip(numbers) {
                *out = f16::from_f32(number).to_le_bytes();
            }
        }
    }

    /// Keys of `head`, page by page: rows of f16.
    pub(super) fn keys(&self, head: usize) -> impl Iterator<Item = &[u8]> {
        self.pages(&self.keys, head)
    }

    /// Values of `head`, page by page: rows of f16.
    pub(super) fn values(&self, head: usize) -> impl Iterator<Item = &[u8]> {
        self.pages(&self.values, head)
    }

    fn pages<'a>(&self, pages: &'a [Vec<u8>], head: usize) -> impl Iterator<Item = &'a [u8]> {
        let bytes = PAGE * self.head_len * F16;
        pages.iter().map(move |page| &page[head * bytes..][..bytes])
    }
}
