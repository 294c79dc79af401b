//! NEON kernels behind [`hk_core::Backend`].
//!
//! No level is built in yet, so [`detect`] finds none and hosts run on
//! [`hk_core::Portable`]. The crate builds for every target.
#![no_std]

use hk_core::Backend;

/// The levels built into this crate, best first.
pub const LEVELS: &[&str] = &[];

/// The best level that this CPU has, or `None` where none is built in for it.
///
/// ```
/// if let Some(backend) = hk_simd_neon::detect() {
///     assert!(hk_simd_neon::LEVELS.contains(&backend.name()));
/// }
/// ```
pub fn detect() -> Option<&'static dyn Backend> {
    LEVELS.iter().find_map(|name| level(name))
}

/// The level called `name`, or `None` where it is not built in or this CPU lacks it.
pub fn level(_name: &str) -> Option<&'static dyn Backend> {
    None
}
