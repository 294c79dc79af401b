//! `hk bench`.

use serde_json::Value;

use super::{bad, good, good_json, hk_with, texts};

/// A run of `hk bench` that is as short as it can be.
const BENCH: [&str; 5] = ["bench", "--size", "small", "--time", "0"];

#[test]
fn json_has_the_fields_that_scripts_rely_on() {
    let only = ["--type", "q4_k,f16,q8_1", "--backend", "portable", "--threads", "2", "--json"];
    let json = good_json(&[&BENCH[..], &only].concat());
    let rows = json.as_array().expect("an array");
    let text = |row: &Value, key: &str| row[key].as_str().expect("a text").to_owned();
    let cases: Vec<_> = rows.iter().map(|row| (text(row, "type"), text(row, "op"))).collect();
    let expected = [
        ("f16", "dequantize"),
        ("f16", "dot"),
        ("f16", "prompt"),
        ("f16", "quantize"),
        ("q8_1", "dequantize"),
        ("q4_k", "dequantize"),
        ("q4_k", "dot"),
        ("q4_k", "prompt"),
        ("q4_k", "quantize"),
    ];
    assert_eq!(cases, expected.map(|(name, op)| (name.to_owned(), op.to_owned())));
    for row in rows {
        let keys: Vec<_> = row.as_object().expect("an object").keys().collect();
        assert_eq!(
            keys,
            ["op", "type", "backend", "threads", "weights", "gweights_per_s", "memset_ratio"]
        );
        assert_eq!((&row["backend"], &row["threads"]), (&"portable".into(), &2.into()));
        assert_eq!(row["weights"], 65_536);
        for key in ["gweights_per_s", "memset_ratio"] {
            assert!(row[key].as_f64().expect("a number") > 0.0, "{row}");
        }
    }
}

#[test]
fn a_table_has_a_row_a_type() {
    let out = good(&[&BENCH[..], &["--type", "q8_1,q4_0"]].concat());
    for name in ["q4_0", "q8_1", "memset"] {
        let row = |line: &&str| line.trim_start().starts_with(name);
        let row = out.lines().find(row).unwrap_or_else(|| panic!("{name} is not in {out}"));
        // Numbers, and dashes for what the type does not have.
        let cells: Vec<_> = row.split_whitespace().skip(1).collect();
        assert!(cells.len() >= 6, "{out}");
        assert!(cells.iter().all(|cell| *cell == "-" || cell.parse::<f64>().is_ok()), "{out}");
        assert_eq!(cells.contains(&"-"), name == "q8_1", "{out}");
    }
    for (there, word) in
        [(true, "dequantize"), (true, "prompt"), (true, "portable"), (false, "large")]
    {
        assert_eq!(out.contains(word), there, "{word}: {out}");
    }
    let forced = hk_with(
        &[&BENCH[..], &["--type", "bf16", "--op", "dot", "--json"]].concat(),
        &[("HK_KERNELS", "portable")],
    );
    let json: Value = serde_json::from_slice(&forced.stdout).expect("JSON");
    assert_eq!(json.as_array().map(Vec::len), Some(1));
    assert_eq!((&json[0]["backend"], &json[0]["op"]), (&"portable".into(), &"dot".into()));
}

#[test]
fn what_there_is_is_listed_for_what_there_is_not() {
    for (option, value, known) in [
        ("--type", "q4_9", "q4_0, q8_0"),
        ("--type", "shared_ref", "f32, f16"),
        ("--backend", "abacus", "portable"),
        ("--op", "add", "dequantize, dot, prompt, quantize"),
        ("--size", "huge", "small, large, all"),
        ("--threads", "0", "--threads"),
    ] {
        let err = bad(&["bench", option, value], 2);
        assert!(err.contains(value) && err.contains(known), "{err}");
    }
    let err = bad(&["bench", "--type", "q8_1", "--op", "dot,prompt"], 2);
    assert!(err.contains("none of the operations"), "{err}");
    let output = hk_with(&["bench"], &[("HK_KERNELS", "magic")]);
    let (out, err) = texts(&output);
    assert_eq!((output.status.code(), out.as_str()), (Some(1), ""));
    assert!(err.contains("HK_KERNELS") && err.contains("portable"), "{err}");
}
