//! Ctrl-C and its kin: a command that writes a file stops, takes its temporary file away
//! and says so.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

static ASKED: AtomicBool = AtomicBool::new(false);

/// From now on an interruption is a request, which [`requested`] tells. A second one ends the
/// process at once.
pub fn catch() {
    // Where no handler can be set, an interruption ends the process as it always did.
    let _ = ctrlc::set_handler(|| {
        if ASKED.swap(true, Ordering::Relaxed) {
            std::process::exit(1);
        }
    });
}

/// Whether to stop.
pub fn requested() -> ControlFlow<()> {
    match ASKED.load(Ordering::Relaxed) {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    }
}
