//! Tokens of the demo vocabulary against those of the Hugging Face `tokenizers` package
//! (0.23.3, ByteLevel with its expression), and text that comes back as it went.

use hk_core::{Hk, Value};
use hk_examples::{Error, PreTokenizer, TextStream, Tokenizer};

use crate::model_file::{self, Copy, strings};

/// Texts and their tokens.
const KNOWN: &[(&str, &[u32])] = &[
    ("", &[]),
    ("Once upon a time", &[393, 344, 80, 274, 259, 258, 349, 69]),
    (
        "It's Tim's; we'll say 'no'",
        &[41, 84, 7, 83, 409, 7, 83, 27, 261, 69, 7, 268, 276, 89, 221, 7, 78, 79, 7],
    ),
    (
        "fn main() {\n    let x = 42;\n}\n",
        &[
            70, 78, 308, 65, 279, 8, 9, 221, 91, 199, 221, 221, 221, 266, 312, 221, 88, 221, 29,
            221, 20, 18, 27, 199, 93, 199,
        ],
    ),
    ("café nai\u{308}ve", &[67, 65, 70, 128, 103, 292, 65, 73, 137, 231, 296]),
    ("你好，世界", &[161, 122, 255, 162, 99, 122, 172, 121, 235, 161, 117, 245, 164, 244, 235]),
    (
        "🦀👩\u{200d}👧",
        &[173, 254, 100, 223, 173, 254, 240, 103, 159, 223, 236, 173, 254, 240, 101],
    ),
    ("a   b\t\tc\n\n\n d  ", &[65, 221, 221, 269, 198, 198, 67, 199, 199, 199, 287, 221, 221]),
    ("  \n", &[221, 221, 199]),
    ("x²+1½ 2024", &[88, 127, 111, 11, 17, 127, 122, 221, 18, 16, 18, 20]),
    ("<|end|>", &[28, 92, 328, 92, 30]),
    (" the  the", &[264, 221, 264]),
];

#[test]
fn tokens_are_those_of_the_reference_tokenizer() {
    let file = model_file::read();
    let tokenizer = Tokenizer::read(&Hk::parse(&file).unwrap().metadata()).unwrap();
    assert_eq!(tokenizer.pre_tokenizer(), Some(PreTokenizer::Gpt2));
    for &(text, tokens) in KNOWN {
        assert_eq!(tokenizer.encode(text).unwrap(), tokens, "{text:?}");
        assert_eq!(tokenizer.decode(tokens).unwrap(), text);
    }
}

#[test]
fn a_prompt_begins_with_the_token_that_the_file_names() {
    let file = model_file::read();
    let tokenizer = Tokenizer::read(&Hk::parse(&file).unwrap().metadata()).unwrap();
    assert_eq!((tokenizer.begin(), tokenizer.end()), (Some(0), Some(0)));
    assert_eq!(tokenizer.encode_prompt("Once").unwrap(), [0, 393]);
    assert_eq!(tokenizer.encode_prompt("").unwrap(), [0]);
    let without = Copy::of(&file).set("tokenizer.ggml.add_bos_token", Value::Bool(false)).build();
    let tokenizer = Tokenizer::read(&Hk::parse(&without).unwrap().metadata()).unwrap();
    assert_eq!(tokenizer.encode_prompt("Once").unwrap(), [393]);
    assert_eq!(tokenizer.encode_prompt("").unwrap(), [0]);
}

#[test]
fn the_text_of_control_tokens_is_not_shown() {
    let file = model_file::read();
    let tokenizer = Tokenizer::read(&Hk::parse(&file).unwrap().metadata()).unwrap();
    assert_eq!(tokenizer.decode(&[0, 393, 0]).unwrap(), "Once");
    assert_eq!(tokenizer.bytes(512), Err(Error::Token { token: 512, vocabulary: 512 }));
}

/// A tokenizer of a few tokens of our own.
fn with_vocabulary<T>(
    tokens: &[&str],
    merges: &[&str],
    pre: &str,
    test: impl FnOnce(Tokenizer<'_>) -> T,
) -> T {
    let (tokens, merges) = (strings(tokens), strings(merges));
    let file = model_file::read();
    let copy = Copy::of(&file)
        .set("tokenizer.ggml.tokens", Value::Bytes(&tokens))
        .set("tokenizer.ggml.merges", Value::Bytes(&merges))
        .set("tokenizer.ggml.pre", Value::String(pre))
        .build();
    test(Tokenizer::read(&Hk::parse(&copy).unwrap().metadata()).unwrap())
}

#[test]
fn words_decide_what_merges() {
    let (tokens, merges) = (["<e>", "1", "2", "Ġ", "Ġ1", "12"], ["1 2", "Ġ 1"]);
    let encode = |tokenizer: Tokenizer<'_>| tokenizer.encode(" 12 1").unwrap();
    assert_eq!(with_vocabulary(&tokens, &merges, "gpt-2", encode), [3, 5, 4]);
    assert_eq!(with_vocabulary(&tokens, &merges, "smollm", encode), [3, 1, 2, 3, 1]);
}

#[test]
fn a_word_that_is_a_token_goes_before_merges_where_the_name_says_so() {
    let tokens = ["<e>", "1", "2", "3", "12", "123"];
    let encode = |tokenizer: Tokenizer<'_>| tokenizer.encode("123").unwrap();
    assert_eq!(with_vocabulary(&tokens, &["1 2"], "llama-bpe", encode), [5]);
    assert_eq!(with_vocabulary(&tokens, &["1 2"], "smaug-bpe", encode), [4, 3]);
    assert_eq!(with_vocabulary(&tokens, &["1 2"], "qwen2", encode), [1, 2, 3]);
}

#[test]
fn tokens_that_end_a_turn_are_known_by_key_and_by_text() {
    let file = model_file::read();
    let tokens = strings(&["<e>", "a", "<|im_end|>", "<|eot_id|>", "b", "c"]);
    let merges = strings(&[]);
    let copy = Copy::of(&file)
        .set("tokenizer.ggml.tokens", Value::Bytes(&tokens))
        .set("tokenizer.ggml.merges", Value::Bytes(&merges))
        .set("tokenizer.ggml.eot_token_id", Value::Int64(4))
        .build();
    let hk = Hk::parse(&copy).unwrap();
    let tokenizer = Tokenizer::read(&hk.metadata()).unwrap();
    let ends: Vec<u32> = (0..6).filter(|&token| tokenizer.is_end(token)).collect();
    assert_eq!(ends, [0, 2, 3, 4]);
    assert_eq!(tokenizer.decode(&[1, 2, 4, 5]).unwrap(), "ac");
    let chat = ["<e>a<|im_end|>", &tokenizer.guard("a")].concat();
    assert_eq!(tokenizer.encode_chat(&chat).unwrap(), [0, 1, 2, 1]);
    assert_eq!(tokenizer.encode_chat("a<|im_end|>c").unwrap(), [0, 1, 2, 5]);
    let guarded = tokenizer.encode_chat(&tokenizer.guard("<|im_end|>"));
    assert_eq!(guarded, Err(Error::NoTokenForByte(b'<')));
}

#[test]
fn a_byte_without_a_token_is_an_error_and_not_dropped() {
    let result = with_vocabulary(&["<e>", "a"], &[], "gpt-2", |tokenizer| tokenizer.encode("ab"));
    assert_eq!(result, Err(Error::NoTokenForByte(b'b')));
}

#[test]
fn half_a_character_waits_for_its_other_half() {
    let file = model_file::read();
    let tokenizer = Tokenizer::read(&Hk::parse(&file).unwrap().metadata()).unwrap();
    let mut stream = TextStream::default();
    let shown: Vec<String> = tokenizer
        .encode("a🦀é")
        .unwrap()
        .into_iter()
        .map(|token| stream.push(&tokenizer.bytes(token).unwrap()))
        .collect();
    assert_eq!(shown, ["a", "", "", "", "🦀", "", "é"]);
    assert_eq!(stream.finish(), "");
}

#[test]
fn bytes_that_are_no_text_become_replacement_characters() {
    let mut stream = TextStream::default();
    assert_eq!(stream.push(b"a\xFFb\xE4\xBD"), "a\u{FFFD}b");
    assert_eq!(stream.push(b"c"), "\u{FFFD}c");
    assert_eq!(stream.push(b"\xF0\x9F"), "");
    assert_eq!(stream.finish(), "\u{FFFD}");
    assert_eq!(stream.push(b"d"), "d");
}
