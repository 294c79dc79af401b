//! Options for the choice of tokens, and what numbers options take.

use std::num::NonZeroUsize;

use hk_examples::Sampling;

/// How the next token is chosen. The same options give the same text on every machine.
#[derive(clap::Args)]
#[command(next_help_heading = "Choice of tokens")]
pub struct Choice {
    /// 0 takes the most likely token every time; 0.8 makes texts differ, more makes them wild
    #[arg(long, value_name = "T", default_value_t = 0.0, value_parser = not_negative)]
    temperature: f32,
    /// Choose among the K most likely tokens; 0: among all
    #[arg(long, value_name = "K", default_value_t = 40, value_parser = count)]
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
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = seed)]
    seed: u64,
}

impl Choice {
    /// For a sampler.
    pub fn sampling(&self) -> Sampling {
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

/// Most threads that can be asked for: more only wait for each other.
const MOST_THREADS: usize = 1024;

/// A number of tokens, which may be none.
pub fn count(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| "a whole number from 0 on is needed".into())
}

/// A number of tokens that there is room for.
pub fn room(text: &str) -> Result<NonZeroUsize, String> {
    text.parse().map_err(|_| "a whole number from 1 on is needed".into())
}

/// A number of threads.
pub fn threads(text: &str) -> Result<NonZeroUsize, String> {
    let count = text.parse().ok().filter(|count: &NonZeroUsize| count.get() <= MOST_THREADS);
    count.ok_or_else(|| format!("a whole number from 1 to {MOST_THREADS} is needed"))
}

fn seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("a whole number from 0 to {} is needed", u64::MAX))
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
