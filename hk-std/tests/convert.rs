//! `hk convert`: what it says, what it leaves behind, and its exit codes.
#![cfg(feature = "cli")]

use std::path::Path;
use std::process::{Command, Output};

use hk_std::ModelFile;
use tempfile::TempDir;

/// A GGUF file with one metadata pair, `split.count` of `split`, and one tensor.
fn gguf(split: u16) -> Vec<u8> {
    let mut bytes = b"GGUF\x03\0\0\0".to_vec();
    bytes.extend([1u64, 1].map(u64::to_le_bytes).as_flattened());
    bytes.extend(11u64.to_le_bytes());
    bytes.extend(b"split.count\x02\0\0\0");
    bytes.extend(split.to_le_bytes());
    bytes.extend(1u64.to_le_bytes());
    bytes.extend(b"w\x01\0\0\0");
    bytes.extend(2u64.to_le_bytes());
    bytes.extend([0; 4 + 8]);
    bytes.resize(bytes.len().next_multiple_of(32), 0);
    bytes.extend([1, 2, 3, 4, 5, 6, 7, 8]);
    bytes
}

fn folder(gguf: &[u8]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("in.gguf"), gguf).unwrap();
    folder
}

fn hk(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_hk"))
        .arg("convert")
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Checks that the command fails with `code`, says `words`, and leaves no more than the
/// files `left`.
#[track_caller]
fn fails(folder: &Path, arguments: &[&str], code: i32, words: &str, left: &[&str]) {
    let output = hk(folder, arguments);
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{message}");
    assert!(message.contains(words), "no {words:?} in: {message}");
    assert_eq!(text(&output.stdout), "");
    let mut names: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, left);
}

#[test]
fn it_says_what_it_wrote() {
    let folder = folder(&gguf(1));
    let output = hk(folder.path(), &["in.gguf", "out.hk", "--alignment", "4096"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let said = text(&output.stdout);
    assert!(said.starts_with("out.hk: 1 tensor, 2 metadata pairs, 20.0 KiB in "), "{said}");
    assert_eq!(text(&output.stderr), "", "a progress bar is for terminals");
    let model = ModelFile::open(folder.path().join("out.hk")).unwrap();
    let tensor = model.tensor("w").unwrap();
    assert_eq!((tensor.data(), tensor.data.offset), (&[1, 2, 3, 4, 5, 6, 7, 8][..], 20480));
    let args = ["in.gguf", "out.hk", "--alignment", "4096", "--metadata-room", "0", "--force"];
    assert!(hk(folder.path(), &args).status.success());
    let model = ModelFile::open(folder.path().join("out.hk")).unwrap();
    assert_eq!(model.tensor("w").unwrap().data.offset, 4096);
}

#[test]
fn a_part_of_a_split_model_is_noted() {
    let folder = folder(&gguf(3));
    let output = hk(folder.path(), &["in.gguf", "out.hk"]);
    assert!(output.status.success());
    assert!(text(&output.stderr).contains("one of 3 files"), "{}", text(&output.stderr));
}

#[test]
fn an_output_that_exists_is_replaced_by_force_only() {
    let folder = folder(&gguf(1));
    let out = folder.path().join("out.hk");
    std::fs::write(&out, "old").unwrap();
    let both = ["in.gguf", "out.hk"];
    fails(folder.path(), &both, 1, "--force", &both);
    assert_eq!(std::fs::read(&out).unwrap(), b"old");
    assert!(hk(folder.path(), &["in.gguf", "out.hk", "--force"]).status.success());
    ModelFile::open(&out).unwrap();
    let onto_itself = ["in.gguf", "./in.gguf", "--force"];
    fails(folder.path(), &onto_itself, 1, "the same file", &both);
    assert_eq!(std::fs::read(folder.path().join("in.gguf")).unwrap(), gguf(1));
}

#[cfg(unix)]
#[test]
fn links_to_the_input_are_the_input() {
    let folder = folder(&gguf(1));
    std::os::unix::fs::symlink("in.gguf", folder.path().join("link.hk")).unwrap();
    let left = ["in.gguf", "link.hk"];
    fails(folder.path(), &["in.gguf", "link.hk", "--force"], 1, "the same file", &left);
    assert_eq!(std::fs::read(folder.path().join("in.gguf")).unwrap(), gguf(1));
}

#[test]
fn what_cannot_be_converted_leaves_nothing() {
    let folder = folder(b"not a model");
    let arguments = ["in.gguf", "out.hk"];
    fails(folder.path(), &arguments, 1, "in.gguf: not a GGUF file", &["in.gguf"]);
    let cut = &gguf(1)[..gguf(1).len() - 1];
    std::fs::write(folder.path().join("in.gguf"), cut).unwrap();
    fails(folder.path(), &arguments, 1, "tensor \"w\"", &["in.gguf"]);
    fails(folder.path(), &["none.gguf", "out.hk"], 1, "none.gguf", &["in.gguf"]);
    fails(folder.path(), &[".", "out.hk"], 1, "not a regular file", &["in.gguf"]);
    fails(folder.path(), &["in.gguf", "no/out.hk"], 1, "", &["in.gguf"]);
}

#[test]
fn wrong_usage_exits_with_2() {
    let folder = folder(&gguf(1));
    for arguments in [
        &["in.gguf"][..],
        &["in.gguf", "out.hk", "more"],
        &["in.gguf", "out.hk", "--alignment", "0"],
        &["in.gguf", "out.hk", "--alignment", "65537"],
        &["in.gguf", "out.hk", "--alignment", "page"],
    ] {
        fails(folder.path(), arguments, 2, "--help", &["in.gguf"]);
    }
}
