//! The levels, and which of them this CPU has.

mod activation;
mod attention;
mod avx2;
mod avx512;
mod call;
mod detect;
mod encode;
mod intrinsics;
mod iq1;
mod scaled;
mod scales;
mod stream;
mod table;
mod tile;

use hk_core::Backend;

use self::avx2::Avx2;
use self::avx512::Avx512;
use self::detect::Features;

/// As [`crate::level`].
pub(crate) fn level(name: &str) -> Option<&'static dyn Backend> {
    let features = Features::of_this_cpu();
    match name {
        "avx512" => match (Avx512::extended(features), Avx512::plain(features)) {
            (Some(extended), _) => Some(extended),
            (None, Some(plain)) => Some(plain),
            (None, None) => None,
        },
        "avx2" => match (Avx2::vnni(features), Avx2::plain(features)) {
            (Some(vnni), _) => Some(vnni),
            (None, Some(plain)) => Some(plain),
            (None, None) => None,
        },
        _ => None,
    }
}

/// As [`crate::variants`].
pub(crate) fn variants() -> impl Iterator<Item = (&'static str, &'static dyn Backend)> {
    fn object<B: Backend>(backend: &'static B) -> &'static dyn Backend {
        backend
    }
    let features = Features::of_this_cpu();
    let variants = [
        ("avx512, extended", Avx512::extended(features).map(object)),
        ("avx512, plain", Avx512::plain(features).map(object)),
        ("avx2, vnni", Avx2::vnni(features).map(object)),
        ("avx2, plain", Avx2::plain(features).map(object)),
    ];
    variants.into_iter().filter_map(|(name, backend)| Some((name, backend?)))
}
