//! hk-std.
