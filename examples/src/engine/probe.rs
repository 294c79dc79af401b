//! Where the engine's time goes.

use core::fmt;

use hk_core::StorageType;

/// A part of the work that a model takes. Its text is a name in small letters, with `_`
/// between words: `matrices_q4_1`, `attention`, ...
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Part {
    /// Products with matrices of this type.
    Matrices(StorageType),
    /// Scores, softmax, and sums of values.
    Attention,
    /// Norms of tokens' states.
    Norms,
    /// Activations brought into the form that matrices are multiplied with.
    Quantizing,
    /// Handing work to threads, and waiting until they are done.
    Waiting,
    /// The choice of a token: not the engine's work, but of who asks it for logits.
    Sampling,
    /// All else: embeddings, rotations, SwiGLU, sums, and keeping keys and values.
    Rest,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Part::Matrices(storage) => return write!(f, "matrices_{storage}"),
            Part::Attention => "attention",
            Part::Norms => "norms",
            Part::Quantizing => "quantizing",
            Part::Waiting => "waiting",
            Part::Sampling => "sampling",
            Part::Rest => "rest",
        };
        f.write_str(name)
    }
}

/// Told by an [`Engine`](crate::Engine) what it is at, as the host's clock wants to know: the
/// library has none.
///
/// ```
/// use core::sync::atomic::{AtomicUsize, Ordering};
/// use hk_examples::{Part, Probe};
///
/// /// Counts norms.
/// #[derive(Default)]
/// struct Norms(AtomicUsize);
///
/// impl Probe for Norms {
///     fn enter(&self, part: Part) {
///         if part == Part::Norms {
///             self.0.fetch_add(1, Ordering::Relaxed);
///         }
///     }
/// }
/// ```
pub trait Probe: Sync {
    /// The calling thread begins with `part`; what it was at before has ended. Each thread
    /// that works tells its own parts, some dozens of times a layer.
    fn enter(&self, part: Part);
}
