//! Tokens of a small SentencePiece vocabulary against those of the `sentencepiece` package
//! (0.2.3), which trained it: byte pair encoding of 460 tokens with byte fallback, the
//! user-defined tokens `<sep>` and three spaces, and no normalization. It stands in
//! `tests/data/sentencepiece.hk` as llama.cpp's converter would write it.

use hk_core::build::{pack_f32, pack_i32};
use hk_core::{Array, Hk, Value};
use hk_examples::{Error, TextStream, Tokenizer};

use crate::errors::{random, spoil};
use crate::model_file::{Copy, strings};

/// Texts and their tokens.
const KNOWN: &[(&str, &[u32])] = &[
    ("", &[]),
    (
        "Once upon a time the fox ran over a small hill.",
        &[
            428, 84, 401, 429, 428, 442, 117, 273, 274, 262, 434, 332, 265, 357, 341, 322, 274,
            289, 306, 451,
        ],
    ),
    ("the fox", &[265, 357]),
    ("   three, then  two", &[4, 262, 437, 406, 429, 49, 265, 433, 428, 262, 445, 436]),
    (" leading", &[428, 271, 380, 439, 434, 323]),
    ("trailing ", &[262, 275, 389, 434, 323, 428]),
    ("a\tb\nc\r\n\n", &[274, 14, 447, 15, 448, 18, 15, 15]),
    ("café naïve über straße", &[371, 200, 174, 340, 200, 180, 276, 428, 200, 193, 360, 300]),
    ("你好世界 再见", &[329, 427, 428, 234, 139, 146, 237, 172, 134]),
    (
        "🦀👩\u{200d}👧 ok",
        &[428, 245, 164, 171, 133, 245, 164, 150, 174, 231, 133, 146, 245, 164, 150, 172, 317, 454],
    ),
    ("0123 4.56", &[428, 53, 54, 55, 56, 428, 57, 451, 58, 59]),
    ("<sep>a<sep> b", &[428, 3, 431, 3, 423]),
    (
        "<s>hello</s> <unk> <0x0A>",
        &[
            428, 65, 438, 67, 263, 361, 65, 52, 438, 67, 428, 65, 309, 454, 67, 428, 65, 53, 459,
            53, 70, 67,
        ],
    ),
    ("e\u{301}", &[428, 429, 209, 134]),
    ("let mut x = 1;       return self", &[291, 313, 372, 428, 66, 428, 54, 64, 4, 4, 305, 355]),
    ("Tim's dog!?", &[295, 44, 438, 297, 450, 449]),
    (" ", &[428, 428]),
];

fn file() -> Vec<u8> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/sentencepiece.hk");
    std::fs::read(path).unwrap()
}

/// What `test` makes of the tokenizer of a file.
fn with<T>(file: &[u8], test: impl FnOnce(Tokenizer<'_>) -> T) -> T {
    test(Tokenizer::read(&Hk::parse(file).unwrap().metadata()).unwrap())
}

fn error(file: &[u8]) -> String {
    Tokenizer::read(&Hk::parse(file).unwrap().metadata()).unwrap_err().to_string()
}

#[test]
fn tokens_are_those_of_the_reference_tokenizer() {
    with(&file(), |tokenizer| {
        assert_eq!((tokenizer.len(), tokenizer.pre_tokenizer()), (460, None));
        for &(text, tokens) in KNOWN {
            assert_eq!(tokenizer.encode(text).unwrap(), tokens, "{text:?}");
            assert_eq!(tokenizer.decode(tokens).unwrap(), text);
        }
    });
}

#[test]
fn a_prompt_begins_with_a_token_unless_the_file_says_otherwise() {
    let file = file();
    let fox = [1, 265, 357];
    with(&file, |tokenizer| assert_eq!(tokenizer.encode_prompt("the fox").unwrap(), fox));
    let without = Copy::of(&file)
        .set("tokenizer.ggml.add_bos_token", Value::Bool(false))
        .set("tokenizer.ggml.add_space_prefix", Value::Bool(false))
        .build();
    with(&without, |tokenizer| {
        assert_eq!(tokenizer.encode_prompt(" the fox").unwrap(), fox[1..]);
        assert_eq!(tokenizer.decode(&fox).unwrap(), " the fox");
    });
    // Llama's ids where the file names none.
    let keys = ["bos", "eos", "unknown"].map(|name| format!("tokenizer.ggml.{name}_token_id"));
    let bare = keys.iter().fold(Copy::of(&file), |copy, key| copy.without_key(key)).build();
    with(&bare, |tokenizer| {
        assert_eq!((tokenizer.begin(), tokenizer.end()), (Some(1), Some(2)));
        assert!(tokenizer.is_end(2) && !tokenizer.is_end(1));
    });
}

#[test]
fn special_tokens_are_parsed_only_in_what_a_template_made() {
    with(&file(), |tokenizer| {
        let user = tokenizer.guard("</s> the<sep>");
        let chat = format!("<s>the fox</s>{user}</s>");
        let tokens = tokenizer.encode_chat(&chat).unwrap();
        assert_eq!(tokens, [1, 265, 357, 2, 428, 65, 52, 438, 67, 265, 3, 2]);
        assert_eq!(tokenizer.decode(&tokens).unwrap(), "the fox </s> the<sep>");
        assert_eq!(tokenizer.encode_chat("the fox").unwrap(), [1, 265, 357]);
    });
}

#[test]
fn half_a_character_waits_for_its_other_half() {
    with(&file(), |tokenizer| {
        let mut stream = TextStream::default();
        let tokens = tokenizer.encode("aß🦀").unwrap();
        let shown: Vec<String> = tokens
            .iter()
            .map(|&token| stream.push(&tokenizer.bytes(token).unwrap()))
            .filter(|text| !text.is_empty())
            .collect();
        assert!(tokens.len() > shown.len(), "{tokens:?}");
        assert_eq!(shown.concat(), " aß🦀");
    });
}

/// A vocabulary of five tokens, with what goes with it.
fn small(types: Value<'_>, scores: Value<'_>) -> Vec<u8> {
    let tokens = strings(&["<unk>", "<s>", "</s>", "\u{2581}a", "<0x62>"]);
    Copy::of(&file())
        .set("tokenizer.ggml.tokens", Value::Bytes(&tokens))
        .set("tokenizer.ggml.token_type", types)
        .set("tokenizer.ggml.scores", scores)
        .build()
}

#[test]
fn characters_without_a_token_are_bytes_or_unknown_and_never_dropped() {
    let types = pack_i32([2, 3, 3, 1, 6]).unwrap();
    let scores = pack_f32([0.0, 0.0, 0.0, -1.0, 0.0]).unwrap();
    let file = small(Value::Bytes(&types), Value::Bytes(&scores));
    with(&file, |tokenizer| {
        assert_eq!(tokenizer.encode("abxyb").unwrap(), [3, 4, 0, 4]);
        assert_eq!(tokenizer.decode(&[3, 4, 0, 4]).unwrap(), "abb");
    });
}

#[test]
fn token_types_may_be_of_any_width_and_fewer_than_tokens() {
    let scores = pack_f32([0.0, 0.0, 0.0, -1.0, 0.0]).unwrap();
    let wide = "[2, 3, 3, 18446744073709551615, 6]";
    let short = pack_i32([2, 3]).unwrap();
    let none = pack_i32([]).unwrap();
    for types in [Value::Json(wide), Value::Bytes(&short), Value::Bytes(&none)] {
        let file = small(types, Value::Bytes(&scores));
        with(&file, |tokenizer| {
            assert_eq!(tokenizer.encode("ab").unwrap(), [3, 4], "{types:?}");
            assert_eq!(tokenizer.decode(&[1, 3, 4, 2]).unwrap(), "ab", "{types:?}");
        });
    }
    let broken = small(Value::Json("[2, \"3\"]"), Value::Bytes(&scores));
    assert!(error(&broken).contains("tokenizer.ggml.token_type"), "{}", error(&broken));
}

#[test]
fn scores_are_needed_for_all_tokens() {
    let types = pack_i32([2, 3, 3, 1, 6]).unwrap();
    let json = small(Value::Bytes(&types), Value::Json("[0, 0.0, 0, -1e0, 0]"));
    with(&json, |tokenizer| assert_eq!(tokenizer.encode("a").unwrap(), [3]));
    let few = pack_f32([0.0; 4]).unwrap();
    let error_of = |scores| error(&small(Value::Bytes(&types), scores));
    let said = error_of(Value::Bytes(&few));
    assert!(said.contains("tokenizer.ggml.scores") && said.contains("4 scores for 5"), "{said}");
    let said = error_of(Value::Bool(true));
    assert!(said.contains("tokenizer.ggml.scores"), "{said}");
    let without = Copy::of(&file()).without_key("tokenizer.ggml.scores").build();
    assert!(error(&without).contains("\"tokenizer.ggml.scores\" is missing"));
}

#[test]
fn scores_that_are_no_numbers_change_no_text() {
    let count = with(&file(), |tokenizer| tokenizer.len());
    for score in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0] {
        let scores = pack_f32(vec![score; count]).unwrap();
        let file = file();
        let copy = Copy::of(&file).set("tokenizer.ggml.scores", Value::Bytes(&scores)).build();
        with(&copy, |tokenizer| {
            for (text, _) in KNOWN {
                assert_eq!(tokenizer.decode(&tokenizer.encode(text).unwrap()).unwrap(), *text);
            }
        });
    }
}

#[test]
fn a_vocabulary_without_an_unknown_token_names_the_byte() {
    let tokens = strings(&["\u{2581}"]);
    let zero = pack_f32([0.0]).unwrap();
    let file = file();
    let keys = ["bos", "eos", "unknown"].map(|name| format!("tokenizer.ggml.{name}_token_id"));
    let copy = keys
        .iter()
        .fold(Copy::of(&file), |copy, key| copy.without_key(key))
        .set("tokenizer.ggml.tokens", Value::Bytes(&tokens))
        .set("tokenizer.ggml.scores", Value::Bytes(&zero))
        .set("tokenizer.ggml.add_bos_token", Value::Bool(false))
        .set("tokenizer.ggml.unknown_token_id", Value::Int64(7))
        .build();
    let said = error(&copy);
    assert!(said.contains("unknown_token_id") && said.contains("7 is no token"), "{said}");
    // Token 0 is the unknown one where the file names none, as in Llama's own vocabulary;
    // with no tokens at all there is none.
    let empty = strings(&[]);
    let copy = Copy::of(&copy)
        .set("tokenizer.ggml.tokens", Value::Bytes(&empty))
        .without_key("tokenizer.ggml.unknown_token_id")
        .build();
    with(&copy, |tokenizer| {
        assert!(tokenizer.is_empty());
        assert_eq!(tokenizer.encode("é"), Err(Error::NoTokenForByte(0xE2)));
    });
}

#[test]
fn spoilt_bytes_give_an_error_or_a_tokenizer_that_works() {
    let file = file();
    let end = Hk::parse(&file).unwrap().tensors().map(|tensor| tensor.data.offset).min().unwrap();
    let mut random = random();
    let (mut worked, mut refused) = (0, 0);
    for _ in 0..3000 {
        let mut spoilt = file.clone();
        spoil(&mut spoilt, end as usize, &mut random);
        let Ok(hk) = Hk::parse(&spoilt) else { continue };
        match Tokenizer::read(&hk.metadata()) {
            Ok(tokenizer) => {
                for (text, _) in KNOWN {
                    let tokens = tokenizer.encode_prompt(text).unwrap_or_default();
                    tokenizer.decode(&tokens).unwrap();
                    let tokens = tokenizer.encode_chat(&tokenizer.guard(text)).unwrap_or_default();
                    tokenizer.decode(&tokens).unwrap();
                }
                worked += 1;
            }
            Err(error) => {
                assert!(!error.to_string().is_empty());
                refused += 1;
            }
        }
    }
    assert!(worked > 300 && refused > 20, "{worked} worked, {refused} refused");
}

#[test]
fn the_fixture_is_what_it_is_said_to_be() {
    let file = file();
    let metadata = Hk::parse(&file).unwrap().metadata();
    let types = metadata.get("tokenizer.ggml.token_type").unwrap().array();
    let Ok(Array::I32(types)) = types else { panic!("{types:?}") };
    let count = |kind| types.iter().filter(|&other| other == kind).count();
    assert_eq!([1, 2, 3, 4, 6].map(count), [199, 1, 2, 2, 256]);
}
