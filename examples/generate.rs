//! Goes on with a text: reads a model from an HK file and writes what it says next.
//!
//! Without arguments it runs the tiny model that ships beside it:
//!
//! ```text
//! cargo run --release --example generate
//! ```

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;
use hk_examples::{Engine, Model, Task, TextStream, Threads, Tokenizer, greedy};
use hk_std::{ModelFile, Pool};

/// Go on with a text, by a Llama or Qwen model in an HK file.
///
/// The text goes to standard output as it is made, what it took to standard error.
#[derive(Parser)]
#[command(name = "generate", version)]
struct Args {
    /// The model; `hk convert` makes one from a GGUF file [default: the tiny story model that ships with this example]
    #[arg(long, value_name = "FILE.hk")]
    model: Option<PathBuf>,
    /// The text to go on with
    #[arg(long, value_name = "TEXT", default_value = "Once upon a time")]
    prompt: String,
    /// Stop after this many tokens, if the model has not ended the text before
    #[arg(short = 'n', long = "tokens", value_name = "N", default_value_t = 256)]
    tokens: usize,
    /// Longest text in tokens, prompt and all [default: what the model was made for]
    #[arg(long, value_name = "N")]
    context: Option<NonZeroUsize>,
    /// Threads to use; the text does not depend on it [default: one a processor]
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("generate: {message}");
            ExitCode::FAILURE
        }
    }
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
    let prompt = tokenizer.encode_prompt(&args.prompt).map_err(|error| error.to_string())?;
    let loading = started.elapsed();

    let threads = Team::new(args.threads);
    let mut engine = Engine::new(&model, backend, &threads).map_err(named)?;
    if let Some(context) = args.context {
        engine = engine.with_context(context.get());
    }
    if prompt.len() > engine.room() {
        let (tokens, room) = (prompt.len(), engine.room());
        let problem =
            format!("the prompt has {tokens} tokens, the context of this model holds {room}");
        return Err(format!("{problem}: give a shorter one"));
    }
    let mut continuation =
        Continuation { tokenizer: &tokenizer, engine, text: TextStream::default() };
    let outcome =
        continuation.tell(&args.prompt, &prompt, args.tokens).map_err(|error| match error {
            Failure::Model(error) => named(error),
            Failure::Output(error) => format!("cannot write to standard output: {error}"),
        })?;
    outcome.report(&path, loading, prompt.len());
    report_memory(&continuation.engine);
    Ok(())
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

/// A model on its way through a text.
struct Continuation<'m> {
    tokenizer: &'m Tokenizer<'m>,
    engine: Engine<'m>,
    text: TextStream,
}

enum Failure {
    Model(hk_examples::Error),
    Output(io::Error),
}

impl From<hk_examples::Error> for Failure {
    fn from(error: hk_examples::Error) -> Self {
        Failure::Model(error)
    }
}

/// How the text came to its end, and what it took.
struct Outcome {
    end: End,
    written: usize,
    reading: Duration,
    writing: Duration,
}

#[derive(Clone, Copy)]
enum End {
    /// The model ended the text.
    Told,
    /// As many tokens as were asked for.
    Enough,
    /// The model can read no further.
    ContextFull,
    /// Nobody reads any more.
    Closed,
}

impl Continuation<'_> {
    /// Reads the prompt, then writes up to `most` tokens, each as soon as it is there.
    fn tell(&mut self, prompt: &str, tokens: &[u32], most: usize) -> Result<Outcome, Failure> {
        let started = Instant::now();
        let mut end = show(prompt)?;
        self.engine.read(tokens)?;
        let reading = started.elapsed();
        let started = Instant::now();
        let mut written = 0;
        while end.is_none() {
            if written == most {
                end = Some(End::Enough);
            } else {
                end = self.next()?;
                written += usize::from(end.is_none());
            }
        }
        show(&self.text.finish())?;
        show("\n")?;
        let end = end.unwrap_or(End::Closed);
        Ok(Outcome { end, written, reading, writing: started.elapsed() })
    }

    /// Writes one token, unless the text ends here.
    fn next(&mut self) -> Result<Option<End>, Failure> {
        if self.engine.room() == 0 {
            return Ok(Some(End::ContextFull));
        }
        let token = greedy(self.engine.logits()?)?;
        if self.tokenizer.is_end(token) {
            return Ok(Some(End::Told));
        }
        let text = self.text.push(&self.tokenizer.bytes(token)?);
        let end = show(&text)?;
        self.engine.push(token)?;
        Ok(end)
    }
}

/// Writes to standard output at once. A reader that has gone away ends the text.
fn show(text: &str) -> Result<Option<End>, Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(None),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(Some(End::Closed)),
        Err(error) => Err(Failure::Output(error)),
    }
}

impl Outcome {
    fn report(&self, path: &Path, loading: Duration, read: usize) {
        match self.end {
            End::Told | End::Closed => eprintln!(),
            End::Enough => eprintln!("\nstopped after {} tokens, as asked for by -n", self.written),
            End::ContextFull => {
                let tokens = read + self.written;
                eprintln!("\nstopped: the context of this model is full, at {tokens} tokens");
            }
        }
        eprintln!(
            "{}: loaded in {:.0} ms; prompt {}; text {}",
            path.file_name().unwrap_or(path.as_os_str()).display(),
            loading.as_secs_f64() * 1e3,
            rate(read, self.reading),
            rate(self.written, self.writing),
        );
    }
}

/// Says what memory was needed.
fn report_memory(engine: &Engine<'_>) {
    let megabytes = |bytes: usize| format!("{:.1} MB", bytes as f64 / 1e6);
    let kept = format!("{} for {} tokens", megabytes(engine.cache_bytes()), engine.position());
    match private_memory() {
        Some(all) => eprintln!("memory beside the file: {}, of it {kept}", megabytes(all)),
        None => eprintln!("memory for the text: {kept}"),
    }
}

/// "12 tokens in 0.34 s (35.3 a second)"
fn rate(tokens: usize, time: Duration) -> String {
    let seconds = time.as_secs_f64();
    let per_second = if seconds > 0.0 { tokens as f64 / seconds } else { 0.0 };
    format!("{tokens} tokens in {seconds:.2} s ({per_second:.1} a second)")
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
