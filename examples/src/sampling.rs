//! The choice of the next token.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::cmp::Ordering;

use hk_core::vector::exp;

use crate::error::{Error, Result};

/// The token with the largest logit; of equal ones, the first. NaN is never the largest.
///
/// # Errors
/// [`Error::NotNumbers`] when the largest is not finite, or there is none.
///
/// ```
/// assert_eq!(hk_examples::greedy(&[0.5, 2.0, f32::NAN, 2.0]), Ok(1));
/// ```
pub fn greedy(logits: &[f32]) -> Result<u32> {
    let (token, logit) = largest(logits).ok_or(Error::NotNumbers)?;
    if logit.is_finite() { Ok(token) } else { Err(Error::NotNumbers) }
}

/// Logits that are looked at together, as vectors.
const TOGETHER: usize = 16;

/// The first token with the largest logit, and that.
fn largest(logits: &[f32]) -> Option<(u32, f32)> {
    let (chunks, rest) = logits.as_chunks::<TOGETHER>();
    let mut lanes = [f32::NEG_INFINITY; TOGETHER];
    for chunk in chunks {
        for (lane, &logit) in lanes.iter_mut().zip(chunk) {
            *lane = if logit > *lane { logit } else { *lane };
        }
    }
    let larger = |a, &b| if b > a { b } else { a };
    let largest = lanes.iter().chain(rest).fold(f32::NEG_INFINITY, larger);
    let first = find(logits, 0, |logit| logit == largest)?;
    Some((first as u32, largest))
}

/// The first of the logits from `from` on that is `wanted`. Most are not, so many are looked
/// at together.
fn find(logits: &[f32], from: usize, wanted: impl Fn(f32) -> bool) -> Option<usize> {
    let (chunks, _) = logits.get(from..)?.as_chunks::<TOGETHER>();
    let is_in = |chunk: &[f32; TOGETHER]| chunk.iter().fold(false, |any, &l| any | wanted(l));
    let skipped = chunks.iter().take_while(|chunk| !is_in(chunk)).count();
    let from = from + skipped * TOGETHER;
    let at = logits.get(from..)?.iter().position(|&logit| wanted(logit))?;
    Some(from + at)
}

/// How a [`Sampler`] chooses. The default is the most likely token every time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// How evenly the choice falls: likely tokens more often under 1, unlikely ones over it.
    /// The most likely one always at 0 or less.
    pub temperature: f32,
    /// Choose among this many of the most likely tokens; among all at 0.
    pub top_k: usize,
    /// Choose among the most likely tokens that together have this probability; among all
    /// at 1 or more.
    pub top_p: f32,
    /// Leave out tokens less likely than this part of the most likely one's probability;
    /// none at 0 or less.
    pub min_p: f32,
    /// Divides the logits of the last [`Sampler::REPEAT_WINDOW`] tokens that are over 0, and
    /// multiplies those under 0; 1 changes none. It counts at temperature 0 too.
    pub repeat_penalty: f32,
    /// Where the random numbers begin.
    pub seed: u64,
}

impl Default for Sampling {
    fn default() -> Self {
        Sampling {
            temperature: 0.0,
            top_k: 40,
            top_p: 0.95,
            min_p: 0.05,
            repeat_penalty: 1.0,
            seed: 0,
        }
    }
}

/// Chooses tokens by their logits and chance: the same ones for the same logits and seed,
/// on every host. The penalty comes first, then top-k, top-p and min-p cut the list in this
/// order, and temperature weighs what is left.
///
/// ```
/// use hk_examples::{Sampler, Sampling};
/// let mut sampler = Sampler::new(Sampling { temperature: 0.8, seed: 7, ..Sampling::default() });
/// let token = sampler.choose(&[1.0, 3.0, -2.0, 2.5])?;
/// sampler.accept(token);
/// # Ok::<(), hk_examples::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Sampler {
    sampling: Sampling,
    random: Random,
    recent: VecDeque<u32>,
}

impl Sampler {
    /// How many tokens the penalty for repetition looks back.
    pub const REPEAT_WINDOW: usize = 64;

    /// A sampler that has seen no token.
    pub fn new(sampling: Sampling) -> Self {
        Sampler { sampling, random: Random(sampling.seed), recent: VecDeque::new() }
    }

    /// Takes note of a token of the text, read or chosen.
    pub fn accept(&mut self, token: u32) {
        if self.recent.len() == Self::REPEAT_WINDOW {
            self.recent.pop_front();
        }
        self.recent.push_back(token);
    }

    /// Forgets the tokens of the text and takes note of those of another one, which goes on
    /// after `text`. Chance goes on as it would have.
    pub fn restart(&mut self, text: &[u32]) {
        self.recent.clear();
        let last = text.len().saturating_sub(Self::REPEAT_WINDOW);
        self.recent.extend(text.iter().skip(last));
    }

    /// Chooses the next token. Those whose logit is NaN are never chosen.
    ///
    /// # Errors
    /// As [`greedy`].
    pub fn choose(&mut self, logits: &[f32]) -> Result<u32> {
        let best = largest(logits).filter(|(_, top)| top.is_finite());
        let best = best.ok_or(Error::NotNumbers)?;
        if self.sampling.repeat_penalty == 1.0 {
            return Ok(self.choose_of(logits, best));
        }
        let penalized = self.penalized(logits);
        let best = largest(&penalized).ok_or(Error::NotNumbers)?;
        Ok(self.choose_of(&penalized, best))
    }

    /// The logits with those of recent tokens made smaller.
    fn penalized(&self, logits: &[f32]) -> Vec<f32> {
        let penalty = self.sampling.repeat_penalty;
        let mut penalized = logits.to_vec();
        for &token in &self.recent {
            let index = token as usize;
            // From the original, so that a token that came twice counts once.
            let (Some(to), Some(&logit)) = (penalized.get_mut(index), logits.get(index)) else {
                continue;
            };
            *to = if logit > 0.0 { logit / penalty } else { logit * penalty };
        }
        penalized
    }

    /// Chooses among all tokens, of which `token` has the largest logit, `top`.
    fn choose_of(&mut self, logits: &[f32], (token, top): (u32, f32)) -> u32 {
        let temperature = self.sampling.temperature;
        // NaN is no temperature either. An extreme penalty makes logits infinite, of which none
        // is more likely than another.
        if temperature > 0.0 && top.is_finite() {
            let candidates = self.sampling.candidates(logits, top);
            self.random.draw(&candidates, temperature, top).unwrap_or(token)
        } else {
            token
        }
    }
}

impl Sampling {
    /// The tokens to choose among, of which `top` is the largest logit: the likeliest first,
    /// or all as they come.
    fn candidates(&self, logits: &[f32], top: f32) -> Vec<Candidate> {
        let is_cut = !(self.top_p >= 1.0 && self.min_p <= 0.0);
        if self.top_k > 0 && self.top_k < logits.len() {
            let mut candidates = likeliest(logits, self.top_k);
            if is_cut {
                let weights = candidates.iter().map(|candidate| candidate.weight(1.0, top));
                let enough = self.enough(|| weights.map(f64::from).sum());
                let end = self.end(&candidates, enough, top);
                candidates.truncate(end.unwrap_or(candidates.len()));
            }
            return candidates;
        }
        if !is_cut {
            let all = (0..).zip(logits).filter(|(_, logit)| !logit.is_nan());
            return all.map(|(token, &logit)| Candidate { logit, token }).collect();
        }
        let enough = self.enough(|| sum_of_weights(logits, top));
        // Few are likely, as a rule.
        let mut count = 64_usize;
        loop {
            let mut candidates = likeliest(logits, count);
            let end = self.end(&candidates, enough, top);
            if end.is_some() || candidates.len() < count {
                candidates.truncate(end.unwrap_or(candidates.len()));
                return candidates;
            }
            count = count.saturating_mul(16);
        }
    }

    /// The sum of weights at which there are enough of them, of the sum of all.
    fn enough(&self, sum: impl FnOnce() -> f64) -> f64 {
        if self.top_p >= 1.0 { f64::INFINITY } else { f64::from(self.top_p) * sum() }
    }

    /// How many of the candidates stay, where the last of them is known not to.
    fn end(&self, candidates: &[Candidate], enough: f64, top: f32) -> Option<usize> {
        let mut sum = 0.0;
        for (i, candidate) in candidates.iter().enumerate() {
            let weight = candidate.weight(1.0, top);
            if i > 0 && (weight < self.min_p || sum >= enough) {
                return Some(i);
            }
            sum += f64::from(weight);
        }
        None
    }
}

/// A token that may be chosen.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    logit: f32,
    token: u32,
}

impl Candidate {
    /// Its probability as a part of that of the token with logit `top`.
    fn weight(&self, temperature: f32, top: f32) -> f32 {
        exp((self.logit - top) / temperature)
    }

    /// The likelier one first, of equal ones the first token. None is NaN.
    fn order(&self, other: &Self) -> Ordering {
        let order = other.logit.partial_cmp(&self.logit).unwrap_or(Ordering::Equal);
        order.then(self.token.cmp(&other.token))
    }
}

/// The sum of the weights of all tokens, at temperature 1.
fn sum_of_weights(logits: &[f32], top: f32) -> f64 {
    let mut lanes = [0.0; TOGETHER];
    for chunk in logits.chunks(TOGETHER) {
        for (lane, &logit) in lanes.iter_mut().zip(chunk) {
            let weight = exp(logit - top);
            *lane += f64::from(if weight.is_nan() { 0.0 } else { weight });
        }
    }
    lanes.iter().sum()
}

/// The `count` likeliest tokens, the likeliest first; fewer where no more are possible at all.
/// The vocabulary is looked through once, and only what is found is sorted.
fn likeliest(logits: &[f32], count: usize) -> Vec<Candidate> {
    let mut found: Vec<Candidate> = Vec::new();
    let mut floor = f32::NEG_INFINITY;
    let mut from = 0;
    while let Some(at) = find(logits, from, |logit| logit > floor) {
        found.push(Candidate { logit: logits[at], token: at as u32 });
        from = at + 1;
        if found.len() >= count.saturating_mul(2) {
            keep(&mut found, count);
            // Tokens after these have to be likelier than the last of them.
            floor = found.last().map_or(floor, |last| last.logit);
        }
    }
    keep(&mut found, count);
    found.sort_unstable_by(Candidate::order);
    found
}

/// Keeps the `count` likeliest, the last of which comes last.
fn keep(found: &mut Vec<Candidate>, count: usize) {
    if count < found.len() {
        found.select_nth_unstable_by(count.saturating_sub(1), Candidate::order);
        found.truncate(count);
    }
}

/// SplitMix64 (Steele, Lea and Flood, 2014).
#[derive(Clone, Debug)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// From 0 up to but not 1, in steps of 2⁻⁵³.
    fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// One of the candidates, each as often as its weight says.
    fn draw(&mut self, candidates: &[Candidate], temperature: f32, top: f32) -> Option<u32> {
        let weights = candidates.iter().map(|candidate| candidate.weight(temperature, top));
        let weights: Vec<f32> = weights.collect();
        let mut left = self.fraction() * weights.iter().map(|&w| f64::from(w)).sum::<f64>();
        for (candidate, weight) in candidates.iter().zip(weights) {
            left -= f64::from(weight);
            if left < 0.0 {
                return Some(candidate.token);
            }
        }
        // Rounding may leave a little.
        candidates.first().map(|candidate| candidate.token)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    const HOT: Sampling = Sampling {
        temperature: 1.0,
        top_k: 0,
        top_p: 1.0,
        min_p: 0.0,
        repeat_penalty: 1.0,
        seed: 0,
    };

    /// How often each token is chosen.
    fn counts(sampling: Sampling, logits: &[f32], draws: usize) -> Vec<usize> {
        let mut sampler = Sampler::new(sampling);
        let mut counts = vec![0; logits.len()];
        for _ in 0..draws {
            counts[sampler.choose(logits).unwrap() as usize] += 1;
        }
        counts
    }

    fn kept(sampling: Sampling, logits: &[f32]) -> Vec<u32> {
        let top = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let mut tokens: Vec<u32> =
            sampling.candidates(logits, top).iter().map(|candidate| candidate.token).collect();
        tokens.sort_unstable();
        tokens
    }

    #[test]
    fn random_numbers_are_those_of_the_paper() {
        let mut random = Random(1_234_567);
        let expected = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973];
        assert_eq!([random.next(), random.next()], expected);
        assert!((0..1000).all(|_| (0.0..1.0).contains(&random.fraction())));
    }

    #[test]
    fn tokens_are_chosen_as_often_as_they_are_likely() {
        // Probabilities 1/2, 1/4, 1/8, 1/8.
        let logits: Vec<f32> = [4.0, 2.0, 1.0, 1.0].map(libm::logf).to_vec();
        let counts_at = |temperature| counts(Sampling { temperature, ..HOT }, &logits, 20_000);
        for (count, expected) in counts_at(1.0).into_iter().zip([10_000, 5_000, 2_500, 2_500]) {
            assert!(count.abs_diff(expected) < 300, "{count} {expected}");
        }
        // At temperature 1/2 the weights are squares: 16, 4, 1, 1.
        for (count, expected) in counts_at(0.5).into_iter().zip([14_545, 3_636, 909, 909]) {
            assert!(count.abs_diff(expected) < 300, "{count} {expected}");
        }
        assert_eq!(counts_at(0.0), [20_000, 0, 0, 0]);
        assert_eq!(counts_at(f32::NAN), [20_000, 0, 0, 0]);
        assert_eq!(counts_at(1e-30), [20_000, 0, 0, 0]);
    }

    #[test]
    fn cuts_keep_the_likely_tokens() {
        // Probabilities 1/8, 1/2, 1/4, 1/8.
        let logits: Vec<f32> = [1.0, 4.0, 2.0, 1.0].map(libm::logf).to_vec();
        let top_k = |top_k| kept(Sampling { top_k, ..HOT }, &logits);
        assert_eq!(
            [0, 1, 2, 3, 4, 9].map(top_k),
            [
                vec![0, 1, 2, 3],
                vec![1],
                vec![1, 2],
                vec![0, 1, 2],
                vec![0, 1, 2, 3],
                vec![0, 1, 2, 3]
            ]
        );
        let top_p = |top_p| kept(Sampling { top_p, ..HOT }, &logits);
        assert_eq!(
            [0.0, 0.4, 0.6, 0.8, 0.99, 1.0].map(top_p),
            [vec![1], vec![1], vec![1, 2], vec![0, 1, 2], vec![0, 1, 2, 3], vec![0, 1, 2, 3]]
        );
        let min_p = |min_p| kept(Sampling { min_p, ..HOT }, &logits);
        assert_eq!(
            [0.2, 0.3, 0.6, 2.0].map(min_p),
            [vec![0, 1, 2, 3], vec![1, 2], vec![1], vec![1]]
        );
        // Of the two likeliest the first has 2/3.
        assert_eq!(kept(Sampling { top_k: 2, top_p: 0.66, ..HOT }, &logits), [1]);
        assert_eq!(kept(Sampling { top_p: f32::NAN, min_p: f32::NAN, ..HOT }, &logits).len(), 4);
    }

    #[test]
    fn the_likeliest_are_those_that_sorting_finds() {
        let mut random = Random(5);
        // Few values, so that many are equal, and some that never count.
        let logits: Vec<f32> = (0..2000)
            .map(|_| match random.next() % 40 {
                0 => f32::NAN,
                1 => f32::NEG_INFINITY,
                value => value as f32 / 4.0 - 5.0,
            })
            .collect();
        let mut sorted: Vec<u32> = (0..2000).filter(|&i| logits[i as usize] > -9.0).collect();
        sorted.sort_by(|&a, &b| logits[b as usize].total_cmp(&logits[a as usize]));
        for count in [1, 2, 15, 40, 700, 1999, 2000, usize::MAX] {
            let found: Vec<u32> = likeliest(&logits, count).iter().map(|c| c.token).collect();
            assert_eq!(found, sorted[..count.min(sorted.len())], "{count}");
        }
        assert_eq!(largest(&logits).map(|(token, _)| token), Some(sorted[0]));
        let sum: f64 =
            sorted.iter().map(|&i| libm::exp(f64::from(logits[i as usize]) - 4.75)).sum();
        let ours = sum_of_weights(&logits, 4.75);
        assert!((ours / sum - 1.0).abs() < 1e-6, "{ours} {sum}");
    }

    #[test]
    fn a_cut_far_down_finds_as_many_as_it_needs() {
        // Evenly likely but for the first, so that 0.5 needs half of them.
        let logits: Vec<f32> = (0..3000_u16).map(|i| if i == 0 { 0.001 } else { 0.0 }).collect();
        let tokens = kept(Sampling { top_p: 0.5, ..HOT }, &logits);
        assert!(tokens.len().abs_diff(1500) < 3 && tokens[1499] == 1499, "{}", tokens.len());
        let top_k = Sampling { top_p: 0.5, top_k: 1000, ..HOT };
        assert!(kept(top_k, &logits).len().abs_diff(500) < 3);
        assert_eq!(kept(Sampling { min_p: 0.5, ..HOT }, &logits).len(), 3000);
    }

    #[test]
    fn the_same_seed_chooses_the_same_tokens() {
        let logits: Vec<f32> = (0..500_u16).map(|i| f32::from(i * 37 % 101) / 20.0).collect();
        let tokens = |seed| {
            let mut sampler = Sampler::new(Sampling { seed, ..HOT });
            (0..20).map(|_| sampler.choose(&logits).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(tokens(3), tokens(3));
        assert_ne!(tokens(3), tokens(4));
    }

    #[test]
    fn repeated_tokens_lose_once_within_the_window() {
        let logits = [2.0, 1.9, -1.0];
        let sampling = Sampling { repeat_penalty: 1.1, ..Sampling::default() };
        let mut sampler = Sampler::new(sampling);
        assert_eq!(sampler.choose(&logits), Ok(0));
        for token in [0, 0, 2, 99] {
            sampler.accept(token);
        }
        assert_eq!(sampler.penalized(&logits), [2.0 / 1.1, 1.9, -1.1]);
        assert_eq!(sampler.choose(&logits), Ok(1));
        for _ in 0..Sampler::REPEAT_WINDOW {
            sampler.accept(2);
        }
        assert_eq!(sampler.choose(&logits), Ok(0));
        sampler.restart(&[[0; 3].as_slice(), &[1; Sampler::REPEAT_WINDOW]].concat());
        assert_eq!(sampler.penalized(&logits), [2.0, 1.9 / 1.1, -1.0]);
        sampler.restart(&[]);
        assert_eq!(sampler.penalized(&logits), logits);
    }

    #[test]
    fn logits_that_are_no_numbers_are_never_chosen() {
        let logits = [f32::NAN, 1.0, f32::NAN, f32::NEG_INFINITY, 1.0];
        let counts = counts(HOT, &logits, 200);
        assert!(counts[1] > 0 && counts[4] > 0 && counts[1] + counts[4] == 200, "{counts:?}");
        let mut sampler = Sampler::new(HOT);
        assert_eq!(sampler.choose(&[f32::NAN; 3]), Err(Error::NotNumbers));
        assert_eq!(sampler.choose(&[]), Err(Error::NotNumbers));
        assert_eq!(sampler.choose(&[1.0, f32::INFINITY]), Err(Error::NotNumbers));
        assert_eq!(sampler.choose(&[f32::NEG_INFINITY; 2]), Err(Error::NotNumbers));
        assert_eq!(sampler.choose(&[f32::MAX, f32::MIN]), Ok(0));
        // What a penalty makes infinite is no fault of the model.
        let mut sampler = Sampler::new(Sampling { repeat_penalty: 1e-38, ..HOT });
        sampler.accept(1);
        assert_eq!(sampler.choose(&[1.0, f32::MAX]), Ok(1));
    }
}
