//! 4-bit floats.

use super::Unpack32;
use crate::blocks::BlockMxfp4;

impl Unpack32 for BlockMxfp4 {}
