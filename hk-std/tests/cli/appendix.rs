//! `hk appendix`.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use super::{bad, copy, good, good_json, hk, text, texts};

#[test]
fn records_are_appended_listed_extracted_and_taken_back() {
    let (folder, file) = copy("ref_128.hk");
    let before = fs::read(&file).unwrap();
    let payload = folder.path().join("payload");
    fs::write(&payload, [7; 1000]).unwrap();
    let append = ["appendix", "append", &file];
    let first = ["--type", "lora_adapter", "--name", "style", "--target", "t", "--loss", "-0.5"];
    let out = good(&[&append[..], &[text(&payload)], &first[..]].concat());
    assert_eq!(out, "record 0, generation 1: 1000 bytes\n");
    good(&[&append[..], &["--type", "code_eval", "--name", "empty", "--generation", "9"]].concat());
    let mut child = Command::new(env!("CARGO_BIN_EXE_hk"))
        .args([&append[..], &["-", "--type", "delta_patch", "--name", "piped"]].concat())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"from a pipe").unwrap();
    assert!(child.wait().unwrap().success());

    let list = good_json(&["appendix", "list", &file, "--json"]);
    let field = |name: &str| -> Vec<_> {
        list.as_array().unwrap().iter().map(|record| record[name].clone()).collect()
    };
    assert_eq!(field("name"), ["style", "empty", "piped"]);
    assert_eq!(field("generation"), [1, 9, 10]);
    assert_eq!(field("bytes"), [1000, 0, 11]);
    assert_eq!(list[0]["loss"], -0.5);
    assert!(good(&["appendix", "list", &file]).contains("lora_adapter"));
    let shown = good(&["appendix", "show", &file, "0"]);
    assert!(shown.contains("target       t\n") && shown.contains("crc32"), "{shown}");
    assert!(good(&["appendix", "verify", &file]).contains("3 records, 0 at fault"));
    good(&["verify", &file]);

    let out = folder.path().join("out");
    good(&["appendix", "extract", &file, "0", "-o", text(&out)]);
    assert_eq!(fs::read(&out).unwrap(), [7; 1000]);
    assert_eq!(good(&["appendix", "extract", &file, "2", "-o", "-"]), "from a pipe");
    assert!(bad(&["appendix", "extract", &file, "3", "-o", "-"], 1).contains("there are 3"));

    let said = good(&["appendix", "rollback", &file, "--generation", "9"]);
    assert!(said.starts_with("2 records kept"), "{said}");
    good(&["verify", &file]);
    good(&["appendix", "rollback", &file, "--generation", "0"]);
    let mut padded = before;
    padded.resize(padded.len().next_multiple_of(8), 0);
    assert_eq!(fs::read(&file).unwrap(), padded);
}

#[test]
fn files_that_the_reference_library_appended_to() {
    for name in ["ref_appendix.hk", "ref_appendix_rolled_back.hk"] {
        let (_folder, file) = copy(name);
        let before = good_json(&["appendix", "list", &file, "--json"]);
        assert!(good(&["appendix", "verify", &file]).contains(" 0 at fault"));
        good(&["appendix", "append", &file, "--type", "new_layer", "--name", "ours"]);
        let after = good_json(&["appendix", "list", &file, "--json"]);
        let (before, after) = (before.as_array().unwrap(), after.as_array().unwrap());
        assert_eq!(after[..before.len()], before[..], "{name}");
        assert_eq!(after.len(), before.len() + 1, "{name}");
        good(&["verify", &file]);
        assert!(good(&["appendix", "verify", &file]).contains(" 0 at fault"));
    }
}

#[test]
fn a_changed_record_is_found() {
    let (_folder, file) = copy("ref_128.hk");
    let append = |name| {
        let mut child = Command::new(env!("CARGO_BIN_EXE_hk"))
            .args(["appendix", "append", &file, "-", "--type", "kv_cache_sink", "--name", name])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(b"payload").unwrap();
        assert!(child.wait().unwrap().success());
    };
    append("first");
    append("second");
    let mut bytes = fs::read(&file).unwrap();
    let at = bytes.windows(7).position(|window| window == b"payload").unwrap();
    bytes[at] = b'P';
    fs::write(&file, &bytes).unwrap();
    let run = hk(&["appendix", "verify", &file]);
    let out = texts(&run).0;
    assert_eq!(run.status.code(), Some(1));
    assert!(out.contains("record 0: ") && out.contains("CRC-32"), "{out}");
    assert!(out.contains("record 1: ") && out.contains("parent_hash"), "{out}");
    assert!(bad(&["appendix", "extract", &file, "0", "-o", "-"], 1).contains("CRC-32"));
}

#[test]
fn wrong_usage() {
    let (_folder, file) = copy("ref_128.hk");
    bad(&["appendix", "append", &file, "--type", "adapter", "--name", "n"], 2);
    bad(&["appendix", "append", &file, "--type", "new_layer"], 2);
    bad(&["appendix", "rollback", &file], 2);
    let error =
        bad(&["appendix", "append", &file, "gone", "--type", "new_layer", "--name", "n"], 1);
    assert!(error.contains("cannot read gone"), "{error}");
}

/// Kills at any time of an append, with data that take a while to write.
#[cfg(unix)]
#[test]
fn a_program_that_is_killed_leaves_the_old_records_or_one_more() {
    use std::time::Instant;

    let (folder, file) = copy("ref_appendix.hk");
    let payload = folder.path().join("payload");
    fs::write(&payload, vec![1; 300_000]).unwrap();
    let args =
        ["appendix", "append", &file, text(&payload), "--type", "delta_patch", "--name", "n"];
    let count = || good_json(&["appendix", "list", &file, "--json"]).as_array().unwrap().len();
    let start = Instant::now();
    good(&args);
    let whole = start.elapsed();
    let (first, mut random, mut records) = (count(), 777_u32, count());
    for round in 0..250 {
        if round % 50 == 49 {
            good(&["seal", &file]);
        }
        let mut child = Command::new(env!("CARGO_BIN_EXE_hk"))
            .args(args)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        std::thread::sleep(whole * (random >> 24) / 160);
        child.kill().unwrap();
        child.wait().unwrap();
        good(&["repair", &file]);
        good(&["verify", &file]);
        let now = count();
        assert!(now == records || now == records + 1, "{records}, then {now}");
        records = now;
        if records > first + 4 {
            good(&["appendix", "rollback", &file, "--generation", "0"]);
            good(&args);
            records = count();
        }
    }
}
