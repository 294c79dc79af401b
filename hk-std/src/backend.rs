//! The choice of kernels at run time.

use std::sync::OnceLock;

use hk_core::{Backend, Portable};

use crate::error::{Error, Result};

/// The environment variable that overrides the choice.
const VARIABLE: &str = "HK_KERNELS";

/// The backend that this process uses: the fastest that the CPU has, or the one that the
/// environment variable `HK_KERNELS` names. Chosen at the first call, once and for all.
///
/// ```
/// let backend = hk_std::backend()?;
/// assert!(hk_std::backends().iter().any(|b| b.name() == backend.name()));
/// # Ok::<_, hk_std::Error>(())
/// ```
///
/// # Errors
/// `HK_KERNELS` names a backend that this CPU or build does not have; the text lists those
/// it has.
pub fn backend() -> Result<&'static dyn Backend> {
    static CHOSEN: OnceLock<Result<&'static dyn Backend, String>> = OnceLock::new();
    let chosen = CHOSEN.get_or_init(|| choose().map_err(|e| e.to_string()));
    chosen.clone().map_err(Error::Invalid)
}

fn choose() -> Result<&'static dyn Backend> {
    let Some(name) = std::env::var_os(VARIABLE).filter(|name| !name.is_empty()) else {
        return Ok(backends().first().copied().unwrap_or(&Portable));
    };
    kernels(&name.to_string_lossy()).map_err(|e| Error::Invalid(format!("{VARIABLE}: {e}")))
}

/// The backend called `name`.
///
/// # Errors
/// This CPU or build does not have it.
pub fn kernels(name: &str) -> Result<&'static dyn Backend> {
    let all = backends();
    all.iter().copied().find(|b| b.name() == name).ok_or_else(|| {
        let names: Vec<_> = all.iter().map(|b| b.name()).collect();
        Error::Invalid(format!(
            "no kernels called {name:?} here; this CPU and build have: {}",
            names.join(", ")
        ))
    })
}

/// Every backend that this CPU and build have, the fastest first; `portable` is the last.
pub fn backends() -> Vec<&'static dyn Backend> {
    let mut all = vector_backends();
    all.push(&Portable);
    all
}

#[cfg(feature = "simd")]
fn vector_backends() -> Vec<&'static dyn Backend> {
    let x86 = hk_simd_x86::LEVELS.iter().filter_map(|name| hk_simd_x86::level(name));
    let neon = hk_simd_neon::LEVELS.iter().filter_map(|name| hk_simd_neon::level(name));
    x86.chain(neon).collect()
}

#[cfg(not(feature = "simd"))]
fn vector_backends() -> Vec<&'static dyn Backend> {
    Vec::new()
}
