//! Progress bars: on standard error, only on a terminal, only for what takes over a second.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

const PATIENCE: Duration = Duration::from_secs(1);

/// A bar that counts bytes and shows itself once a second has passed.
pub struct Progress {
    bar: ProgressBar,
    started: Instant,
    shown: bool,
}

impl Progress {
    /// A bar towards `total` bytes, with a word on what is being done.
    pub fn bytes(total: u64, what: &'static str) -> Self {
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden());
        let template = "{msg} {wide_bar} {bytes}/{total_bytes} {binary_bytes_per_sec} {eta}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_message(what);
        Progress { bar, started: Instant::now(), shown: false }
    }

    /// Moves the bar to `done` bytes.
    pub fn set(&mut self, done: u64) {
        if !self.shown && self.started.elapsed() > PATIENCE {
            self.shown = true;
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.bar.set_position(done);
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
