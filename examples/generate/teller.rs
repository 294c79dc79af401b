//! A model at work: reads, writes, and keeps count.

use std::io::{self, BufRead, ErrorKind, IsTerminal, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use hk_examples::{ChatTemplate, Engine, Message, Role, Sampler, TextStream, Tokenizer};

use crate::progress::Progress;
use crate::say;

/// Tokens of a prompt between two looks at the clock; the engine takes this many at once.
const STEP: usize = 64;

/// A model on its way through a text.
pub struct Teller<'m> {
    tokenizer: &'m Tokenizer<'m>,
    engine: Engine<'m>,
    sampler: Sampler,
    /// The tokens that the engine has read.
    read: Vec<u32>,
    /// Most tokens to write at a time.
    most: usize,
}

/// Why a text could not be read or written on.
pub enum Failure {
    Model(hk_examples::Error),
    PromptTooLong {
        tokens: usize,
        room: usize,
    },
    /// Not one token to go on from.
    PromptEmpty,
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
pub struct Outcome {
    end: Option<End>,
    read: usize,
    written: usize,
    reading: Duration,
    writing: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The model ended the text.
    Told,
    /// As many tokens as were asked for.
    Enough,
    /// The model can read no further than this many tokens.
    ContextFull(usize),
    /// Nobody reads any more.
    Closed,
}

impl<'m> Teller<'m> {
    /// Writes at most `most` tokens at a time.
    pub fn new(
        tokenizer: &'m Tokenizer<'m>,
        engine: Engine<'m>,
        sampler: Sampler,
        most: usize,
    ) -> Self {
        Teller { tokenizer, engine, sampler, read: Vec::new(), most }
    }

    /// The engine at work.
    pub fn engine(&self) -> &Engine<'m> {
        &self.engine
    }

    /// Answers or goes on with `first`, if it is there, then line after line of standard
    /// input, until that ends or the context is full.
    pub fn converse(
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
    pub fn turn(
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

    /// Reads `tokens` and shows the `start` of the text that they are, then goes on with it,
    /// each token as soon as it is there. Gives what was written.
    fn tell(&mut self, start: &str, tokens: &[u32]) -> Result<(Outcome, String), Failure> {
        let room = self.engine.context();
        if tokens.is_empty() {
            return Err(Failure::PromptEmpty);
        }
        if tokens.len() > room {
            return Err(Failure::PromptTooLong { tokens: tokens.len(), room });
        }
        let started = Instant::now();
        let mut outcome = Outcome { read: self.read(tokens)?, ..Outcome::default() };
        outcome.reading = started.elapsed();
        // Not before: where the text stands, a bar could not.
        outcome.end = show(start)?;
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
        if same < self.read.len() {
            self.engine.rewind(same);
            self.read.truncate(same);
            self.sampler.restart(&self.read);
        }
        let new = &tokens[same..];
        let progress = Progress::new("reading", new.len());
        for (step, tokens) in new.chunks(STEP).enumerate() {
            self.engine.read(tokens)?;
            self.read.extend(tokens);
            progress.set(step * STEP + tokens.len());
        }
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
        let _ = write!(io::stderr(), "> ");
    }
    let mut line = Vec::new();
    io::stdin().lock().read_until(b'\n', &mut line).map_err(Failure::Input)?;
    if line.is_empty() {
        return Ok(None);
    }
    let text = String::from_utf8(line);
    let no_text =
        |_| Failure::Input(io::Error::new(ErrorKind::InvalidData, "it is not UTF-8 text"));
    let text = text.map_err(no_text)?;
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
            None | Some(End::Told | End::Closed) => say(""),
            Some(End::Enough) => {
                say(&format!("\nstopped after {}, as many as -n allows", tokens(self.written)));
            }
            Some(End::ContextFull(full)) => {
                say(&format!("\nstopped: the context is full, at {}", tokens(full)));
            }
        }
    }

    /// Says how it ended and what it took.
    pub fn report(&self, path: &Path, loading: Duration) {
        self.report_end();
        say(&format!(
            "{}: loaded in {:.0} ms; prompt {}; text {}",
            path.file_name().unwrap_or(path.as_os_str()).display(),
            loading.as_secs_f64() * 1e3,
            rate(self.read, self.reading),
            rate(self.written, self.writing),
        ));
    }
}

/// "1 token", "12 tokens"
pub fn tokens(count: usize) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{count} token{ending}")
}

/// "12 tokens in 34 ms (353 a second)", "5 tokens in 1.20 s (4.2 a second)"
fn rate(count: usize, time: Duration) -> String {
    let seconds = time.as_secs_f64();
    if count == 0 || seconds <= 0.0 {
        return tokens(count);
    }
    let time = match seconds < 1.0 {
        true => format!("{:.0} ms", seconds * 1e3),
        false => format!("{seconds:.2} s"),
    };
    let speed = count as f64 / seconds;
    let digits = if speed < 100.0 { 1 } else { 0 };
    format!("{} in {time} ({speed:.digits$} a second)", tokens(count))
}
