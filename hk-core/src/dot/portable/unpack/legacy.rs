//! The legacy blocks of 32 weights.

use super::Unpack32;
use crate::blocks::{BlockQ4_0, BlockQ4_1, BlockQ5_0, BlockQ5_1, BlockQ8_0};

impl Unpack32 for BlockQ4_0 {}

impl Unpack32 for BlockQ4_1 {
    const HAS_MINIMUM: bool = true;
}

impl Unpack32 for BlockQ5_0 {}

impl Unpack32 for BlockQ5_1 {
    const HAS_MINIMUM: bool = true;
}

impl Unpack32 for BlockQ8_0 {}
