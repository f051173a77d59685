//! Ctrl-C: the current run completes, measured values are kept, and temporary files are removed.

use std::sync::atomic::{AtomicBool, Ordering};

static ASKED: AtomicBool = AtomicBool::new(false);

/// The user's request to stop.
#[derive(Debug)]
pub struct Interrupt;

impl Interrupt {
    /// Handles SIGINT and SIGTERM for the rest of the process. The first one requests a stop, the
    /// second one ends the process at once; files without a name are removed even then.
    pub fn catch() {
        // Other code handles the signals, and ends the process.
        let _ = ctrlc::set_handler(|| {
            if ASKED.swap(true, Ordering::Relaxed) {
                std::process::exit(130);
            }
        });
    }

    /// True if a stop was requested.
    pub fn asked() -> bool {
        ASKED.load(Ordering::Relaxed)
    }
}
