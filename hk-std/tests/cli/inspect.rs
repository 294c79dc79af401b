//! `hk inspect`.

use super::*;

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
    assert!(has_line(&out, "2 3 code_eval eval humaneval 11 1152"), "{out}");
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
