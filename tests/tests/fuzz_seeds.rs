//! The seeds of the fuzz targets, and what fuzzing has found with them, as plain tests.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use hk_tests::data_dir;
use hk_tests::walk::walk;

/// Name and content of the seeds of a target.
fn seeds(target: &str) -> Vec<(String, Vec<u8>)> {
    let folder = data_dir().join("../fuzz/seeds").join(target);
    let read = |path: &Path| fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let entries = fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let paths = entries.map(|entry| entry.expect("a folder entry").path());
    let mut seeds: Vec<_> = paths.map(|p| (p.display().to_string(), read(&p))).collect();
    seeds.sort();
    seeds
}

#[test]
fn files_walk() {
    let mut sound = 0;
    for (name, file) in seeds("parse") {
        let walked = std::panic::catch_unwind(|| walk(&file));
        sound +=
            usize::from(walked.unwrap_or_else(|_| panic!("the panic came from {name}")).is_ok());
    }
    assert!(sound >= 8, "{sound}");
}

#[test]
fn gguf_files_convert_or_are_refused() {
    use hk_std::convert::gguf::{Options, convert};
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let (input, output) = (folder.path().join("in.gguf"), folder.path().join("out.hk"));
    let mut converted = 0;
    for (name, file) in seeds("gguf") {
        fs::write(&input, &file).expect("a temporary file");
        let options = Options { overwrite: true, ..Options::default() };
        if convert(&input, &output, options, |_| ControlFlow::Continue(())).is_ok() {
            let walked = walk(&fs::read(&output).expect("the output"));
            assert!(walked.is_ok_and(|walked| walked.sound), "{name}");
            converted += 1;
        }
    }
    assert!(converted >= 2, "{converted}");
}
