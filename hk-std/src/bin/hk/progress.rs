//! Progress bars: on standard error, only on a terminal, only for what takes over a second.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

const PATIENCE: Duration = Duration::from_secs(1);

/// A bar that counts bytes or steps and shows itself once a second has passed.
pub struct Progress {
    bar: ProgressBar,
    started: Instant,
    shown: bool,
}

impl Progress {
    /// A bar towards `total` bytes, with a word on what is being done.
    pub fn bytes(total: u64, what: &'static str) -> Self {
        let template = "{msg} {wide_bar} {bytes}/{total_bytes} {binary_bytes_per_sec} {eta}";
        let progress = Progress::new(total, template);
        progress.bar.set_message(what);
        progress
    }

    /// A bar towards `total` steps.
    pub fn steps(total: u64) -> Self {
        Progress::new(total, "{msg:19} {wide_bar} {pos}/{len} {eta}")
    }

    fn new(total: u64, template: &str) -> Self {
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Progress { bar, started: Instant::now(), shown: false }
    }

    /// Says what is being done now.
    pub fn say(&self, what: String) {
        self.bar.set_message(what);
    }

    /// Moves the bar to `done` bytes or steps.
    pub fn set(&mut self, done: u64) {
        if !self.shown && self.started.elapsed() > PATIENCE {
            self.shown = true;
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.bar.set_position(done);
    }

    /// Moves the bar to `done` of `total`, which was not known at first.
    pub fn set_of(&mut self, done: u64, total: u64) {
        self.bar.set_length(total);
        self.set(done);
    }

    /// Moves the bar on by `more` bytes.
    pub fn advance(&mut self, more: u64) {
        self.set(self.bar.position().saturating_add(more));
    }
}

impl Drop for Progress {
    /// Takes the bar off the screen.
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
