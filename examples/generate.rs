//! Goes on with a text: reads a model from an HK file and writes what it says next.
//!
//! Without arguments it runs the tiny model that ships beside it:
//!
//! ```text
//! cargo run --release --example generate
//! ```

use std::fs::{self, File};
use std::io::{self, BufRead, ErrorKind, IsTerminal, Read, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;
use hk_examples::{
    ChatTemplate, Engine, Message, Model, Role, Sampler, Sampling, Task, TextStream, Threads,
    Tokenizer,
};
use hk_std::{ModelFile, Pool};

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
    #[arg(short = 'n', long = "tokens", value_name = "N", default_value_t = 256)]
    tokens: usize,
    /// Longest text in tokens, prompt and all [default: what the model was made for]
    #[arg(long, value_name = "N")]
    context: Option<NonZeroUsize>,
    /// Threads to use; the text does not depend on it [default: one a processor]
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
    #[command(flatten)]
    choice: Choice,
}

/// How the next token is chosen. The same options give the same text on every machine.
#[derive(clap::Args)]
#[command(next_help_heading = "Choice of tokens")]
struct Choice {
    /// 0 takes the most likely token every time; 0.8 makes texts differ, more makes them wild
    #[arg(long, value_name = "T", default_value_t = 0.0, value_parser = not_negative)]
    temperature: f32,
    /// Choose among the K most likely tokens; 0: among all
    #[arg(long, value_name = "K", default_value_t = 40)]
    top_k: usize,
    /// Choose among the most likely tokens that together have probability P; 1: among all
    #[arg(long, value_name = "P", default_value_t = 0.95, value_parser = share)]
    top_p: f32,
    /// Leave out tokens less likely than P times the most likely one; 0: none
    #[arg(long, value_name = "P", default_value_t = 0.05, value_parser = share)]
    min_p: f32,
    /// Make the last 64 tokens less likely to come again; 1: no less, 1.1: somewhat
    #[arg(long, value_name = "R", default_value_t = 1.0, value_parser = positive)]
    repeat_penalty: f32,
    /// Another number, another text, at temperatures over 0
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
}

impl Choice {
    fn sampling(&self) -> Sampling {
        Sampling {
            temperature: self.temperature,
            top_k: self.top_k,
            top_p: self.top_p,
            min_p: self.min_p,
            repeat_penalty: self.repeat_penalty,
            seed: self.seed,
        }
    }
}

fn number(text: &str, fits: impl Fn(f32) -> bool, needed: &str) -> Result<f32, String> {
    let number = text.parse().ok().filter(|&number: &f32| number.is_finite() && fits(number));
    number.ok_or_else(|| format!("{needed} is needed"))
}

fn not_negative(text: &str) -> Result<f32, String> {
    number(text, |number| number >= 0.0, "a number from 0 on")
}

fn positive(text: &str) -> Result<f32, String> {
    number(text, |number| number > 0.0, "a number over 0")
}

fn share(text: &str) -> Result<f32, String> {
    number(text, |number| (0.0..=1.0).contains(&number), "a number from 0 to 1")
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
    if let Some(context) = args.context {
        engine = engine.with_context(context.get());
    }
    let mut teller = Teller {
        tokenizer: &tokenizer,
        engine,
        sampler: Sampler::new(args.choice.sampling()),
        read: Vec::new(),
        most: args.tokens,
    };
    let told = match args.interactive {
        true => teller.converse(template.as_ref(), args.prompt.clone()),
        false => {
            let prompt = args.prompt.as_deref().unwrap_or("Once upon a time");
            teller.turn(template.as_ref(), &mut Vec::new(), prompt)
        }
    };
    let outcome = told.map_err(|error| match error {
        Failure::Model(error) => named(error),
        Failure::PromptTooLong { tokens, room } => format!(
            "the prompt has {tokens} tokens, the context of this model holds {room}: give a shorter one"
        ),
        Failure::Input(error) => format!("cannot read from standard input: {error}"),
        Failure::Output(error) => format!("cannot write to standard output: {error}"),
    })?;
    outcome.report(&path, loading);
    report_memory(&teller.engine);
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
struct Teller<'m> {
    tokenizer: &'m Tokenizer<'m>,
    engine: Engine<'m>,
    sampler: Sampler,
    /// The tokens that the engine has read.
    read: Vec<u32>,
    /// Most tokens to write at a time.
    most: usize,
}

enum Failure {
    Model(hk_examples::Error),
    PromptTooLong { tokens: usize, room: usize },
    Input(io::Error),
    Output(io::Error),
}

impl From<hk_examples::Error> for Failure {
    fn from(error: hk_examples::Error) -> Self {
        Failure::Model(error)
    }
}

/// How a text came to its end, and what it took; of several texts, the last and the sum.
#[derive(Default)]
struct Outcome {
    end: Option<End>,
    read: usize,
    written: usize,
    reading: Duration,
    writing: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// The model ended the text.
    Told,
    /// As many tokens as were asked for.
    Enough,
    /// The model can read no further than this many tokens.
    ContextFull(usize),
    /// Nobody reads any more.
    Closed,
}

impl Teller<'_> {
    /// Answers or goes on with `first`, if it is there, then line after line of standard
    /// input, until that ends or the context is full.
    fn converse(
        &mut self,
        template: Option<&ChatTemplate>,
        first: Option<String>,
    ) -> Result<Outcome, Failure> {
        let mut said = Vec::new();
        let mut total = Outcome::default();
        let mut next = first;
        loop {
            let line = match next.take() {
                Some(line) => line,
                None => match ask()? {
                    Some(line) => line,
                    None => return Ok(total),
                },
            };
            if line.trim().is_empty() {
                continue;
            }
            let outcome = match self.turn(template, &mut said, &line) {
                // What has been said so far fills it.
                Err(Failure::PromptTooLong { .. }) if said.len() > 1 => {
                    let end = Some(End::ContextFull(self.engine.position()));
                    Outcome { end, ..Outcome::default() }
                }
                outcome => outcome?,
            };
            total.add(&outcome);
            if outcome.end == Some(End::Enough) {
                outcome.report_end();
            }
            if matches!(outcome.end, Some(End::ContextFull(_) | End::Closed)) {
                return Ok(total);
            }
        }
    }

    /// Answers `text` after what has been `said`, by the template; without one, goes on
    /// with it.
    fn turn(
        &mut self,
        template: Option<&ChatTemplate>,
        said: &mut Vec<Message>,
        text: &str,
    ) -> Result<Outcome, Failure> {
        let Some(template) = template else {
            let tokens = self.tokenizer.encode_prompt(text)?;
            let (outcome, _) = self.tell(text, &tokens)?;
            return Ok(outcome);
        };
        said.push(Message::new(Role::User, text));
        let tokens = template.tokens(self.tokenizer, said)?;
        let (outcome, answer) = self.tell("", &tokens)?;
        said.push(Message::new(Role::Assistant, answer));
        Ok(outcome)
    }

    /// Shows the `start` of a text, whose tokens are `tokens`, then goes on with it, each
    /// token as soon as it is there. Gives what was written.
    fn tell(&mut self, start: &str, tokens: &[u32]) -> Result<(Outcome, String), Failure> {
        let room = self.engine.context();
        if tokens.len() > room {
            return Err(Failure::PromptTooLong { tokens: tokens.len(), room });
        }
        let started = Instant::now();
        let mut outcome = Outcome { end: show(start)?, ..Outcome::default() };
        outcome.read = self.read(tokens)?;
        outcome.reading = started.elapsed();
        let started = Instant::now();
        let mut stream = TextStream::default();
        let mut text = String::new();
        while outcome.end.is_none() {
            if outcome.written == self.most {
                outcome.end = Some(End::Enough);
                break;
            }
            let token = match self.next()? {
                Ok(token) => token,
                Err(end) => {
                    outcome.end = Some(end);
                    break;
                }
            };
            let mut more = stream.push(&self.tokenizer.bytes(token)?);
            if start.is_empty() && text.is_empty() {
                // Many vocabularies begin an answer with a space.
                more = more.trim_start().to_owned();
            }
            text.push_str(&more);
            outcome.end = show(&more)?;
            outcome.written += 1;
            self.engine.push(token)?;
            self.read.push(token);
        }
        let rest = stream.finish();
        text.push_str(&rest);
        show(&rest)?;
        show("\n")?;
        outcome.writing = started.elapsed();
        Ok((outcome, text))
    }

    /// Has the model read `tokens`, of which those are skipped that it has read before.
    /// Gives the number of the others.
    fn read(&mut self, tokens: &[u32]) -> Result<usize, Failure> {
        let same = self.read.iter().zip(tokens).take_while(|(read, token)| read == token).count();
        // The last one is needed for what follows it.
        let same = same.min(tokens.len().saturating_sub(1));
        self.engine.rewind(same);
        self.read.truncate(same);
        let new = &tokens[same..];
        self.engine.read(new)?;
        self.read.extend(new);
        new.iter().for_each(|&token| self.sampler.accept(token));
        Ok(new.len())
    }

    /// The next token, unless the text ends here.
    fn next(&mut self) -> Result<Result<u32, End>, Failure> {
        if self.engine.room() == 0 {
            return Ok(Err(End::ContextFull(self.engine.position())));
        }
        let token = self.sampler.choose(self.engine.logits()?)?;
        if self.tokenizer.is_end(token) {
            return Ok(Err(End::Told));
        }
        self.sampler.accept(token);
        Ok(Ok(token))
    }
}

/// The next line of standard input, without its end; `None` after the last.
fn ask() -> Result<Option<String>, Failure> {
    if io::stdin().is_terminal() {
        eprint!("> ");
    }
    let mut line = Vec::new();
    io::stdin().lock().read_until(b'\n', &mut line).map_err(Failure::Input)?;
    if line.is_empty() {
        return Ok(None);
    }
    let text = String::from_utf8(line);
    let text =
        text.map_err(|error| Failure::Input(io::Error::new(ErrorKind::InvalidData, error)))?;
    Ok(Some(text.trim_end_matches(['\r', '\n']).to_owned()))
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
    fn add(&mut self, other: &Outcome) {
        self.end = other.end.filter(|end| *end != End::Enough);
        self.read += other.read;
        self.written += other.written;
        self.reading += other.reading;
        self.writing += other.writing;
    }

    fn report_end(&self) {
        match self.end {
            None | Some(End::Told | End::Closed) => eprintln!(),
            Some(End::Enough) => {
                eprintln!("\nstopped after {} tokens, as asked for by -n", self.written);
            }
            Some(End::ContextFull(tokens)) => {
                eprintln!("\nstopped: the context of this model is full, at {tokens} tokens");
            }
        }
    }

    fn report(&self, path: &Path, loading: Duration) {
        self.report_end();
        eprintln!(
            "{}: loaded in {:.0} ms; prompt {}; text {}",
            path.file_name().unwrap_or(path.as_os_str()).display(),
            loading.as_secs_f64() * 1e3,
            rate(self.read, self.reading),
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
