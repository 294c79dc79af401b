//! Tests that go over the types of all block families.

mod common;
mod quality;
mod search;
