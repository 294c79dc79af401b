//! Byte pair encoding: the pairs that merge, and their merging within a word.

use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::Reverse;

/// A pair of tokens that merges to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Merge {
    pub left: u32,
    pub right: u32,
    /// Lower ranks merge first.
    pub rank: u32,
    pub joined: u32,
}

/// All pairs that merge.
#[derive(Clone, Debug, Default)]
pub(super) struct Merges {
    /// By pair, then rank.
    sorted: Vec<Merge>,
}

impl Merges {
    pub(super) fn new(mut merges: Vec<Merge>) -> Self {
        merges.sort_unstable();
        Merges { sorted: merges }
    }

    /// How `left` and `right` merge; of a pair that is listed twice, by the first.
    fn get(&self, left: u32, right: u32) -> Option<Merge> {
        let at = self.sorted.partition_point(|merge| (merge.left, merge.right) < (left, right));
        self.sorted.get(at).copied().filter(|merge| (merge.left, merge.right) == (left, right))
    }
}

/// Merges the tokens of one word after another.
#[derive(Debug, Default)]
pub(super) struct Word {
    parts: Vec<Part>,
    /// Pairs that could merge: rank first, then the place in the word.
    waiting: BinaryHeap<Reverse<(u32, usize, Merge)>>,
}

/// A token of a word, and the parts beside it; a part that was merged into the one on its
/// left has token `None`.
#[derive(Clone, Copy, Debug)]
struct Part {
    token: Option<u32>,
    previous: Option<usize>,
    next: Option<usize>,
}

impl Word {
    /// Appends a token to the word.
    pub(super) fn push(&mut self, token: u32) {
        let at = self.parts.len();
        let previous = at.checked_sub(1);
        if let Some(last) = self.parts.last_mut() {
            last.next = Some(at);
        }
        self.parts.push(Part { token: Some(token), previous, next: None });
    }

    /// Merges the word's pairs, lowest rank first and of equal ranks the leftmost, appends
    /// what is left to `tokens`, and starts a new word.
    pub(super) fn merge(&mut self, merges: &Merges, tokens: &mut Vec<u32>) {
        for left in 0..self.parts.len() {
            self.consider(merges, left);
        }
        while let Some(Reverse((_, at, merge))) = self.waiting.pop() {
            self.apply(merges, at, merge);
        }
        tokens.extend(self.parts.drain(..).filter_map(|part| part.token));
    }

    /// Lets the part at `left` and the next one wait, if they merge.
    fn consider(&mut self, merges: &Merges, left: usize) {
        let Some((first, second, _)) = self.pair(left) else { return };
        if let Some(merge) = merges.get(first, second) {
            self.waiting.push(Reverse((merge.rank, left, merge)));
        }
    }

    /// The tokens of the part at `left` and the next one, and where that is.
    fn pair(&self, left: usize) -> Option<(u32, u32, usize)> {
        let part = self.parts.get(left)?;
        let right = part.next?;
        Some((part.token?, self.parts.get(right)?.token?, right))
    }

    /// Merges the part at `left` with the next one, unless either has changed meanwhile.
    fn apply(&mut self, merges: &Merges, left: usize, merge: Merge) {
        let Some((first, second, right)) = self.pair(left) else { return };
        if (first, second) != (merge.left, merge.right) {
            return;
        }
        let next = self.parts[right].next;
        self.parts[right].token = None;
        self.parts[left].token = Some(merge.joined);
        self.parts[left].next = next;
        if let Some(next) = next {
            self.parts[next].previous = Some(left);
        }
        self.consider(merges, left);
        if let Some(previous) = self.parts[left].previous {
            self.consider(merges, previous);
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    /// Merges by definition: again and again the pair of lowest rank, the leftmost.
    fn by_definition(merges: &Merges, mut word: Vec<u32>) -> Vec<u32> {
        loop {
            let pairs = word.windows(2).enumerate();
            let best = pairs
                .filter_map(|(at, pair)| Some((merges.get(pair[0], pair[1])?, at)))
                .min_by_key(|(merge, at)| (merge.rank, *at));
            let Some((merge, at)) = best else { return word };
            word.splice(at..at + 2, [merge.joined]);
        }
    }

    #[test]
    fn merges_as_defined() {
        let merge = |rank, left, right, joined| Merge { left, right, rank, joined };
        let merges = Merges::new(vec![
            merge(0, 1, 1, 3),
            merge(1, 3, 1, 4),
            merge(2, 0, 1, 5),
            merge(3, 5, 3, 6),
            merge(4, 2, 3, 7),
            merge(5, 4, 7, 8),
            merge(6, 3, 3, 9),
        ]);
        let mut word = Word::default();
        for code in 0..3_u32.pow(9) {
            let tokens: Vec<u32> = (0..9).map(|i| code / 3_u32.pow(i) % 3).collect();
            tokens.iter().for_each(|&token| word.push(token));
            let mut merged = vec![];
            word.merge(&merges, &mut merged);
            assert_eq!(merged, by_definition(&merges, tokens.clone()), "{tokens:?}");
        }
    }

    #[test]
    fn of_a_pair_listed_twice_the_first_counts() {
        let twice =
            [(1, 20), (0, 10)].map(|(rank, joined)| Merge { left: 1, right: 2, rank, joined });
        let merges = Merges::new(twice.to_vec());
        assert_eq!(merges.get(1, 2).map(|merge| merge.joined), Some(10));
        assert_eq!(merges.get(2, 1), None);
    }
}
