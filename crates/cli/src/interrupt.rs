//! SIGINT, SIGTERM and SIGHUP, for commands that need to clean up before they end.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::failure::Failure;

static ASKED: AtomicBool = AtomicBool::new(false);

/// Exit code of a process that ends at once at the second signal.
const SECOND: i32 = 130;

/// Handles the signals for the rest of the process: the first one requests the end, the second one
/// ends the process at once.
pub(crate) fn catch() -> Result<(), Failure> {
    let asked = || {
        if ASKED.swap(true, Ordering::Relaxed) {
            std::process::exit(SECOND);
        }
    };
    ctrlc::set_handler(asked).map_err(|error| Failure::new(format!("cannot catch signals: {error}")))
}

/// True once a signal has come.
pub(crate) fn is_asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}
