//! Goes on with a text: reads a model from an HK file and writes what it says next.
//!
//! Without arguments it runs the tiny model that ships beside it:
//!
//! ```text
//! cargo run --release --example generate
//! ```

mod bench;
mod choice;
mod progress;
mod teller;

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

use choice::Choice;
use clap::Parser;
use hk_examples::{ChatTemplate, Engine, Model, Sampler, Task, Threads, Tokenizer};
use hk_std::{ModelFile, Pool};
use teller::{Failure, Teller};

/// Go on with a text, by a Llama or Qwen model in an HK file.
///
/// The text goes to standard output as it is made, what it took to standard error.
#[derive(Parser)]
#[command(name = "generate", version, allow_negative_numbers = true)]
struct Args {
    /// The model; `hk convert` makes one from a GGUF file [default: the tiny story model that ships with this example]
    #[arg(long, value_name = "FILE.hk")]
    model: Option<PathBuf>,
    /// The text to go on with [default: "Once upon a time"]
    #[arg(long, value_name = "TEXT")]
    prompt: Option<String>,
    /// Have the prompt answered: it is put into the model's own chat template
    #[arg(long)]
    chat: bool,
    /// Read line after line from standard input: a conversation, if the model has a chat
    /// template, else texts to go on with
    #[arg(long)]
    interactive: bool,
    /// Stop after this many tokens, if the model has not ended the text or answer before
    #[arg(short = 'n', long = "tokens", value_name = "N", default_value_t = 256, value_parser = choice::count)]
    tokens: usize,
    /// Longest text in tokens, prompt and all [default: what the model was made for]
    #[arg(long, value_name = "N", value_parser = choice::room)]
    context: Option<NonZeroUsize>,
    /// Threads to use; the text does not depend on it [default: one a processor]
    #[arg(long, value_name = "N", value_parser = choice::threads)]
    threads: Option<NonZeroUsize>,
    #[command(flatten)]
    choice: Choice,
    #[command(flatten)]
    bench: bench::Options,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            say(&format!("generate: {message}"));
            ExitCode::FAILURE
        }
    }
}

/// Writes a line to standard error, if anyone listens there.
fn say(line: &str) {
    // No reason to stop: whoever closed it wants to hear nothing.
    let _ = writeln!(io::stderr(), "{line}");
}

fn run(args: &Args) -> Result<(), String> {
    let started = Instant::now();
    let path = match &args.model {
        Some(path) => path.clone(),
        None => default_model()?,
    };
    let file = open(&path)?;
    let named = |error: hk_examples::Error| format!("{}: {error}", path.display());
    let hk = file.hk();
    let model = Model::read(&hk).map_err(named)?;
    let tokenizer = Tokenizer::read(&hk.metadata()).map_err(named)?;
    let backend = hk_std::backend().map_err(|error| error.to_string())?;
    let template = match (args.chat || args.interactive).then(|| ChatTemplate::read(&hk.metadata()))
    {
        Some(Err(hk_examples::Error::MissingKey(key))) if args.chat => {
            let path = path.display();
            return Err(format!(
                "{path}: the model has no chat template ({key}), so it goes on with texts and answers none: leave --chat out"
            ));
        }
        None | Some(Err(hk_examples::Error::MissingKey(_))) => None,
        Some(template) => Some(template.map_err(named)?),
    };
    let loading = started.elapsed();

    let threads = Team::new(args.threads);
    let mut engine = Engine::new(&model, backend, &threads).map_err(named)?;
    if let Some(context) = args.context.map(NonZeroUsize::get) {
        let most = engine.context();
        if context > most {
            say(&format!("generate: the model was made for {most} tokens: no more are used"));
        }
        engine = engine.with_context(context);
    }
    let sampler = Sampler::new(args.choice.sampling());
    if let Some(lengths) = args.bench.lengths {
        let vocabulary = model.vocabulary();
        let (backend, threads) = (backend.name(), threads.count());
        let subject = bench::Subject { model: &path, vocabulary, backend, threads };
        return bench::run(&args.bench, lengths, subject, engine, &sampler).map_err(|error| {
            match error {
                bench::Failure::Model(error) => named(error),
                bench::Failure::TooLong { tokens, room } => format!(
                    "--bench: {tokens} tokens are more than the context holds, which is {room}"
                ),
                bench::Failure::Output(error) => unwritten(error),
            }
        });
    }
    let mut teller = Teller::new(&tokenizer, engine, sampler, args.tokens);
    let told = match args.interactive {
        true => teller.converse(template.as_ref(), args.prompt.clone()),
        false => {
            let prompt = args.prompt.as_deref().unwrap_or("Once upon a time");
            teller.turn(template.as_ref(), &mut Vec::new(), prompt)
        }
    };
    let outcome = told.map_err(|error| match error {
        Failure::Model(error) => named(error),
        Failure::PromptTooLong { tokens, room } => {
            let larger = match room < model.hyperparameters.context {
                true => ", or a larger --context",
                false => "",
            };
            format!(
                "the prompt has {tokens} tokens, the context holds {room}: give a shorter one{larger}"
            )
        }
        Failure::PromptEmpty => format!(
            "{}: the prompt is empty, and the model has no token that begins a text (tokenizer.ggml.bos_token_id): give a prompt",
            path.display()
        ),
        Failure::Input(error) => format!("cannot read from standard input: {error}"),
        Failure::Output(error) => unwritten(error),
    })?;
    outcome.report(&path, loading);
    report_memory(teller.engine());
    Ok(())
}

fn unwritten(error: io::Error) -> String {
    format!("cannot write to standard output: {error}")
}

/// The model that ships with this example: in the source tree, or beside the program.
fn default_model() -> Result<PathBuf, String> {
    const NAME: &str = "stories.hk";
    let source_tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("models").join(NAME);
    let beside = std::env::current_exe().ok().and_then(|exe| Some(exe.parent()?.join(NAME)));
    let places = [Some(source_tree.clone()), Some(Path::new("examples/models").join(NAME)), beside];
    places.into_iter().flatten().find(|path| path.is_file()).ok_or_else(|| {
        format!(
            "the model that ships with this example is not at {}: give one with --model FILE.hk",
            source_tree.display()
        )
    })
}

fn open(path: &Path) -> Result<ModelFile, String> {
    ModelFile::open(path).map_err(|error| {
        if is_gguf(path) {
            let to = path.with_extension("hk");
            let (from, to) = (path.display(), to.display());
            format!("{from} is a GGUF file; make an HK file of it first: hk convert {from} {to}")
        } else {
            error.to_string()
        }
    })
}

fn is_gguf(path: &Path) -> bool {
    let mut magic = [0; 4];
    File::open(path).and_then(|mut file| file.read_exact(&mut magic)).is_ok() && magic == *b"GGUF"
}

/// Says what memory was needed.
fn report_memory(engine: &Engine<'_>) {
    let megabytes = |bytes: usize| format!("{:.1} MB", bytes as f64 / 1e6);
    let tokens = teller::tokens(engine.position());
    let kept = format!("{} for {tokens}", megabytes(engine.cache_bytes()));
    match private_memory() {
        Some(all) => say(&format!("memory beside the file: {}, of it {kept}", megabytes(all))),
        None => say(&format!("memory for the text: {kept}")),
    }
}

/// Memory of this process that is no part of a file, as the mapped model is; known on Linux.
fn private_memory() -> Option<usize> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    let kilobytes: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}

/// The engine's threads: those of a pool.
struct Team(Pool);

impl Team {
    fn new(count: Option<NonZeroUsize>) -> Self {
        let count = count.or_else(|| thread::available_parallelism().ok());
        Team(Pool::new(count.map_or(1, NonZeroUsize::get)))
    }
}

impl Threads for Team {
    fn count(&self) -> usize {
        self.0.threads()
    }

    fn run(&self, tasks: &mut [&mut Task<'_>]) {
        let tasks = Mutex::new(tasks.iter_mut());
        // No task runs under the lock, so it is never found broken.
        let next = || tasks.lock().ok().and_then(|mut tasks| tasks.next());
        self.0.run(&|| {
            while let Some(task) = next() {
                task();
            }
        });
    }
}
