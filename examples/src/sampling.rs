//! The choice of the next token.

use crate::error::{Error, Result};

/// The token with the largest logit; of equal ones, the first. NaN is never the largest.
///
/// # Errors
/// [`Error::NotNumbers`] when every logit is NaN, or there are none.
///
/// ```
/// assert_eq!(hk_examples::greedy(&[0.5, 2.0, f32::NAN, 2.0]), Ok(1));
/// ```
pub fn greedy(logits: &[f32]) -> Result<u32> {
    let mut best: Option<(u32, f32)> = None;
    for (token, &logit) in (0..).zip(logits) {
        let better = best.is_none_or(|(_, largest)| logit > largest);
        if better && !logit.is_nan() {
            best = Some((token, logit));
        }
    }
    best.map(|(token, _)| token).ok_or(Error::NotNumbers)
}
