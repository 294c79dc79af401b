//! AVX2 and AVX-512 kernels behind [`hk_core::Backend`], chosen at run time.
//!
//! Each level gives the bits of [`hk_core::Portable`], decoding and multiplying, and hands
//! what it has no kernel for to that. The crate needs no `std`: it asks the CPU itself. It
//! builds for every target, and finds a level on x86-64 alone.
//!
//! | level | needs | uses where present |
//! | --- | --- | --- |
//! | `avx512` | AVX-512 F, BW, VL, VNNI | DQ, VBMI, VBMI2, BITALG and GFNI, where all five are there |
//! | `avx2` | AVX2, FMA, F16C, POPCNT | AVX-VNNI |
//!
//! Kernels multiply and add in two roundings, as dot-products.md has it, although both levels
//! could do both in one.
#![no_std]
#![warn(missing_docs)]

#[cfg(target_arch = "x86_64")]
mod arch;

use hk_core::Backend;

/// The levels built into this crate, best first.
#[cfg(target_arch = "x86_64")]
pub const LEVELS: &[&str] = &["avx512", "avx2"];
/// The levels built into this crate, best first: none, on this architecture.
#[cfg(not(target_arch = "x86_64"))]
pub const LEVELS: &[&str] = &[];

/// The best level that this CPU has, or `None` where none is built in for it.
///
/// ```
/// if let Some(backend) = hk_simd_x86::detect() {
///     assert!(hk_simd_x86::LEVELS.contains(&backend.name()));
/// }
/// ```
pub fn detect() -> Option<&'static dyn Backend> {
    LEVELS.iter().find_map(|name| level(name))
}

/// The level called `name`, or `None` where it is not built in or this CPU lacks it.
#[cfg(target_arch = "x86_64")]
pub fn level(name: &str) -> Option<&'static dyn Backend> {
    arch::level(name)
}

/// The level called `name`: `None`, on this architecture.
#[cfg(not(target_arch = "x86_64"))]
pub fn level(_name: &str) -> Option<&'static dyn Backend> {
    None
}

/// Every set of kernels that this CPU can run, under a name of its own: each level as it is
/// chosen, and without the features that it can do without. For tests.
#[doc(hidden)]
pub fn variants() -> impl Iterator<Item = (&'static str, &'static dyn Backend)> {
    #[cfg(target_arch = "x86_64")]
    let variants = arch::variants();
    #[cfg(not(target_arch = "x86_64"))]
    let variants = [].into_iter();
    variants
}
