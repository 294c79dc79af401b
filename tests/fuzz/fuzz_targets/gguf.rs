//! Any bytes as a GGUF file: converting them is an error that leaves nothing behind, or
//! writes a sound HK file.
#![no_main]

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::LazyLock;

use hk_std::convert::gguf::{Options, convert};
use hk_std::verify::verify;
use tempfile::TempDir;

/// In memory where there is such a place: every conversion syncs what it wrote.
static FOLDER: LazyLock<TempDir> = LazyLock::new(|| {
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    folder.expect("a folder for temporary files")
});

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let (input, output) = (FOLDER.path().join("in.gguf"), FOLDER.path().join("out.hk"));
    fs::write(&input, data).expect("a temporary file");
    let options = Options { overwrite: true, ..Options::default() };
    let result = convert(&input, &output, options, |_| ControlFlow::Continue(()));
    if result.is_err() {
        let left: Vec<_> = fs::read_dir(FOLDER.path()).expect("the folder").collect();
        assert_eq!(left.len(), 1, "a failed conversion leaves nothing behind");
        return;
    }
    let file = fs::read(&output).expect("the output");
    let report = verify(&file);
    let faults: Vec<String> = report.findings().iter().map(ToString::to_string).collect();
    assert!(report.is_sound(), "{faults:#?}");
    hk_tests::walk::walk(&file).expect("what was written is sound");
    fs::remove_file(&output).expect("the output");
});
