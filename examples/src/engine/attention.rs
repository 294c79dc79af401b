//! Attention: for each query a mean of the values so far, weighted by how well their keys
//! fit it.

use alloc::vec::Vec;
use core::ops::Range;

use hk_core::attention::{Query, Weighted};

use super::cache::Cache;
use super::linear::Kernels;
use super::memory;
use super::probe::Part;
use super::threads::{for_each, pieces};
use crate::error::Result;
use crate::hyperparameters::Hyperparameters;

/// Tokens of a prompt that look back together.
const TOKENS: usize = 16;

/// Queries that one thread answers: some heads, which share keys, of some tokens.
struct Block<'a> {
    heads: Range<usize>,
    tokens: Range<usize>,
    /// The answers, token by token and head by head.
    out: &'a mut [f32],
}

/// The answers to the queries of some consecutive tokens, the first of which stands at
/// position `start`. `queries` and `out` hold all heads of each token; `answers` is memory
/// of the same length.
pub(super) fn attend(
    kernels: &Kernels<'_>,
    cache: &Cache,
    numbers: &Hyperparameters,
    start: usize,
    queries: &[f32],
    answers: &mut [f32],
    out: &mut [f32],
) -> Result<()> {
    let (heads, head_len) = (numbers.heads, numbers.head_len);
    let tokens = queries.len() / (heads * head_len);
    let cost = 2 * (start + tokens) * head_len;
    let pieces = pieces(kernels.threads, tokens * heads, cost);
    let threads = if pieces == 1 { 1 } else { kernels.threads.count() };
    let blocks = blocks(numbers, tokens, threads, answers);
    let shape: Vec<_> = blocks.iter().map(|b| (b.heads.clone(), b.tokens.clone())).collect();
    let answer = |block| {
        kernels.enter(Part::Attention);
        answer(kernels, cache, numbers, start, queries, block)?;
        kernels.enter(Part::Waiting);
        Ok(())
    };
    kernels.enter(Part::Waiting);
    if pieces == 1 {
        blocks.into_iter().try_for_each(answer)?;
    } else {
        for_each(kernels.threads, blocks, answer)?;
    }
    kernels.enter(Part::Rest);
    let mut answers = &answers[..];
    for (block_heads, block_tokens) in shape {
        for token in block_tokens {
            let at = (token * heads + block_heads.start) * head_len;
            let (answer, rest) = answers.split_at(block_heads.len() * head_len);
            out[at..][..answer.len()].copy_from_slice(answer);
            answers = rest;
        }
    }
    Ok(())
}

/// Blocks for `threads` threads: the tokens of a prompt are split, and the groups of heads that
/// share keys; of a single token also the heads of those groups that are left over when each
/// thread has got as many whole ones, so that all have the same to do.
fn blocks<'a>(
    numbers: &Hyperparameters,
    tokens: usize,
    threads: usize,
    answers: &'a mut [f32],
) -> Vec<Block<'a>> {
    let group = numbers.heads / numbers.kv_heads;
    let whole = numbers.kv_heads - numbers.kv_heads % threads;
    let mut rest = answers;
    let mut blocks = Vec::new();
    for first in (0..tokens).step_by(TOKENS) {
        let tokens = first..(first + TOKENS).min(tokens);
        for kv_head in 0..numbers.kv_heads {
            let split = tokens.end == 1 && kv_head >= whole;
            let heads_a_block = if split { group.div_ceil(threads) } else { group };
            let end = (kv_head + 1) * group;
            for head in (end - group..end).step_by(heads_a_block) {
                let heads = head..(head + heads_a_block).min(end);
                let len = tokens.len() * heads.len() * numbers.head_len;
                let (out, more) = core::mem::take(&mut rest).split_at_mut(len);
                rest = more;
                blocks.push(Block { heads, tokens: tokens.clone(), out });
            }
        }
    }
    blocks
}

/// Answers the queries of a block.
fn answer(
    kernels: &Kernels<'_>,
    cache: &Cache,
    numbers: &Hyperparameters,
    start: usize,
    queries: &[f32],
    block: Block<'_>,
) -> Result<()> {
    let (heads, head_len) = (block.heads.len(), numbers.head_len);
    let kv_head = block.heads.start / (numbers.heads / numbers.kv_heads);
    let mut rows = memory::with_room(block.tokens.len() * heads)?;
    let mut outs = memory::with_room(rows.capacity())?;
    for (token, out) in block.tokens.zip(block.out.chunks_exact_mut(heads * head_len)) {
        let at = (token * numbers.heads + block.heads.start) * head_len;
        let query = queries[at..].chunks_exact(head_len).take(heads);
        rows.extend(query.map(|row| (row, start + token + 1)));
        outs.extend(out.chunks_exact_mut(head_len));
    }
    look_back(kernels, cache, kv_head, head_len, &rows, &mut outs)
}

/// Answers queries that share keys and values; each comes with the number of positions that
/// it sees.
fn look_back(
    kernels: &Kernels<'_>,
    cache: &Cache,
    kv_head: usize,
    head_len: usize,
    queries: &[(&[f32], usize)],
    outs: &mut [&mut [f32]],
) -> Result<()> {
    let seen = queries.iter().map(|(_, seen)| *seen).sum();
    let mut weights: Vec<f32> = memory::zeros(seen)?;
    let mut rest = &mut weights[..];
    let mut asked = memory::with_room(queries.len())?;
    for (numbers, seen) in queries {
        let (scores, more) = core::mem::take(&mut rest).split_at_mut(*seen);
        rest = more;
        asked.push(Query { numbers, scores });
    }
    let scale = 1.0 / libm::sqrtf(head_len as f32);
    kernels.backend.scores(&cache.keys(kv_head)?, head_len, scale, &mut asked);
    let mut totals = memory::with_room(queries.len())?;
    let mut sums = memory::with_room(queries.len())?;
    for (query, out) in asked.into_iter().zip(outs.iter_mut()) {
        totals.push(kernels.backend.exponentials(query.scores));
        out.fill(0.0);
        sums.push(Weighted { weights: query.scores, sums: out });
    }
    kernels.backend.add_weighted(&cache.values(kv_head)?, head_len, &mut sums);
    for (out, total) in outs.iter_mut().zip(totals) {
        out.iter_mut().for_each(|number| *number /= total);
    }
    Ok(())
}
