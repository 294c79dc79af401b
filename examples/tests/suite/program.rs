//! The program `generate` as a user runs it.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use hk_core::Value;

use crate::model_file::{self, Copy};

/// The program; cargo builds it along with these tests, unless it was told to build only
/// the tests.
fn program() -> Command {
    let tests = std::env::current_exe().unwrap();
    let profile = tests.parent().unwrap().parent().unwrap();
    let program: PathBuf =
        profile.join("examples").join(format!("generate{}", std::env::consts::EXE_SUFFIX));
    assert!(program.is_file(), "{} is not built: cargo build --examples", program.display());
    Command::new(program)
}

fn run(arguments: &[&str]) -> Output {
    program().args(arguments).output().unwrap()
}

/// Standard output of a run that goes well, and standard error.
fn said(arguments: &[&str]) -> (String, String) {
    let output = run(arguments);
    let (out, err) = texts(&output);
    assert!(output.status.success(), "{err}");
    (out, err)
}

fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (text(&output.stdout), text(&output.stderr))
}

/// Standard error of a run that fails with `code`.
fn refused(arguments: &[&str], code: i32) -> String {
    let output = run(arguments);
    assert_eq!(output.status.code(), Some(code));
    assert_eq!(output.stdout, b"");
    texts(&output).1
}

#[test]
fn without_arguments_it_tells_a_whole_story() {
    let (story, statistics) = said(&[]);
    assert!(story.starts_with("Once upon a time, there was a "), "{story}");
    assert!(story.ends_with(".\n"), "{story}");
    assert!(story.split_whitespace().count() > 60, "{story}");
    assert!(!story.contains("<|end|>"), "{story}");
    for part in ["stories.hk: loaded in", "prompt 9 tokens in", "a second)"] {
        assert!(statistics.contains(part), "{statistics}");
    }
    assert_eq!(said(&[]).0, story);
}

#[test]
fn it_stops_when_asked_to() {
    let (text, statistics) = said(&["--prompt", "One day, Tim", "-n", "2"]);
    assert!(text.starts_with("One day, Tim") && text.len() > 12, "{text:?}");
    assert!(statistics.contains("stopped after 2 tokens"), "{statistics}");
    let (text, _) = said(&["--prompt", "é 🦀", "-n", "0"]);
    assert_eq!(text, "é 🦀\n");
}

#[test]
fn a_full_context_ends_the_text_with_a_word() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("short.hk");
    let file = model_file::read();
    let copy = Copy::of(&file).set("llama.context_length", Value::Int64(20));
    std::fs::write(&path, copy.build()).unwrap();
    let path = path.to_str().unwrap();
    let (text, statistics) = said(&["--model", path]);
    assert!(said(&[]).0.starts_with(text.trim_end()), "{text}");
    assert!(statistics.contains("the context of this model is full"), "{statistics}");
    assert!(statistics.contains("text 11 tokens"), "{statistics}");
    let error = refused(&["--model", path, "--prompt", &"fox ".repeat(20)], 1);
    assert!(error.contains("the context of this model holds 20"), "{error}");
}

#[test]
fn neither_threads_nor_a_context_that_is_long_enough_change_the_text() {
    let story = said(&[]).0;
    for threads in ["1", "2", "5"] {
        let (text, statistics) = said(&["--threads", threads, "--context", "230"]);
        assert_eq!(text, story);
        assert!(statistics.contains(" MB for 217 tokens"), "{statistics}");
    }
    let (text, statistics) = said(&["--context", "12"]);
    assert!(story.starts_with(text.trim_end()) && text.len() < 60, "{text}");
    assert!(statistics.contains("the context of this model is full, at 12"), "{statistics}");
    for option in ["--threads", "--context"] {
        assert!(refused(&[option, "0"], 2).contains(option));
    }
}

#[test]
fn a_gguf_file_is_told_how_to_become_one_of_ours() {
    let gguf = model_file::demo("stories-q8_0.gguf");
    let error = refused(&["--model", gguf.to_str().unwrap()], 1);
    assert!(error.contains("is a GGUF file") && error.contains("hk convert"), "{error}");
}

#[test]
fn what_cannot_be_read_is_named() {
    let error = refused(&["--model", "no-such-file.hk"], 1);
    assert!(error.starts_with("generate: ") && error.contains("no-such-file.hk"), "{error}");
    let this = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let error = refused(&["--model", this], 1);
    assert!(error.contains("Cargo.toml") && error.contains("not an HK file"), "{error}");
    let error = refused(&["-n", "many"], 2);
    assert!(error.contains("many"), "{error}");
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let mut child = program().stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", texts(&output).1);
}
