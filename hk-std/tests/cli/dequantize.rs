//! `hk dequantize`.

use super::*;

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
