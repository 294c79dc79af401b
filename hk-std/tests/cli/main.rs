//! The program `hk`: what it prints, writes and returns.

mod bench;
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
fn inspect_lists_all_there_is() {
    let out = good(&["inspect", &reference("all_types.hk")]);
    for line in [
        "flags LITTLE_ENDIAN TILE_ALIGNED",
        "alignment 128 bytes",
        "metadata 8 pairs, 202 bytes at 128",
        "contents 65 tensors, 4896 bytes at 330",
        "answer int64 -42",
        "list json [1, 2, {\"a\": null}]",
        "blob bytes 7 bytes: 00010203040506",
        "tokens bytes 3 strings: [\"hi\", \"\", \"wörld\"]",
        "q6_k q6_k 2048 1680 19328 6.562",
        "tile_16x8 f32 50 x 70 18432 273920 42.130 tile_16x8",
        "dq4_b31 dq4 500 258 201344 37.216 blocks of 31, scales 68 at 201728, residual 2000 at 201856",
        "tied shared_ref 512 2048 169856 32.000",
        "iq4_nl 2 2368 1352 1.3 KiB 4.568",
        "shared_ref 1 512 0 0 B 0.000",
        "total 65 161326 361406 352.9 KiB 17.922",
    ] {
        assert!(has_line(&out, line), "{line} is not in {out}");
    }
    let out = good(&["inspect", &reference("ref_65536.hk")]);
    assert!(has_line(&out, "alignment 65536 bytes"), "{out}");
    let out = good(&["inspect", &reference("ref-00002-of-00002.hk")]);
    assert!(has_line(&out, "shard index 1 of 2"), "{out}");
    let out = good(&["inspect", &reference("ref_appendix.hk")]);
    assert!(has_line(&out, "3 code_eval eval humaneval 11 1152"), "{out}");
    let (_folder, path) = folder_with("a.hk", &{
        let mut file = file_of(&["a"], "k", b"v");
        file[11] = 0x80;
        file
    });
    let out = good(&["inspect", text(&path)]);
    assert!(has_line(&out, "flags LITTLE_ENDIAN TILE_ALIGNED unknown 0x80000000"), "{out}");
}

#[test]
fn inspect_json_has_the_fields_that_scripts_rely_on() {
    let json = good_json(&["inspect", &reference("all_types.hk"), "--json"]);
    let keys: Vec<_> = json.as_object().expect("an object").keys().collect();
    assert_eq!(keys, ["header", "metadata", "tensors"]);
    assert_eq!(json["header"]["alignment"], 128);
    assert_eq!(json["header"]["tensor_toc_offset"], 330);
    assert_eq!(json["metadata"]["answer"], serde_json::json!({"type": "int64", "value": -42}));
    assert_eq!(json["metadata"]["pi"]["value"], 3.25);
    assert_eq!(json["metadata"]["flag"]["value"], true);
    assert_eq!(json["metadata"]["list"]["value"], serde_json::json!([1, 2, {"a": null}]));
    assert_eq!(json["metadata"]["blob"]["value"], "00010203040506");
    assert_eq!(json["metadata"]["tokens"]["value"], serde_json::json!(["hi", "", "wörld"]));
    assert_eq!(json["metadata"]["nums"]["value"], serde_json::json!([-1, 7]));
    let tensors = json["tensors"].as_array().expect("an array");
    assert_eq!(tensors.len(), 65);
    let tensor = |name: &str| tensors.iter().find(|t| t["name"] == name).expect("a tensor");
    let expected = serde_json::json!({
        "name": "dq4_b31", "type": "dq4", "shape": [500],
        "tile_layout": "row_major", "sparsity": "none",
        "data": {"offset": 201344, "size": 258},
        "scales": {"offset": 201728, "size": 68},
        "residual": {"offset": 201856, "size": 2000},
        "block_size": 31, "sparsity_ratio": 0.0,
    });
    assert_eq!(*tensor("dq4_b31"), expected);
    assert_eq!(tensor("bsr_4x4")["sparsity"], "csr");
    assert_eq!(tensor("col_major")["tile_layout"], "col_major");
    assert_eq!(tensor("f32")["scales"], serde_json::json!({"offset": 0, "size": 0}));
    let sealed = good_json(&["inspect", &reference("ref_65536.hk"), "--json"]);
    assert_eq!(sealed["header"]["alignment"], 65536);
    assert_eq!(sealed["header"]["checksum"], 0x485e_8a0d_56fd_f375_u64);
    assert_eq!(sealed["header"]["flag_names"][3], "SEALED");
}

#[test]
fn inspect_gives_the_first_of_two_equal_keys() {
    let mut file = file_of(&[], "k", b"first");
    let twice = [&file[128..], &file[128..]].concat();
    let size = twice.len() as u64;
    file.truncate(128);
    file.extend(twice);
    file[149..154].copy_from_slice(b"later");
    for (at, value) in [(0x18, 2), (0x28, size), (0x30, 128 + size)] {
        file[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }
    let (_folder, path) = folder_with("twice.hk", &file);
    let json = good_json(&["inspect", text(&path), "--json"]);
    assert_eq!(json["metadata"].as_object().map(|map| map.len()), Some(1));
    assert_eq!(json["metadata"]["k"]["value"], "first");
}

#[test]
fn names_from_a_file_cannot_write_on_the_screen() {
    let bytes = file_of(&["\x1b[2Jname", "two\nlines"], "key\r", "\x1b]0;title\x07".as_bytes());
    let (_folder, path) = folder_with("hostile.hk", &bytes);
    let out = good(&["inspect", text(&path)]);
    assert!(out.chars().all(|c| c == '\n' || !c.is_control()), "{out:?}");
    assert!(out.contains("\\u{1b}[2Jname") && out.contains("two\\nlines"), "{out}");
    let json = good_json(&["inspect", text(&path), "--json"]);
    assert_eq!(json["tensors"][1]["name"], "two\nlines");
    let err = bad(&["dequantize", text(&path), "nam", "-o", "/dev/null"], 1);
    assert!(err.trim_end().chars().all(|c| !c.is_control()), "{err:?}");
}

#[test]
fn long_values_are_shortened_but_whole_in_json() {
    let long = "word ".repeat(2000);
    let (_folder, path) = folder_with("long.hk", &file_of(&[], "text", long.as_bytes()));
    let out = good(&["inspect", text(&path)]);
    assert!(out.contains("… (10000 bytes)") && out.len() < 1000, "{out}");
    let json = good_json(&["inspect", text(&path), "--json"]);
    assert_eq!(json["metadata"]["text"]["value"], long);
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
fn dequantize_gives_the_exact_floats() {
    let file = reference("all_types.hk");
    for name in ["q4_0", "q6_k", "iq2_xs", "tq1_0", "mxfp4", "bf16", "fp8_e5m2"] {
        let output = hk(&["dequantize", &file, name]);
        assert!(output.status.success(), "{name}: {}", texts(&output).1);
        assert_eq!(output.stdout, vector(&format!("{name}.f32")), "{name}");
    }
    let whole = vector("q4_k.f32");
    for (range, bytes) in
        [("300..700", 1200..2800), ("2000..", 8000..8192), ("..3", 0..12), ("5..5", 0..0)]
    {
        let output = hk(&["dequantize", &file, "q4_k", "--range", range]);
        assert!(output.status.success());
        assert_eq!(output.stdout, whole[bytes], "{range}");
    }
    let tied = hk(&["dequantize", &file, "tied"]);
    assert_eq!(tied.stdout, hk(&["dequantize", &file, "f32"]).stdout);
    assert_eq!(hk(&["dequantize", &file, "nothing"]).stdout, [0; 80]);
}

#[test]
fn dequantize_decodes_every_form() {
    let file = reference("all_types.hk");
    for name in [
        "dq4_b31",
        "dq8",
        "dqt_b3",
        "split_iq4_nl",
        "split_mxfp4",
        "split_nvfp4",
        "bitmask",
        "sparse_2_4",
        "bsr_8x16_ragged",
        "csr_1x1",
        "tile_16x8",
        "col_major",
    ] {
        let output = hk(&["dequantize", &file, name]);
        assert!(output.status.success(), "{name}: {}", texts(&output).1);
        assert_eq!(output.stdout, vector(&format!("{name}.f32")), "{name}");
    }
    let whole = vector("dq8_b100.with_residual.f32");
    let output = hk(&["dequantize", &file, "dq8_b100", "--with-residual"]);
    assert!(output.stdout == whole && output.stderr.is_empty());
    let args = ["dequantize", &file, "dq8_b100", "--with-residual", "--range", "99..301"];
    assert!(hk(&args).stdout == whole[396..1204]);
    let output = hk(&["dequantize", &file, "q4_0", "--with-residual"]);
    assert_eq!(output.stdout, vector("q4_0.f32"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("has no residual"), "{said}");
    bad(&["dequantize", &file, "dq8", "--raw", "--with-residual"], 2);
}

#[test]
fn dequantize_raw_gives_the_stored_bytes() {
    let file = reference("all_types.hk");
    let stored = std::fs::read(&file).expect("the file");
    let output = hk(&["dequantize", &file, "q6_k", "--raw"]);
    assert_eq!(output.stdout, stored[19328..19328 + 1680]);
    assert_eq!(hk(&["dequantize", &file, "dq4", "--raw"]).stdout, stored[191_872..191_872 + 500]);
    let err = bad(&["dequantize", &file, "q6_k", "--raw", "--range", "0..4"], 2);
    assert!(err.contains("--range") && err.contains("--raw"), "{err}");
}

#[test]
fn dequantize_replaces_its_output_whole_or_not_at_all() {
    let file = reference("all_types.hk");
    let (folder, out) = folder_with("out.f32", b"what was there");
    let entries = || std::fs::read_dir(folder.path()).expect("the folder").count();
    for (tensor, range) in [("no such tensor", "0..1"), ("q4_0", "0..9999")] {
        bad(&["dequantize", &file, tensor, "--range", range, "-o", text(&out)], 1);
        assert_eq!(std::fs::read(&out).expect("the old file"), b"what was there");
    }
    // Too short for its shape: found when it is decoded.
    let mut short = std::fs::read(&file).expect("the file");
    short[330 + 2 + 4 + 4] = 0xFF; // "q4_0", first dimension
    let (_folder, short) = folder_with("short.hk", &short);
    let err = bad(&["dequantize", text(&short), "q4_0", "-o", text(&out)], 1);
    assert!(err.contains("tensor \"q4_0\"") && err.contains("where the shape needs"), "{err}");
    assert_eq!(std::fs::read(&out).expect("the old file"), b"what was there");
    good(&["dequantize", &file, "q4_0", "--output", text(&out)]);
    assert_eq!(std::fs::read(&out).expect("the new file"), vector("q4_0.f32"));
    assert_eq!(entries(), 1, "a temporary file is left");
    let err = bad(&["dequantize", &file, "q4_0", "-o", &file], 1);
    assert!(err.contains("is the model itself"), "{err}");
    let nowhere = folder.path().join("no/such/folder/out");
    assert!(bad(&["dequantize", &file, "q4_0", "-o", text(&nowhere)], 1).contains("cannot write"));
}

#[cfg(unix)]
#[test]
fn dequantize_keeps_links_and_modes_and_spares_devices() {
    use std::os::unix::fs::PermissionsExt;
    let file = reference("all_types.hk");
    let (folder, out) = folder_with("out.f32", b"old");
    std::fs::set_permissions(&out, std::fs::Permissions::from_mode(0o640)).expect("a mode");
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&out, &link).expect("a link");
    good(&["dequantize", &file, "q4_0", "-o", text(&link)]);
    assert!(link.is_symlink());
    assert_eq!(std::fs::read(&out).expect("the file"), vector("q4_0.f32"));
    let mode = std::fs::metadata(&out).expect("the file").permissions().mode();
    assert_eq!(mode & 0o777, 0o640);
    std::fs::remove_file(&out).expect("it is ours");
    let err = bad(&["dequantize", &file, "q4_0", "-o", text(&link)], 1);
    assert!(err.contains("cannot write"), "{err}");
    assert!(link.is_symlink() && !out.exists());
    good(&["dequantize", &file, "q4_0", "-o", "/dev/null"]);
    assert!(!std::fs::metadata("/dev/null").expect("the device").is_file());
}

/// A limit on processes, threads or memory leaves work to the one thread there is.
#[cfg(target_os = "linux")]
#[test]
fn dequantize_needs_no_threads() {
    let name = "zeros";
    let (folder, path) = folder_with("zeros.hk", b"");
    let mut writer = hk_std::Writer::new();
    let zeros = hk_std::TensorSpec::new(name, hk_std::hk_core::StorageType::NULL_REF, &[200_000]);
    writer.tensor(zeros).expect("a tensor");
    writer.write(&path, |_, _| Ok(&b""[..])).expect("a file");
    let out = folder.path().join("zeros.f32");
    // The stacks of so many threads pass the limit, whatever the program itself takes.
    let script = "ulimit -v 1000000; RAYON_NUM_THREADS=2000 exec \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh", env!("CARGO_BIN_EXE_hk"), "dequantize"]);
    let output = command.args([text(&path), name, "-o", text(&out)]).output().expect("a shell");
    assert!(output.status.success(), "{}", texts(&output).1);
    assert_eq!(std::fs::read(&out).expect("the weights"), vec![0; 800_000]);
}

#[test]
fn dequantize_explains_what_it_cannot_do() {
    let file = reference("all_types.hk");
    let err = bad(&["dequantize", &file, "q4_00"], 1);
    assert!(err.contains("no tensor called \"q4_00\"; did you mean \"q4_0\""), "{err}");
    let err = bad(&["dequantize", &file, "Q6_K"], 1);
    assert!(err.contains("did you mean \"q6_k\""), "{err}");
    let err = bad(&["dequantize", &file, "completely different"], 1);
    assert!(err.contains("hk inspect"), "{err}");
    let err = bad(&["dequantize", &file, "q4_0", "--range", "2000..2049"], 1);
    assert!(err.contains("elements 2000..2049 asked of a tensor of 2048"), "{err}");
    for range in ["7..3", "x", "1..y", "4"] {
        let err = bad(&["dequantize", &file, "q4_0", "--range", range], 2);
        assert!(err.contains("A..B"), "{err}");
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
