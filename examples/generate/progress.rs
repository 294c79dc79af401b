//! A bar on standard error, for a long prompt or many runs: on a terminal, after a second.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

const PATIENCE: Duration = Duration::from_secs(1);

/// A bar that counts tokens, or runs.
pub struct Progress {
    bar: ProgressBar,
    started: Instant,
}

impl Progress {
    /// A bar towards `total`, with a word on what is being done.
    pub fn new(what: &'static str, total: usize) -> Self {
        let target = ProgressDrawTarget::hidden();
        let bar = ProgressBar::with_draw_target(Some(total as u64), target);
        // Short enough for a narrow terminal.
        if let Ok(style) = ProgressStyle::with_template("{msg} {pos}/{len} {wide_bar} {eta}") {
            bar.set_style(style);
        }
        bar.set_message(what);
        Progress { bar, started: Instant::now() }
    }

    /// Moves the bar to `done`.
    pub fn set(&self, done: usize) {
        if self.bar.is_hidden() && self.started.elapsed() > PATIENCE {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.bar.set_position(done as u64);
    }
}

impl Drop for Progress {
    /// Takes the bar off the screen.
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
