//! `hk metadata`, `hk seal`, `hk unseal`, `hk repair`.

use std::fs;

use super::{bad, copy, good, good_json, hk, text, texts};

#[test]
fn values_of_every_type_are_set_and_got() {
    let (_folder, file) = copy("ref_4096_raw.hk");
    for (value, kind, found, printed) in [
        ("1.1.0", None, "string", "1.1.0"),
        ("-12", None, "int64", "-12"),
        ("1e3", None, "float64", "1000.0"),
        ("true", None, "bool", "true"),
        ("{\"a\": [1, 2]}", None, "json", "{\"a\": [1, 2]}"),
        ("[1,", None, "string", "[1,"),
        ("12", Some("string"), "string", "12"),
        ("12", Some("float64"), "float64", "12.0"),
        ("00ff7E", Some("bytes"), "bytes", "00ff7e"),
        ("[]", Some("json"), "json", "[]"),
        ("", None, "string", ""),
    ] {
        let kind: Vec<&str> = kind.iter().flat_map(|kind| ["--type", *kind]).collect();
        assert_eq!(good(&[&["metadata", "set", &file, "new.key", value], &kind[..]].concat()), "");
        let list = good_json(&["metadata", "list", &file, "--json"]);
        assert_eq!(list["new.key"]["type"], found, "{value}");
        assert_eq!(good(&["metadata", "get", &file, "new.key"]), format!("{printed}\n"));
        good(&["verify", &file]);
    }
    good(&["metadata", "unset", &file, "new.key"]);
    let error = bad(&["metadata", "get", &file, "new.key"], 1);
    assert!(error.contains("no metadata key \"new.key\"") && error.contains("list"), "{error}");
}

#[test]
fn a_value_comes_from_a_file() {
    let (folder, file) = copy("ref_4096_raw.hk");
    let template = folder.path().join("template.jinja");
    fs::write(&template, "{% for m in messages %}\n{{ m }}\n").unwrap();
    good(&["metadata", "set", &file, "chat", "--from", text(&template)]);
    assert_eq!(good(&["metadata", "get", &file, "chat"]), "{% for m in messages %}\n{{ m }}\n\n");
}

#[test]
fn wrong_values_change_nothing() {
    let (_folder, file) = copy("ref_4096_raw.hk");
    let before = fs::read(&file).unwrap();
    for (value, kind) in
        [("x", "int64"), ("x", "float64"), ("1", "bool"), ("[1", "json"), ("0", "bytes")]
    {
        let error = bad(&["metadata", "set", &file, "k", value, "--type", kind], 1);
        assert!(error.contains(&format!("not of type {kind}")), "{error}");
    }
    bad(&["metadata", "set", &file, "k"], 2);
    bad(&["metadata", "set", &file, "k", "v", "--type", "text"], 2);
    let error = bad(&["metadata", "unset", &file, "general.name", "nothing"], 1);
    assert!(error.contains("no metadata key \"nothing\""), "{error}");
    assert_eq!(fs::read(&file).unwrap(), before);
}

#[test]
fn files_that_the_reference_library_edited_are_edited_again() {
    for name in ["ref_edited.hk", "ref_edited_eof.hk"] {
        let (_folder, file) = copy(name);
        let before = hk_std::ModelFile::read(&file).unwrap();
        let run = hk(&["metadata", "set", &file, "again", &"long ".repeat(200)]);
        assert!(run.status.success(), "{name}: {}", texts(&run).1);
        let after = hk_std::ModelFile::read(&file).unwrap();
        for (old, new) in before.tensors().zip(after.tensors()) {
            assert_eq!((old.name, old.data()), (new.name, new.data()), "{name}");
        }
        assert_eq!(after.metadata().len(), before.metadata().len() + 1, "{name}");
        good(&["verify", &file]);
    }
}

#[test]
fn a_rewritten_file_has_room_for_metadata_to_grow() {
    let (folder, file) = copy("ref_128.hk");
    let output = text(&folder.path().join("out.hk")).to_owned();
    let long = "x".repeat(16_000);
    for (room, place) in [("16384", "in front"), ("0", "at the end")] {
        let args =
            ["quantize", &file, &output, "--type", "f32", "--force", "--metadata-room", room];
        assert!(hk(&args).status.success());
        let run = hk(&["metadata", "set", &output, "long", &long]);
        let at_end = texts(&run).1.contains("at the end");
        assert_eq!((run.status.success(), at_end), (true, place == "at the end"), "{room}");
        good(&["verify", &output]);
    }
}

#[test]
fn metadata_that_grow_over_an_appendix_are_refused() {
    let (_folder, file) = copy("ref_appendix.hk");
    let before = fs::read(&file).unwrap();
    let error = bad(&["metadata", "set", &file, "long", &"x".repeat(5000)], 1);
    assert!(error.contains("MetadataExceedsPaddingWithAppendix"), "{error}");
    assert_eq!(fs::read(&file).unwrap(), before);
}

#[test]
fn a_sealed_file_stays_sealed() {
    let (_folder, file) = copy("ref_edited.hk");
    let first = good(&["seal", &file]);
    assert_eq!(first.trim().len(), 64);
    good(&["metadata", "set", &file, "a", "1"]);
    good(&["verify", &file]);
    assert_ne!(good(&["seal", &file]), first);

    let mut bytes = fs::read(&file).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&file, &bytes).unwrap();
    let error = bad(&["metadata", "set", &file, "a", "2"], 1);
    assert!(error.contains("seal is broken"), "{error}");
    bad(&["seal", &file], 1);
    good(&["metadata", "set", &file, "a", "2", "--force"]);
    good(&["verify", &file]);
    good(&["unseal", &file]);
    good(&["verify", &file]);
    let run = hk(&["unseal", &file]);
    assert!(run.status.success() && texts(&run).1.contains("not sealed"));
}

#[test]
fn a_second_editor_is_refused() {
    let (_folder, file) = copy("ref_edited.hk");
    let editor = hk_std::edit::Editor::open(&file, Default::default()).unwrap();
    let error = bad(&["metadata", "set", &file, "a", "1"], 1);
    assert!(error.contains("another program is editing"), "{error}");
    drop(editor);
    good(&["metadata", "set", &file, "a", "1"]);
}

#[test]
fn repair_says_what_it_does() {
    let (_folder, file) = copy("ref_edited.hk");
    let out = good(&["repair", &file]);
    assert!(out.contains("nothing to do"), "{out}");
    let journal = format!("{file}.journal");
    fs::write(&journal, "half a jour").unwrap();
    let out = good(&["repair", &file, "--dry-run"]);
    assert!(out.contains("--dry-run") && fs::exists(&journal).unwrap(), "{out}");
    let out = good(&["repair", &file]);
    assert!(out.contains("before it touched the file") && !fs::exists(&journal).unwrap(), "{out}");
}

/// Kills are what crash tests on a disk in memory cannot show: that the system's calls do what
/// the tests think.
#[cfg(unix)]
#[test]
fn a_program_that_is_killed_leaves_the_old_file_or_the_new_one() {
    use std::process::{Command, Stdio};
    use std::time::Instant;

    let (_folder, file) = copy("ref_edited.hk");
    good(&["seal", &file]);
    let value = |round: u32| format!("{round} {}", "v".repeat(round as usize % 50));
    // How long a whole edit takes, so that kills come at any time of one, and a little after.
    let start = Instant::now();
    good(&["metadata", "set", &file, "round", "none"]);
    let whole = start.elapsed();
    let (mut current, mut random) = ("none".to_owned(), 12345_u32);
    let mut finished = 0;
    for round in 0..250 {
        let value = value(round);
        let mut child = Command::new(env!("CARGO_BIN_EXE_hk"))
            .args(["metadata", "set", &file, "round", &value])
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        std::thread::sleep(whole * (random >> 24) / 160);
        child.kill().unwrap();
        child.wait().unwrap();
        let run = hk(&["repair", &file]);
        assert!(run.status.success(), "{}", texts(&run).1);
        let run = hk(&["metadata", "get", &file, "round"]);
        let found = texts(&run).0.trim_end().to_owned();
        assert!(found == current || found == value.trim_end(), "{found:?} after {current:?}");
        finished += u32::from(found != current);
        current = found;
        good(&["verify", &file]);
    }
    assert!(finished > 0, "every edit was killed before it was done");
}
