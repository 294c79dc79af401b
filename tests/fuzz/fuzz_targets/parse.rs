//! Any bytes as an HK file: parses, walks and decodes everything, verifies, and compares
//! with a second reader. Bounded: of each tensor it decodes its start and its end.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = hk_tests::walk::walk(data);
});
