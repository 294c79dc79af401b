//! What this CPU and its operating system have, by CPUID and XGETBV.

#[cfg(not(miri))]
use core::arch::x86_64::{__cpuid, __cpuid_count, _xgetbv};
use core::sync::atomic::{AtomicU32, Ordering};

/// Sets of features that kernels are written for. A set is there only where the system also
/// keeps the registers that it uses.
#[derive(Clone, Copy)]
pub(super) struct Features(u32);

impl Features {
    const ASKED: u32 = 1;
    const AVX2: u32 = 2;
    const AVX_VNNI: u32 = 4;
    const AVX512: u32 = 8;
    const AVX512_EXTENDED: u32 = 16;

    /// Asks once, since an answer takes a virtual machine long.
    pub(super) fn of_this_cpu() -> Self {
        static KNOWN: AtomicU32 = AtomicU32::new(0);
        let known = KNOWN.load(Ordering::Relaxed);
        if known & Self::ASKED != 0 {
            return Features(known);
        }
        let asked = ask() | Self::ASKED;
        KNOWN.store(asked, Ordering::Relaxed);
        Features(asked)
    }

    fn has(self, set: u32) -> bool {
        self.0 & set != 0
    }

    /// AVX2, FMA, F16C and POPCNT.
    pub(super) fn avx2(self) -> bool {
        self.has(Self::AVX2)
    }

    /// [`avx2`](Self::avx2) and AVX-VNNI.
    pub(super) fn avx_vnni(self) -> bool {
        self.has(Self::AVX_VNNI)
    }

    /// [`avx2`](Self::avx2) and AVX-512 F, BW, VL, VNNI.
    pub(super) fn avx512(self) -> bool {
        self.has(Self::AVX512)
    }

    /// [`avx512`](Self::avx512) and DQ, VBMI, VBMI2, BITALG and GFNI.
    pub(super) fn avx512_extended(self) -> bool {
        self.has(Self::AVX512_EXTENDED)
    }
}

/// Whether all of `bits` are set.
fn all(word: u32, bits: &[u32]) -> bool {
    bits.iter().all(|bit| word >> bit & 1 == 1)
}

#[cfg(not(miri))]
fn ask() -> u32 {
    let Some((leaf1, leaf7, leaf7_1)) = leaves() else { return 0 };
    // XSAVE in use by the system, AVX, FMA, F16C and POPCNT.
    if !all(leaf1, &[27, 28, 12, 29, 23]) {
        return 0;
    }
    // SAFETY: bit 27 (OSXSAVE) says that XGETBV may be used.
    let saved = unsafe { saved_registers() };
    let [ebx, ecx] = leaf7;
    let mut found = 0;
    if !all(saved, &[1, 2]) || !all(ebx, &[5]) {
        return 0;
    }
    found |= Features::AVX2;
    if all(leaf7_1, &[4]) {
        found |= Features::AVX_VNNI;
    }
    // F, BW, VL; VNNI.
    if all(saved, &[5, 6, 7]) && all(ebx, &[16, 30, 31]) && all(ecx, &[11]) {
        found |= Features::AVX512;
        // DQ; VBMI, VBMI2, GFNI, BITALG.
        if all(ebx, &[17]) && all(ecx, &[1, 6, 8, 12]) {
            found |= Features::AVX512_EXTENDED;
        }
    }
    found
}

/// ECX of leaf 1, EBX and ECX of leaf 7, EAX of its subleaf 1; `None` without leaf 7.
#[cfg(not(miri))]
#[allow(unused_unsafe)]
fn leaves() -> Option<(u32, [u32; 2], u32)> {
    // SAFETY: every CPU that Rust's x86 targets run on has CPUID.
    let (highest, leaf1) = unsafe { (__cpuid(0).eax, __cpuid(1).ecx) };
    if highest < 7 {
        return None;
    }
    // SAFETY: as above.
    let leaf7 = unsafe { __cpuid_count(7, 0) };
    let leaf7_1 = match leaf7.eax {
        0 => 0,
        // SAFETY: as above.
        _ => unsafe { __cpuid_count(7, 1) }.eax,
    };
    Some((leaf1, [leaf7.ebx, leaf7.ecx], leaf7_1))
}

/// Which registers the system keeps: 1 SSE, 2 AVX, 5 to 7 AVX-512.
///
/// # Safety
/// The system must have XSAVE in use.
#[cfg(not(miri))]
#[target_feature(enable = "xsave")]
unsafe fn saved_registers() -> u32 {
    // SAFETY: the caller's promise.
    unsafe { _xgetbv(0) as u32 }
}

/// Miri has no CPUID; it runs what it was compiled for.
#[cfg(miri)]
fn ask() -> u32 {
    let mut found = 0;
    if cfg!(all(
        target_feature = "avx2",
        target_feature = "fma",
        target_feature = "f16c",
        target_feature = "popcnt"
    )) {
        found |= Features::AVX2;
        if cfg!(target_feature = "avxvnni") {
            found |= Features::AVX_VNNI;
        }
        if cfg!(all(
            target_feature = "avx512f",
            target_feature = "avx512bw",
            target_feature = "avx512vl",
            target_feature = "avx512vnni"
        )) {
            found |= Features::AVX512;
            if cfg!(all(
                target_feature = "avx512dq",
                target_feature = "avx512vbmi",
                target_feature = "avx512vbmi2",
                target_feature = "avx512bitalg",
                target_feature = "gfni"
            )) {
                found |= Features::AVX512_EXTENDED;
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    extern crate std;

    /// The standard library asks in its own way.
    #[test]
    fn as_std_finds_them() {
        use std::is_x86_feature_detected as has;
        let features = Features::of_this_cpu();
        let avx2 = has!("avx2") && has!("fma") && has!("f16c") && has!("popcnt");
        assert_eq!(features.avx2(), avx2);
        assert_eq!(features.avx_vnni(), avx2 && has!("avxvnni"));
        let avx512 =
            avx2 && has!("avx512f") && has!("avx512bw") && has!("avx512vl") && has!("avx512vnni");
        assert_eq!(features.avx512(), avx512);
        let extended =
            has!("avx512vbmi") && has!("avx512vbmi2") && has!("avx512bitalg") && has!("gfni");
        assert_eq!(features.avx512_extended(), avx512 && extended);
    }
}
