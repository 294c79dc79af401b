//! Measuring kernels: what `hk bench` and the benchmarks of this repository share.
//!
//! A speed in seconds says as much about the machine's other work as about the kernel, so
//! each [`Case`] takes turns with filling memory (`memset`) of as many `f32` as there are
//! weights, and the fastest of each counts: their ratio is what a kernel makes of the
//! machine.
//!
//! ```
//! use std::time::Duration;
//! use hk_std::bench::{Op, SMALL, Workspace};
//! use hk_std::hk_core::{Portable, StorageType};
//!
//! let mut workspace = Workspace::new(1);
//! let mut case = workspace.case(Op::Dequantize, StorageType::Q4_0, SMALL)?;
//! let measured = case.measure(&Portable, Duration::from_millis(1))?;
//! assert!(measured.gweights_per_s() > 0.0 && measured.memset_ratio() > 0.0);
//! # Ok::<(), hk_std::Error>(())
//! ```

mod case;
mod measure;
mod payload;

use std::fmt;
use std::str::FromStr;

use hk_core::dot::ActivationForm;
use hk_core::{StorageType, encode};

pub use case::{Case, Workspace};
pub use measure::Measurement;
pub use payload::{BLOCK, Payload, activations, payload, weights};

/// Weights of a small case: a dequantized output that stays in the L2 cache.
pub const SMALL: usize = 65_536;
/// Weights of a large case: 64 Mi, whose dequantized output is beyond any cache.
pub const LARGE: usize = 64 << 20;
/// Weights of a row in dot products.
pub const ROW: usize = 4096;
/// Activation rows at once in [`Op::Prompt`].
pub const PROMPT: usize = 64;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// Stored weights to `f32`.
    Dequantize,
    /// Rows of [`ROW`] weights times one activation row: a token.
    Dot,
    /// Rows of [`ROW`] weights times [`PROMPT`] activation rows.
    Prompt,
    /// `f32` weights to stored ones.
    Quantize,
}

impl Op {
    /// All there are.
    pub const ALL: [Op; 4] = [Op::Dequantize, Op::Dot, Op::Prompt, Op::Quantize];

    /// `dequantize`, `dot`, `prompt` or `quantize`.
    pub const fn name(self) -> &'static str {
        match self {
            Op::Dequantize => "dequantize",
            Op::Dot => "dot",
            Op::Prompt => "prompt",
            Op::Quantize => "quantize",
        }
    }

    /// Whether weights of type `storage` have this operation.
    pub fn takes(self, storage: StorageType) -> bool {
        match self {
            Op::Dequantize => storage.geometry().is_some() || payload::has_form(storage),
            Op::Dot | Op::Prompt => ActivationForm::of(storage).is_some(),
            Op::Quantize => encode::is_encodable(storage),
        }
    }

    /// The types that have it, in the order of their codes.
    pub fn types(self) -> impl Iterator<Item = StorageType> + Clone {
        StorageType::all().filter(move |&storage| self.takes(storage))
    }

    /// How often each weight is used: by each activation row, or in being dequantized
    /// or quantized.
    pub const fn uses(self) -> usize {
        match self {
            Op::Dequantize | Op::Dot | Op::Quantize => 1,
            Op::Prompt => PROMPT,
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Op {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = || Op::ALL.map(Op::name).join(", ");
        let op = Op::ALL.into_iter().find(|op| op.name() == text);
        op.ok_or_else(|| format!("no operation of this name; there are: {}", known()))
    }
}
