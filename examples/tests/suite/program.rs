//! The program `generate` as a user runs it.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use hk_core::Value;

use crate::model_file::{self, Copy};

/// The program; cargo builds it along with these tests, unless it was told to build only
/// the tests.
fn program() -> Command {
    let tests = std::env::current_exe().unwrap();
    let profile = tests.parent().unwrap().parent().unwrap();
    let program: PathBuf =
        profile.join("examples").join(format!("generate{}", std::env::consts::EXE_SUFFIX));
    assert!(program.is_file(), "{} is not built: cargo build --examples", program.display());
    Command::new(program)
}

fn run(arguments: &[&str]) -> Output {
    program().args(arguments).output().unwrap()
}

/// Standard output of a run that goes well, and standard error.
fn said(arguments: &[&str]) -> (String, String) {
    let output = run(arguments);
    let (out, err) = texts(&output);
    assert!(output.status.success(), "{err}");
    (out, err)
}

fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (text(&output.stdout), text(&output.stderr))
}

/// Standard error of a run that fails with `code`.
fn refused(arguments: &[&str], code: i32) -> String {
    let output = run(arguments);
    assert_eq!(output.status.code(), Some(code));
    assert_eq!(output.stdout, b"");
    texts(&output).1
}

#[test]
fn without_arguments_it_tells_a_whole_story() {
    let (story, statistics) = said(&[]);
    assert!(story.starts_with("Once upon a time, there was a "), "{story}");
    assert!(story.ends_with(".\n"), "{story}");
    assert!(story.split_whitespace().count() > 60, "{story}");
    assert!(!story.contains("<|end|>"), "{story}");
    for part in ["stories.hk: loaded in", "prompt 9 tokens in", "a second)"] {
        assert!(statistics.contains(part), "{statistics}");
    }
    assert_eq!(said(&[]).0, story);
}

#[test]
fn it_stops_when_asked_to() {
    let (text, statistics) = said(&["--prompt", "One day, Tim", "-n", "2"]);
    assert!(text.starts_with("One day, Tim") && text.len() > 12, "{text:?}");
    assert!(statistics.contains("stopped after 2 tokens"), "{statistics}");
    let (text, _) = said(&["--prompt", "é 🦀", "-n", "0"]);
    assert_eq!(text, "é 🦀\n");
    let (_, statistics) = said(&["--prompt", "", "-n", "1"]);
    assert!(statistics.contains("stopped after 1 token, as many as -n"), "{statistics}");
    assert!(statistics.contains("prompt 1 token in"), "{statistics}");
}

#[test]
fn a_full_context_ends_the_text_with_a_word() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("short.hk");
    let file = model_file::read();
    let copy = Copy::of(&file).set("llama.context_length", Value::Int64(20));
    std::fs::write(&path, copy.build()).unwrap();
    let path = path.to_str().unwrap();
    let (text, statistics) = said(&["--model", path]);
    assert!(said(&[]).0.starts_with(text.trim_end()), "{text}");
    assert!(statistics.contains("the context is full"), "{statistics}");
    assert!(statistics.contains("text 11 tokens"), "{statistics}");
    let error = refused(&["--model", path, "--prompt", &"fox ".repeat(20)], 1);
    assert!(error.contains("the context holds 20"), "{error}");
}

#[test]
fn neither_threads_nor_a_context_that_is_long_enough_change_the_text() {
    let story = said(&[]).0;
    for threads in ["1", "2", "5"] {
        let (text, statistics) = said(&["--threads", threads, "--context", "230"]);
        assert_eq!(text, story);
        assert!(statistics.contains(" MB for 217 tokens"), "{statistics}");
    }
    let (text, statistics) = said(&["--context", "12"]);
    assert!(story.starts_with(text.trim_end()) && text.len() < 60, "{text}");
    assert!(statistics.contains("the context is full, at 12"), "{statistics}");
    let (text, statistics) = said(&["--context", "1000"]);
    assert_eq!(text, story);
    assert!(statistics.contains("the model was made for 256 tokens"), "{statistics}");
    let error = refused(&["--context", "5"], 1);
    assert!(error.contains("the context holds 5: give a shorter one, or a larger --context"));
}

#[test]
fn a_gguf_file_is_told_how_to_become_one_of_ours() {
    let gguf = model_file::demo("stories-q8_0.gguf");
    let error = refused(&["--model", gguf.to_str().unwrap()], 1);
    assert!(error.contains("is a GGUF file") && error.contains("hk convert"), "{error}");
}

#[test]
fn what_cannot_be_read_is_named() {
    let error = refused(&["--model", "no-such-file.hk"], 1);
    assert!(error.starts_with("generate: ") && error.contains("no-such-file.hk"), "{error}");
    let this = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let error = refused(&["--model", this], 1);
    assert!(error.contains("Cargo.toml") && error.contains("not an HK file"), "{error}");
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let mut child = program().stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", texts(&output).1);
}

#[test]
fn a_prompt_of_no_tokens_is_told_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("no-begin.hk");
    let file = model_file::read();
    let copy = Copy::of(&file)
        .without_key("tokenizer.ggml.bos_token_id")
        .set("tokenizer.ggml.add_bos_token", Value::Bool(false));
    std::fs::write(&path, copy.build()).unwrap();
    let path = path.to_str().unwrap();
    let error = refused(&["--model", path, "--prompt", ""], 1);
    assert!(error.contains("the prompt is empty") && error.contains("bos_token_id"), "{error}");
    assert!(said(&["--model", path, "--prompt", "One", "-n", "1"]).0.starts_with("One"));
}

#[cfg(unix)]
#[test]
fn nobody_need_listen_to_standard_error() {
    let closed = || {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        writer
    };
    let output = program().args(["-n", "4"]).stderr(closed()).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stdout.starts_with(b"Once upon a time"));
    let output = program().args(["--model", "no-such-file.hk"]).stderr(closed()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
}

/// A copy of the model with `template` to converse by, in a folder of its own.
fn with_template(template: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("chat.hk");
    let file = model_file::read();
    let copy = Copy::of(&file).set("tokenizer.chat_template", Value::String(template));
    std::fs::write(&path, copy.build()).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (folder, path)
}

/// A template that only strings together what is said.
const STRUNG: &str = "{% for message in messages %}{{ message.content }}{% endfor %}";

#[test]
fn a_prompt_is_answered_by_the_template() {
    let (_folder, path) = with_template(STRUNG);
    let (plain, _) = said(&["--prompt", "Once upon a time"]);
    let (answer, _) = said(&["--model", &path, "--chat", "--prompt", "Once upon a time"]);
    let begin = "Once upon a time";
    assert_eq!(plain.strip_prefix(begin).map(str::trim_start), Some(answer.trim_start()));
    let error = refused(&["--chat"], 1);
    assert!(error.contains("no chat template") && error.contains("leave --chat out"), "{error}");
    let (_folder, path) = with_template("{{ raise_exception('not today') }}");
    let error = refused(&["--model", &path, "--chat"], 1);
    assert!(error.contains("not today") && error.contains("tokenizer.chat_template"), "{error}");
}

/// Standard output and error of a conversation.
fn converse(arguments: &[&str], input: &str) -> (String, String) {
    let mut child = program()
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", texts(&output).1);
    texts(&output)
}

#[test]
fn a_conversation_keeps_what_has_been_said() {
    let (_folder, path) = with_template(STRUNG);
    let arguments = ["--model", &path, "--interactive", "-n", "12"];
    let lines = "One day, Tim\n\nThen Lily\r\nThe";
    let (answers, statistics) = converse(&arguments, lines);
    let answers: Vec<&str> = answers.lines().collect();
    assert_eq!(answers.len(), 3, "{answers:?}");
    // As if all that was said before had been said at once.
    let mut text = String::new();
    for (line, answer) in ["One day, Tim", "Then Lily", "The"].iter().zip(&answers) {
        text.push_str(line);
        let whole = ["--model", &path, "--chat", "-n", "12", "--prompt", &text];
        assert_eq!(said(&whole).0.trim_end(), *answer);
        text.push_str(answer);
    }
    assert!(statistics.contains("text 36 tokens"), "{statistics}");
    // What was read before is not read again: the second answer needs only the new words.
    let read: usize =
        statistics.split("prompt ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    assert!(read < 40, "{statistics}");
    let (again, _) = converse(&[&arguments[..], &["--threads", "1"]].concat(), lines);
    assert_eq!(again.lines().collect::<Vec<_>>(), answers);
}

#[test]
fn without_a_template_each_line_is_a_text_of_its_own() {
    let (texts, _) =
        converse(&["--interactive", "-n", "5", "--prompt", "The fox"], "One day\nThe fox\n");
    let texts: Vec<&str> = texts.lines().collect();
    assert_eq!(texts.len(), 3);
    assert!(texts[0].starts_with("The fox") && texts[1].starts_with("One day"), "{texts:?}");
    assert_eq!(texts[0], texts[2]);
    // What one text said is no repetition in the next.
    let arguments = ["--interactive", "-n", "9", "--repeat-penalty", "1.5"];
    let (texts, _) = converse(&arguments, "The fox\nThe fox\n");
    let (one, other) = texts.trim_end().split_once('\n').unwrap();
    assert_eq!(one, other);
}

#[test]
fn a_conversation_ends_with_a_word_when_the_context_is_full() {
    let (_folder, path) = with_template(STRUNG);
    let arguments = ["--model", &path, "--interactive", "--context", "40", "-n", "12"];
    let (answers, statistics) = converse(&arguments, &"One day, Tim and Lily\n".repeat(9));
    assert!((2..9).contains(&answers.lines().count()), "{answers}");
    assert!(statistics.contains("the context is full"), "{statistics}");
    let long = "fox ".repeat(50);
    let mut child = program();
    let output = child.args(arguments).args(["--prompt", &long]).stdin(Stdio::null()).output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(texts(&output).1.contains("give a shorter one"), "{}", texts(&output).1);
}

#[test]
fn chance_follows_the_seed_and_nothing_else() {
    let at = |seed: &str, threads: &str| {
        said(&[
            "--temperature",
            "1.5",
            "--top-k",
            "0",
            "--top-p",
            "1",
            "-n",
            "30",
            "--seed",
            seed,
            "--threads",
            threads,
        ])
        .0
    };
    let text = at("1", "1");
    assert_eq!(at("1", "2"), text);
    assert_ne!(at("2", "1"), text);
    let one = said(&["--temperature", "1.5", "--top-k", "1", "-n", "30"]).0;
    assert_eq!(one, said(&["-n", "30"]).0);
    let other = said(&["--repeat-penalty", "1.5", "-n", "30"]).0;
    assert_ne!(one, other);
}

#[test]
fn options_out_of_range_are_refused() {
    let cases = [
        ("--temperature", "-1", "from 0 on"),
        ("--temperature", "inf", "from 0 on"),
        ("--top-p", "1.5", "from 0 to 1"),
        ("--min-p", "-0.5", "from 0 to 1"),
        ("--repeat-penalty", "0", "over 0"),
        ("--top-k", "-3", "from 0 on"),
        ("--seed", "x", "from 0 to 18446744073709551615"),
        ("--tokens", "many", "from 0 on"),
        ("--tokens", "99999999999999999999", "from 0 on"),
        ("--context", "0", "from 1 on"),
        ("--threads", "0", "from 1 to 1024"),
        ("--threads", "10000", "from 1 to 1024"),
    ];
    for (option, value, part) in cases {
        let error = refused(&[option, value], 2);
        assert!(error.contains(part) && error.contains(option), "{error}");
    }
}

/// The number after `key` in JSON of one key a line.
fn number(json: &str, key: &str) -> f64 {
    let mut lines = json.lines().filter_map(|line| line.trim().strip_prefix(&format!("{key:?}: ")));
    let number = lines.next().unwrap_or_else(|| panic!("no {key} in {json}"));
    number.trim_end_matches(',').parse().unwrap()
}

#[test]
fn speed_is_measured_by_part() {
    let (json, _) = said(&["--bench", "70,5", "--threads", "2", "--runs", "3", "--json"]);
    assert_eq!([number(&json, "threads"), number(&json, "runs")], [2.0, 3.0]);
    for (name, tokens) in [("prompt", 70.0), ("decode", 5.0)] {
        assert_eq!(number(&json, &format!("{name}_tokens")), tokens);
        let seconds = tokens / number(&json, &format!("{name}_tokens_per_s"));
        let parts: Vec<f64> = ["matrices_q8_0", "attention", "norms", "quantizing", "sampling"]
            .into_iter()
            .chain(["waiting", "rest"])
            .map(|part| number(&json, &format!("{name}_{part}")))
            .collect();
        assert!(parts.iter().all(|&part| part > 0.0), "{json}");
        let sum: f64 = parts.iter().sum();
        assert!((sum / seconds - 1.0).abs() < 0.01, "{sum} of {seconds}: {json}");
    }
    if cfg!(target_os = "linux") {
        assert!(number(&json, "private_bytes") > 1e5, "{json}");
    }
    let (table, _) = said(&["--bench", "3,2", "--threads", "1", "--runs", "1"]);
    for part in
        ["stories.hk: ", ", 1 thread, median of 1 run\n", "matrices q8_0", "tokens a second"]
    {
        assert!(table.contains(part), "{part}: {table}");
    }
}

#[test]
fn what_cannot_be_measured_is_refused() {
    let error = refused(&["--bench", "250,7"], 1);
    assert!(error.contains("257 tokens are more") && error.contains("256"), "{error}");
    for arguments in [
        &["--bench", "0,5"][..],
        &["--bench", "5"],
        &["--bench", "5,"],
        &["--bench", "5,5,5"],
        &["--bench", "-1,5"],
        &["--bench", "5,5", "--chat"],
        &["--bench", "5,5", "-n", "3"],
        &["--bench", "5,5", "--runs", "0"],
        &["--json"],
        &["--runs", "5"],
    ] {
        refused(arguments, 2);
    }
}
