//! GGUF files become HK files: every tensor type, every metadata type, exact bytes, and a
//! refusal that says why for what cannot be taken over.

mod case;
mod hostile;
mod refused;

use std::ops::ControlFlow;

use case::{Case, converted};
use hk_core::build::pack_strings;
use hk_core::{Array, Value};
use hk_std::convert::gguf::{GgufType, Options, TYPES_KEY, ValueType, convert, narrow};
use hk_tests::data;
use hk_tests::gguf::{Gguf, Meta, TYPES};
use hk_tests::rng::Rng;
use proptest::prelude::*;
use serde_json::Value as Json;

/// A file with a tensor of each type, in which three dimensions and several blocks a row
/// occur.
fn all_types(alignment: usize) -> Gguf {
    let mut rng = Rng::new(1);
    let mut gguf = Gguf { alignment, pad_end: false, ..Gguf::default() };
    if alignment != 32 {
        gguf = gguf.pair("general.alignment", Meta::U32(alignment as u32));
    }
    for (id, weights, size, name) in TYPES {
        gguf = gguf.tensor(name, id, &[3 * weights, 5, 2], rng.bytes(3 * 5 * 2 * size));
    }
    gguf
}

#[test]
fn every_tensor_type_keeps_its_bytes_and_gets_its_shape_reversed() {
    for (from, to) in [(32, 128), (8, 1), (4096, 48), (65536, 65536)] {
        let gguf = all_types(from);
        let case = Case::new(&gguf.build().bytes);
        let model = case
            .convert(Options { alignment: to, overwrite: false, ..Options::default() })
            .unwrap();
        assert_eq!(model.hk().tensors().len(), TYPES.len());
        for ((_, weights, _, name), info) in TYPES.into_iter().zip(&gguf.tensors) {
            let tensor = model.tensor(name).unwrap();
            assert_eq!(tensor.storage.to_string(), name);
            assert_eq!(tensor.shape[..], [2, 5, 3 * weights]);
            assert!(tensor.data() == info.data, "{name}: other bytes");
            assert_eq!(tensor.data.offset % u64::from(to), 0);
            assert_eq!((tensor.block_size, tensor.scales.size, tensor.residual.size), (32, 0, 0));
        }
    }
}

#[test]
fn versions_scalars_and_empty_tensors() {
    let gguf = Gguf { version: 2, pad_end: false, ..Gguf::default() }
        .tensor("scalar", 0, &[], vec![1, 2, 3, 4])
        .tensor("empty", 8, &[0, 7], vec![])
        .tensor("row", 24, &[3], vec![5, 6, 7])
        // Stands after the padding, which is not there.
        .tensor("last", 0, &[2, 0], vec![]);
    let model = converted(&gguf);
    let shape = |name| model.tensor(name).unwrap().shape.to_vec();
    assert_eq!((shape("scalar"), shape("empty")), (vec![], vec![7, 0]));
    assert_eq!((shape("row"), shape("last")), (vec![3], vec![0, 2]));
    assert_eq!(model.tensor("scalar").unwrap().data(), [1, 2, 3, 4]);
    assert_eq!(model.tensor("row").unwrap().data(), [5, 6, 7]);
    assert!(model.tensor("last").unwrap().data().is_empty());
}

/// One pair of each kind, and strange ones.
fn all_metadata() -> Vec<(&'static str, Meta)> {
    let arrays = |kind, values: &[Meta]| Meta::Arr(kind, values.to_vec());
    vec![
        ("u8", Meta::U8(255)),
        ("i8", Meta::I8(-128)),
        ("u16", Meta::U16(65535)),
        ("i16", Meta::I16(-32768)),
        ("u32", Meta::U32(u32::MAX)),
        ("i32", Meta::I32(i32::MIN)),
        ("u64", Meta::U64(i64::MAX as u64)),
        ("i64", Meta::I64(i64::MIN)),
        ("f32", Meta::F32(0.1)),
        ("f32.nan", Meta::F32(f32::from_bits(0xFF80_0001))),
        ("f64", Meta::F64(0.1)),
        ("f64.exact", Meta::F64(0.5)),
        ("f64.nan", Meta::F64(f64::from_bits(0x7FF0_0000_0000_0001))),
        ("bool", Meta::Bool(1)),
        ("string", Meta::text("größe\0\"")),
        ("llama.block_count", Meta::U32(4)),
        ("llama.context_length", Meta::U64(4)),
        ("tokens", arrays(8, &[Meta::Str(vec![0xFF, 0]), Meta::text(""), Meta::text("ab")])),
        ("scores", arrays(6, &[Meta::F32(f32::NAN), Meta::F32(-0.0)])),
        ("types", arrays(5, &[Meta::I32(-1), Meta::I32(i32::MAX)])),
        ("bytes", arrays(0, &[Meta::U8(0), Meta::U8(255)])),
        ("bools", arrays(7, &[Meta::Bool(1), Meta::Bool(0)])),
        ("small", arrays(11, &[Meta::I64(-5)])),
        ("large", arrays(10, &[Meta::U64(7), Meta::U64(u64::MAX)])),
        ("doubles", arrays(12, &[Meta::F64(0.1), Meta::F64(f64::INFINITY), Meta::F64(-0.0)])),
        ("empty", arrays(3, &[])),
        ("nothing", arrays(9, &[])),
        ("nested", arrays(9, &[arrays(0, &[Meta::U8(1)]), arrays(0, &[])])),
        ("mixed", arrays(9, &[arrays(8, &[Meta::text("\u{1}\"")]), arrays(6, &[Meta::F32(0.1)])])),
    ]
}

#[test]
fn every_metadata_type_has_its_form() {
    let mut gguf = Gguf::default();
    for (key, value) in all_metadata() {
        gguf = gguf.pair(key, value);
    }
    let model = converted(&gguf);
    let get = |key| model.hk().metadata().get(key).unwrap();
    for (key, number) in [
        ("u8", 255),
        ("i8", -128),
        ("u16", 65535),
        ("i16", -32768),
        ("u32", u32::MAX.into()),
        ("i32", i32::MIN.into()),
        ("u64", i64::MAX),
        ("i64", i64::MIN),
    ] {
        assert_eq!(get(key), Value::Int64(number), "{key}");
    }
    assert_eq!(get("f32"), Value::Float64(f64::from(0.1f32)));
    assert_eq!(get("f64"), Value::Float64(0.1));
    assert_eq!(get("bool"), Value::Bool(true));
    assert_eq!(get("string"), Value::String("größe\0\""));
    let packed = pack_strings([&[0xFF, 0][..], b"", b"ab"]).unwrap();
    assert_eq!(get("tokens"), Value::Bytes(&packed));
    let Ok(Array::F32(scores)) = get("scores").array() else { panic!() };
    assert!(scores.iter().map(f32::to_bits).eq([f32::NAN, -0.0].map(f32::to_bits)));
    for (key, numbers) in [
        ("types", &[-1, i32::MAX][..]),
        ("bytes", &[0, 255]),
        ("bools", &[1, 0]),
        ("small", &[-5]),
        ("empty", &[]),
    ] {
        let Ok(Array::I32(found)) = get(key).array() else { panic!("{key}") };
        assert!(found.iter().eq(numbers.iter().copied()), "{key}");
    }
    assert_eq!(get("large"), Value::Json("[7,18446744073709551615]"));
    assert_eq!(get("doubles"), Value::Json(r#"[0.1,"Infinity",-0.0]"#));
    assert_eq!(get("nothing"), Value::Json("[]"));
    assert_eq!(get("nested"), Value::Json("[[1],[]]"));
    assert_eq!(get("mixed"), Value::Json(r#"[["\u0001\""],[0.10000000149011612]]"#));
    assert_eq!(
        get(TYPES_KEY),
        Value::Json(concat!(
            r#"{"u8":"UINT8","i8":"INT8","u16":"UINT16","i16":"INT16","u32":"UINT32","#,
            r#""i32":"INT32","u64":"UINT64","f64.exact":"FLOAT64","#,
            r#""llama.context_length":"UINT64","bytes":["ARRAY","UINT8"],"#,
            r#""bools":["ARRAY","BOOL"],"small":["ARRAY","INT64"],"large":["ARRAY","UINT64"],"#,
            r#""doubles":["ARRAY","FLOAT64"],"empty":["ARRAY","INT16"],"#,
            r#""nothing":["ARRAY","ARRAY"],"nested":["ARRAY",["ARRAY","UINT8"]],"#,
            r#""mixed":["ARRAY",{"each":[["ARRAY","STRING"],["ARRAY","FLOAT32"]]}]}"#,
        ))
    );
}

/// The GGUF value that an HK value came from, by its recorded or implied type alone.
fn way_back(key: &str, value: &Value<'_>, types: &Json) -> Meta {
    let recorded = types.get(key).map(|json| GgufType::from_json(json).expect("a type"));
    let kind = recorded.or_else(|| GgufType::implied(key, value)).expect("a known type");
    match (value, &kind) {
        (Value::String(text), _) => Meta::text(text),
        (Value::Bool(truth), _) => Meta::Bool((*truth).into()),
        (Value::Int64(n), GgufType::Plain(kind)) => integer((*n).into(), *kind),
        (Value::Float64(x), GgufType::Plain(ValueType::Float32)) => Meta::F32(narrow(*x).unwrap()),
        (Value::Float64(x), _) => Meta::F64(*x),
        (Value::Json(text), kind) => from_json(&serde_json::from_str(text).unwrap(), kind),
        (Value::Bytes(_), GgufType::Array(element)) => {
            let GgufType::Plain(element) = **element else { panic!("{key}: {kind}") };
            let values = match value.array().unwrap() {
                Array::Strings(strings) => strings.iter().map(|s| Meta::Str(s.to_vec())).collect(),
                Array::F32(numbers) => numbers.iter().map(Meta::F32).collect(),
                Array::I32(numbers) => numbers.iter().map(|n| integer(n.into(), element)).collect(),
                other => panic!("{other:?}"),
            };
            Meta::Arr(element.id(), values)
        }
        other => panic!("{key}: {other:?}"),
    }
}

fn integer(n: i128, kind: ValueType) -> Meta {
    match kind {
        ValueType::Uint8 => Meta::U8(n.try_into().unwrap()),
        ValueType::Int8 => Meta::I8(n.try_into().unwrap()),
        ValueType::Uint16 => Meta::U16(n.try_into().unwrap()),
        ValueType::Int16 => Meta::I16(n.try_into().unwrap()),
        ValueType::Uint32 => Meta::U32(n.try_into().unwrap()),
        ValueType::Int32 => Meta::I32(n.try_into().unwrap()),
        ValueType::Uint64 => Meta::U64(n.try_into().unwrap()),
        ValueType::Int64 => Meta::I64(n.try_into().unwrap()),
        ValueType::Bool => Meta::Bool(n.try_into().unwrap()),
        other => panic!("{other:?}"),
    }
}

fn from_json(json: &Json, kind: &GgufType) -> Meta {
    let float = |word: &Json| match word.as_str() {
        Some("NaN") => f64::NAN,
        Some("Infinity") => f64::INFINITY,
        Some("-Infinity") => f64::NEG_INFINITY,
        _ => word.as_f64().unwrap(),
    };
    let list = || json.as_array().unwrap();
    match kind {
        GgufType::Plain(ValueType::String) => Meta::text(json.as_str().unwrap()),
        GgufType::Plain(ValueType::Bool) => Meta::Bool(json.as_bool().unwrap().into()),
        GgufType::Plain(ValueType::Float32) => Meta::F32(float(json) as f32),
        GgufType::Plain(ValueType::Float64) => Meta::F64(float(json)),
        GgufType::Plain(kind) => {
            let n = json.as_i64().map(i128::from).or(json.as_u64().map(i128::from));
            integer(n.unwrap(), *kind)
        }
        GgufType::Array(element) => {
            let id = match **element {
                GgufType::Plain(kind) => kind.id(),
                _ => 9,
            };
            Meta::Arr(id, list().iter().map(|json| from_json(json, element)).collect())
        }
        GgufType::Mixed(kinds) => {
            assert_eq!(list().len(), kinds.len());
            let values = list().iter().zip(kinds).map(|(json, kind)| from_json(json, kind));
            Meta::Arr(9, values.collect())
        }
    }
}

/// Converts pairs, takes them back by what the HK file says, and compares their bytes.
fn check_way_back(pairs: &[(String, Meta)]) {
    let mut gguf = Gguf::default();
    for (key, value) in pairs {
        gguf = gguf.pair(key, value.clone());
    }
    let model = converted(&gguf);
    let metadata = model.hk().metadata();
    let Some(Value::Json(types)) = metadata.get(TYPES_KEY) else { panic!() };
    let types: Json = serde_json::from_str(types).unwrap();
    assert_eq!(metadata.len(), pairs.len() + 1);
    for (entry, (key, value)) in metadata.iter().zip(pairs) {
        assert_eq!(entry.key, key);
        let back = way_back(key, &entry.value, &types);
        assert_eq!(back.typed_bytes(), value.typed_bytes(), "{key}: {value:?} became {back:?}");
    }
}

#[test]
fn the_way_back_is_exact() {
    let pairs = all_metadata().into_iter().map(|(key, value)| (key.to_owned(), value));
    check_way_back(&pairs.collect::<Vec<_>>());
}

/// Any value that HK has room for; arrays down to `depth`.
fn any_meta(depth: u32) -> BoxedStrategy<Meta> {
    // A NaN in a nested array loses its payload, so floats are numbers here.
    let scalar = |kind: u32| match kind {
        0 => any::<u8>().prop_map(Meta::U8).boxed(),
        1 => any::<i8>().prop_map(Meta::I8).boxed(),
        2 => any::<u16>().prop_map(Meta::U16).boxed(),
        3 => any::<i16>().prop_map(Meta::I16).boxed(),
        4 => any::<u32>().prop_map(Meta::U32).boxed(),
        5 => any::<i32>().prop_map(Meta::I32).boxed(),
        6 => proptest::num::f32::ANY
            .prop_map(|x| Meta::F32(if x.is_nan() { 1.0 } else { x }))
            .boxed(),
        7 => (0u8..2).prop_map(Meta::Bool).boxed(),
        8 => ".{0,8}".prop_map(|text: String| Meta::text(&text)).boxed(),
        10 => (0..=i64::MAX as u64).prop_map(Meta::U64).boxed(),
        11 => any::<i64>().prop_map(Meta::I64).boxed(),
        _ => proptest::num::f64::ANY
            .prop_map(|x| Meta::F64(if x.is_nan() { 1.0 } else { x }))
            .boxed(),
    };
    let kinds = prop::sample::select(vec![0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12]);
    let array = kinds.clone().prop_flat_map(move |kind| {
        prop::collection::vec(scalar(kind), 0..5).prop_map(move |values| Meta::Arr(kind, values))
    });
    let flat = prop_oneof![kinds.prop_flat_map(scalar), array.clone()];
    if depth == 0 {
        return array.boxed();
    }
    let nested = prop::collection::vec(any_meta(depth - 1), 0..4)
        .prop_map(|values| Meta::Arr(9, values))
        .boxed();
    if depth == 3 {
        prop_oneof![3 => flat, 1 => nested].boxed()
    } else {
        prop_oneof![array, nested].boxed()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_way_back_is_exact_for_any_metadata(
        values in prop::collection::vec(any_meta(3), 0..6),
        names in prop::collection::vec("[a-z.]{0,12}", 6),
    ) {
        let pairs = values.into_iter().enumerate().map(|(i, value)| {
            (format!("{i}.{}", names[i]), value)
        });
        check_way_back(&pairs.collect::<Vec<_>>());
    }

    #[test]
    fn any_tensors_keep_their_bytes(
        picks in prop::collection::vec((0..TYPES.len(), 0u64..4, 1u64..4, 0usize..3), 0..8),
        seed: u64,
        from in prop::sample::select(vec![1usize, 8, 32, 256]),
        to in 1u32..=65536,
    ) {
        let mut rng = Rng::new(seed);
        let mut gguf = Gguf { alignment: from, pad_end: seed % 2 == 0, ..Gguf::default() }
            .pair("general.alignment", Meta::U32(from as u32));
        for (i, (pick, blocks, rows, planes)) in picks.into_iter().enumerate() {
            let (id, weights, size, _) = TYPES[pick];
            let mut dims = vec![blocks * weights];
            dims.extend(std::iter::repeat_n(rows, planes));
            let bytes = size * (blocks * rows.pow(planes as u32)) as usize;
            gguf = gguf.tensor(&i.to_string(), id, &dims, rng.bytes(bytes));
        }
        let case = Case::new(&gguf.build().bytes);
        let model = case.convert(Options { alignment: to, overwrite: false, ..Options::default() }).unwrap();
        for (tensor, info) in model.hk().tensors().zip(&gguf.tensors) {
            prop_assert_eq!(tensor.name.as_bytes(), &info.name);
            prop_assert!(tensor.shape.iter().eq(info.dims.iter().rev()));
            prop_assert_eq!(tensor.data(), &info.data);
        }
    }
}

#[test]
fn the_demo_model_is_the_conversion_of_its_gguf() {
    let case = Case::new(&data("demo/stories-q8_0.gguf"));
    case.convert(Options { metadata_room: 0, ..Options::default() }).unwrap();
    let shipped = hk_tests::data_dir().join("../../examples/models/stories.hk");
    assert!(std::fs::read(case.path("out.hk")).unwrap() == std::fs::read(shipped).unwrap());
}

#[test]
fn an_output_is_replaced_only_when_allowed_and_never_the_input() {
    let case = Case::new(&all_types(32).build().bytes);
    std::fs::write(case.path("out.hk"), "old").unwrap();
    let text = case.convert(Options::default()).unwrap_err().to_string();
    assert!(text.contains("out.hk exists already"), "{text}");
    assert_eq!(std::fs::read(case.path("out.hk")).unwrap(), b"old");
    let options = Options { overwrite: true, ..Options::default() };
    case.convert(options).unwrap();

    let before = std::fs::read(case.path("in.gguf")).unwrap();
    let other_spelling = case.folder.path().join(".").join("in.gguf");
    for output in [case.path("in.gguf"), other_spelling] {
        let error = convert(&case.path("in.gguf"), &output, options, |_| ControlFlow::Continue(()))
            .unwrap_err();
        assert!(error.to_string().contains("the same file"), "{error}");
    }
    assert_eq!(std::fs::read(case.path("in.gguf")).unwrap(), before);
    assert_eq!(case.names(), ["in.gguf", "out.hk"]);

    let error =
        convert(case.folder.path(), &case.path("out.hk"), options, |_| ControlFlow::Continue(()))
            .unwrap_err();
    assert!(error.to_string().contains("not a regular file"), "{error}");
    let error =
        convert(&case.path("none"), &case.path("out.hk"), options, |_| ControlFlow::Continue(()))
            .unwrap_err();
    assert!(error.to_string().contains("cannot open"), "{error}");
    let error = case
        .convert(Options { alignment: 65537, overwrite: true, ..Options::default() })
        .unwrap_err();
    assert!(error.to_string().contains("65537"), "{error}");
}
