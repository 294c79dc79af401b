//! A bar on standard error while a long prompt is read: on a terminal, after a second.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

const PATIENCE: Duration = Duration::from_secs(1);

/// A bar that counts tokens.
pub struct Progress {
    bar: ProgressBar,
    started: Instant,
}

impl Progress {
    /// A bar towards `total` tokens.
    pub fn new(total: usize) -> Self {
        let target = ProgressDrawTarget::hidden();
        let bar = ProgressBar::with_draw_target(Some(total as u64), target);
        // Short enough for a narrow terminal.
        if let Ok(style) = ProgressStyle::with_template("reading {pos}/{len} {wide_bar} {eta}") {
            bar.set_style(style);
        }
        Progress { bar, started: Instant::now() }
    }

    /// Moves the bar to `done` tokens.
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
