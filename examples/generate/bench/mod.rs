//! How fast a model reads and writes, and where its time goes.

mod clock;
mod report;

use std::io;
use std::num::NonZeroUsize;
use std::path::Path;
use std::time::Duration;

use hk_examples::{Engine, Part, Probe, Sampler};

use self::clock::{Clock, Times};
use crate::progress::Progress;

/// Options for measuring.
#[derive(clap::Args)]
#[command(next_help_heading = "Measuring")]
pub struct Options {
    /// Write no text, but measure: PROMPT tokens read at once, then DECODE tokens one by one,
    /// chosen as the options above say; medians of several runs
    #[arg(
        long = "bench",
        value_name = "PROMPT,DECODE",
        value_parser = lengths,
        conflicts_with_all = ["prompt", "chat", "interactive", "tokens"]
    )]
    pub lengths: Option<Lengths>,
    /// Runs that --bench measures, after one that it does not
    #[arg(long, value_name = "N", default_value = "5", requires = "lengths", value_parser = runs)]
    runs: NonZeroUsize,
    /// Give what --bench measures as JSON: tokens a second, bytes of memory beside the file,
    /// and in `parts` the seconds that each part of a median run took, the parts of the
    /// prompt under `prompt_`..., those of the tokens after it under `decode_`...
    #[arg(long, requires = "lengths")]
    json: bool,
}

/// Numbers of tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lengths {
    prompt: usize,
    decode: usize,
}

fn lengths(text: &str) -> Result<Lengths, String> {
    let count = |text: &str| text.parse().ok().filter(|&count: &usize| count > 0);
    let both = text.split_once(',').and_then(|(prompt, decode)| {
        Some(Lengths { prompt: count(prompt)?, decode: count(decode)? })
    });
    both.ok_or_else(|| "two whole numbers from 1 on are needed, such as 256,64".into())
}

fn runs(text: &str) -> Result<NonZeroUsize, String> {
    text.parse().map_err(|_| "a whole number from 1 on is needed".into())
}

/// What is measured.
pub struct Subject<'a> {
    /// The model's file.
    pub model: &'a Path,
    /// Number of tokens that it knows.
    pub vocabulary: usize,
    /// Name of the kernels.
    pub backend: &'a str,
    pub threads: usize,
}

struct Measured<'a> {
    subject: Subject<'a>,
    runs: usize,
    /// Of the tokens read at once.
    prompt: Run,
    /// Of the tokens one by one.
    decode: Run,
    /// Most memory of this process that is no part of a file.
    private_bytes: Option<usize>,
}

/// The median run.
struct Run {
    tokens: usize,
    times: Times,
}

impl Run {
    fn seconds(&self) -> f64 {
        total(&self.times).as_secs_f64()
    }

    fn tokens_per_s(&self) -> f64 {
        self.tokens as f64 / self.seconds()
    }

    /// Seconds of one part.
    fn part(&self, part: Part) -> Option<f64> {
        let (_, time) = self.times.iter().find(|(known, _)| *known == part)?;
        Some(time.as_secs_f64())
    }
}

fn total(times: &Times) -> Duration {
    times.iter().map(|(_, time)| *time).sum()
}

/// Measures `engine` and writes what was found to standard output.
pub fn run(
    options: &Options,
    lengths: Lengths,
    subject: Subject<'_>,
    engine: Engine<'_>,
    sampler: &Sampler,
) -> Result<(), Failure> {
    let (tokens, room) = (lengths.prompt.saturating_add(lengths.decode), engine.context());
    if tokens > room {
        return Err(Failure::TooLong { tokens, room });
    }
    let clock = Clock::new();
    let prompt = prompt(lengths.prompt, subject.vocabulary);
    let engine = engine.with_probe(&clock);
    let mut bench = Bench { engine, clock: &clock, sampler, prompt, decode: lengths.decode };
    let runs = options.runs.get();
    let progress = Progress::new("measuring", runs + 1);
    let (mut prompts, mut decodes) = (Vec::new(), Vec::new());
    let mut private_bytes = None;
    for run in 0..=runs {
        let (prompt, decode) = bench.run()?;
        progress.set(run + 1);
        private_bytes = private_bytes.max(crate::private_memory());
        // The first only warms up: memory is got, the file is read.
        if run > 0 {
            prompts.push(prompt);
            decodes.push(decode);
        }
    }
    drop(progress);
    let measured = Measured {
        subject,
        runs,
        prompt: Run { tokens: lengths.prompt, times: median(prompts) },
        decode: Run { tokens: lengths.decode, times: median(decodes) },
        private_bytes,
    };
    let written = match options.json {
        true => measured.write_json(&mut io::stdout().lock()),
        false => measured.write_table(&mut io::stdout().lock()),
    };
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::Output(error)),
        _ => Ok(()),
    }
}

/// Why nothing could be measured.
pub enum Failure {
    Model(hk_examples::Error),
    TooLong { tokens: usize, room: usize },
    Output(io::Error),
}

impl From<hk_examples::Error> for Failure {
    fn from(error: hk_examples::Error) -> Self {
        Failure::Model(error)
    }
}

/// The run of median time; the slower one of two.
fn median(mut runs: Vec<Times>) -> Times {
    runs.sort_by_key(total);
    let middle = runs.len() / 2;
    runs.into_iter().nth(middle).unwrap_or_default()
}

struct Bench<'m> {
    engine: Engine<'m>,
    clock: &'m Clock,
    sampler: &'m Sampler,
    prompt: Vec<u32>,
    decode: usize,
}

impl Bench<'_> {
    /// Reads and writes a text from its beginning: the times of both.
    fn run(&mut self) -> Result<(Times, Times), hk_examples::Error> {
        let (engine, clock) = (&mut self.engine, self.clock);
        let mut sampler = self.sampler.clone();
        sampler.restart(&self.prompt);
        engine.rewind(0);
        let mut next = |engine: &mut Engine<'_>| {
            let logits = engine.logits()?;
            clock.enter(Part::Sampling);
            let token = sampler.choose(logits)?;
            sampler.accept(token);
            clock.enter(Part::Rest);
            Ok::<_, hk_examples::Error>(token)
        };
        clock.restart();
        engine.read(&self.prompt)?;
        let mut token = next(engine)?;
        let reading = clock.times();
        clock.restart();
        for _ in 0..self.decode {
            engine.push(token)?;
            token = next(engine)?;
        }
        Ok((reading, clock.times()))
    }
}

/// As many tokens, all over the vocabulary and always the same.
fn prompt(tokens: usize, vocabulary: usize) -> Vec<u32> {
    // A prime far from any size of a vocabulary: neighbours are far from each other.
    (1..=tokens).map(|i| (i.wrapping_mul(7919) % vocabulary.max(1)) as u32).collect()
}
