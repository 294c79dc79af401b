//! The program `hk`: what it prints, writes and returns.

mod appendix;
mod bench;
mod dequantize;
mod inspect;
mod metadata;
mod rewrite;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use hk_std::hk_core::StorageType;
use hk_std::{TensorSpec, Writer};
use serde_json::Value;

fn hk(args: &[&str]) -> Output {
    hk_with(args, &[])
}

fn hk_with(args: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hk"));
    command.args(args).env_remove("HK_KERNELS").envs(variables.iter().copied());
    command.stdin(Stdio::null()).output().expect("the program runs")
}

/// Standard output of a run that went well and had nothing to say on standard error.
#[track_caller]
fn good(args: &[&str]) -> String {
    let output = hk(args);
    let (out, err) = texts(&output);
    assert!(output.status.success() && err.is_empty(), "{args:?}: {err}");
    out
}

#[track_caller]
fn good_json(args: &[&str]) -> Value {
    serde_json::from_str(&good(args)).expect("JSON")
}

/// Standard error of a run that ended with `code` and wrote nothing.
#[track_caller]
fn bad(args: &[&str], code: i32) -> String {
    let output = hk(args);
    let (out, err) = texts(&output);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {out}{err}");
    assert!(out.is_empty(), "{args:?}: {out}");
    err
}

fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
    (text(&output.stdout), text(&output.stderr))
}

fn reference(name: &str) -> String {
    format!("{}/../tests/data/reference/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn vector(name: &str) -> Vec<u8> {
    let path = format!("{}/../tests/data/vectors/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(path).expect("a vector")
}

/// A line of the output, its runs of spaces made one.
fn has_line(out: &str, wanted: &str) -> bool {
    out.lines().any(|line| line.split_whitespace().collect::<Vec<_>>().join(" ") == wanted)
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

/// A folder of its own with a file in it.
fn folder_with(name: &str, bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).expect("a file");
    (folder, path)
}

/// A file of `names.len()` tensors without bytes and one metadata pair.
fn file_of(names: &[&str], key: &str, value: &[u8]) -> Vec<u8> {
    let mut metadata = Vec::new();
    metadata.extend((key.len() as u16).to_le_bytes());
    metadata.extend(key.as_bytes());
    metadata.push(1);
    metadata.extend((value.len() as u32).to_le_bytes());
    metadata.extend(value);
    let mut toc = Vec::new();
    for name in names {
        toc.extend((name.len() as u16).to_le_bytes());
        toc.extend(name.as_bytes());
        toc.extend([0x30, 0, 0, 1, 4, 0, 0, 0, 0, 0, 0, 0]);
        toc.extend([0; 54]);
    }
    let mut file = b"HKNT\x01\0\0\0\x11\0\0\0\x80\0\0\0".to_vec();
    let sizes = [metadata.len() as u64, 128 + metadata.len() as u64, toc.len() as u64];
    let [metadata_size, toc_at, toc_size] = sizes;
    for field in [names.len() as u64, 1, 128, metadata_size, toc_at, toc_size] {
        file.extend(field.to_le_bytes());
    }
    file.resize(128, 0);
    file.extend(metadata);
    file.extend(toc);
    file
}

#[test]
fn help_says_how() {
    for command in ["inspect", "dequantize", "verify", "kernels", "bench"] {
        let help = good(&[command, "--help"]);
        assert!(help.contains("Examples:") && help.contains(&format!("hk {command}")), "{help}");
    }
    let help = good(&["--help"]);
    assert!(help.contains("Exit status: 0 done, 1 failed, 2 wrong usage"), "{help}");
    assert!(good(&["--version"]).starts_with("hk "));
    assert!(bad(&[], 2).contains("Usage: hk"));
    assert!(bad(&["frobnicate"], 2).contains("frobnicate"));
    assert!(bad(&["inspect"], 2).contains("<FILE>"));
}

#[test]
fn a_closed_pipe_is_no_error() {
    let names: Vec<String> = (0..10_000).map(|i| format!("blk.{i}.weight")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let (_folder, path) = folder_with("many.hk", &file_of(&names, "k", b"v"));
    let all = good(&["inspect", text(&path)]);
    assert!(all.lines().count() > 10_000);
    for more in [&["--json"][..], &[]] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_hk"))
            .args(["inspect", text(&path)])
            .args(more)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program runs");
        let mut out = child.stdout.take().expect("a pipe");
        out.read_exact(&mut [0; 10]).expect("a beginning");
        drop(out);
        let output = child.wait_with_output().expect("an end");
        assert_eq!(texts(&output).1, "");
        assert_eq!(output.status.code(), Some(0));
    }
}

#[test]
fn files_that_are_none() {
    let (folder, gguf) = folder_with("model.gguf", b"GGUF\x03\0\0\0");
    for command in [&["inspect"][..], &["verify"]] {
        let run = |path: &str| hk(&[command, &[path]].concat());
        let check = |path: &str, words: &str| {
            let output = run(path);
            let (out, err) = texts(&output);
            assert_eq!(output.status.code(), Some(1), "{path}");
            assert!(format!("{out}{err}").contains(words), "{path}: {out}{err}");
        };
        check(text(&gguf), "hk convert");
        check(text(folder.path()), "directory");
        check("no/such/file.hk", "cannot open");
    }
    let damaged = std::fs::read(reference("ref_128.hk")).expect("the file");
    let (_folder, path) = folder_with("cut.hk", &damaged[..600]);
    let err = bad(&["inspect", text(&path)], 1);
    assert!(err.contains("hk verify"), "{err}");
}

#[test]
fn verify_is_content_with_the_reference_files() {
    for entry in std::fs::read_dir(reference("")).expect("the folder") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|extension| extension == "hk") {
            let out = good(&["verify", text(&path)]);
            assert!(
                out.lines().last().is_some_and(|line| line.contains(": sound, 0 faults")),
                "{out}"
            );
        }
    }
    let out = good(&["verify", &reference("ref_edited_eof.hk")]);
    assert!(out.starts_with("note: file, byte 128: 58 bytes of 128..211"), "{out}");
}

#[test]
fn verify_says_what_is_wrong_and_fails() {
    let mut file = std::fs::read(reference("all_types.hk")).expect("the file");
    file[330 + 2 + 4 + 4] = 0xFF; // "q4_0", first dimension
    let (_folder, path) = folder_with("bad.hk", &file);
    let output = hk(&["verify", text(&path)]);
    let (out, err) = texts(&output);
    assert_eq!((output.status.code(), err.as_str()), (Some(1), ""));
    let line = "fault: payload, byte 5248, tensor \"q4_0\": data of 1152 bytes where type and shape need 1296";
    assert!(out.contains(line), "{out}");
    assert!(out.trim_end().ends_with("NOT sound, 1 fault, 0 notes"), "{out}");
    let output = hk(&["verify", text(&path), "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&json["sound"], &json["faults"]), (&Value::Bool(false), &Value::from(1)));
    assert_eq!(json["findings"][0]["severity"], "fault");
    assert_eq!(json["findings"][0]["section"], "payload");
    assert_eq!(json["findings"][0]["offset"], 5248);
    assert_eq!(json["findings"][0]["name"], "q4_0");
}

#[test]
fn kernels_lists_and_obeys() {
    let out = good(&["kernels"]);
    assert!(out.contains(std::env::consts::ARCH) && out.contains("portable"), "{out}");
    assert!(out.contains("chosen: the fastest this CPU can run"), "{out}");
    let forced = hk_with(&["kernels", "--json"], &[("HK_KERNELS", "portable")]);
    let json: Value = serde_json::from_slice(&forced.stdout).expect("JSON");
    assert_eq!((&json["chosen"], &json["chosen_by"]), (&"portable".into(), &"HK_KERNELS".into()));
    let usable = json["backends"].as_array().expect("an array").last().expect("a backend");
    assert_eq!(*usable, serde_json::json!({"name": "portable", "usable": true}));
    let json = good_json(&["kernels", "--json"]);
    assert_eq!(json["chosen_by"], "automatic");
    for command in [&["kernels"][..], &["dequantize", &reference("all_types.hk"), "f32"]] {
        let output = hk_with(command, &[("HK_KERNELS", "magic")]);
        let (out, err) = texts(&output);
        assert_eq!(output.status.code(), Some(1));
        // The list is told all the same: it is what the person asked for.
        assert_eq!(out.contains("portable"), command == ["kernels"], "{out}");
        assert!(!out.contains("chosen"), "{out}");
        assert!(err.contains("\"magic\"") && err.contains("portable"), "{err}");
    }
}

#[cfg(unix)]
#[test]
fn an_interruption_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let (model, out) = (folder.path().join("zeros.hk"), folder.path().join("out"));
    let mut writer = Writer::new();
    // Far more zeros than can be written before the signal comes.
    writer.tensor(TensorSpec::new("zeros", StorageType::NULL_REF, &[1 << 36])).unwrap();
    writer.write(&model, |_, _| Ok(std::io::empty())).unwrap();
    let mut hk = Command::new(env!("CARGO_BIN_EXE_hk"))
        .args(["dequantize", model.to_str().unwrap(), "zeros", "-o", out.to_str().unwrap()])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let files = || std::fs::read_dir(folder.path()).unwrap().count();
    while files() < 2 {
        assert!(hk.try_wait().unwrap().is_none(), "it ended before it wrote anything");
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    let kill = Command::new("kill").args(["-INT", &hk.id().to_string()]).status().unwrap();
    assert!(kill.success());
    let output = hk.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "hk: stopped before the end; nothing was replaced\n"
    );
    assert_eq!(files(), 1, "only the model is left");
}

/// A copy of a file of the reference library that may be changed.
fn copy(name: &str) -> (tempfile::TempDir, String) {
    let (folder, path) = folder_with("model.hk", &std::fs::read(reference(name)).expect("a file"));
    (folder, text(&path).to_owned())
}
