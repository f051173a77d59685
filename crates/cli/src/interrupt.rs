//! SIGINT, SIGTERM and SIGHUP, for commands that need to clean up before they end.

use std::sync::atomic::{AtomicBool, Ordering};

use levada_terminal::failure::{Failure, INTERRUPTED};

static ASKED: AtomicBool = AtomicBool::new(false);

/// Handles the signals for the rest of the process: the first one requests the end, the second one
/// ends the process immediately.
pub(crate) fn catch() -> Result<(), Failure> {
    handle(|| {
        if ASKED.swap(true, Ordering::Relaxed) {
            std::process::exit(INTERRUPTED.into());
        }
    })
}

/// Ends the process at a signal, as without this call, but after `restore`.
pub(crate) fn end_after(restore: impl Fn() + Send + 'static) -> Result<(), Failure> {
    handle(move || {
        restore();
        std::process::exit(INTERRUPTED.into());
    })
}

fn handle(handler: impl FnMut() + Send + 'static) -> Result<(), Failure> {
    ctrlc::set_handler(handler).map_err(|error| Failure::new(format!("cannot catch signals: {error}")))
}

/// True once a signal has arrived.
#[cfg(not(test))]
pub(crate) fn is_asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}

/// In a test, a signal is sent to one thread.
#[cfg(test)]
pub(crate) fn is_asked() -> bool {
    ASKED.load(Ordering::Relaxed) || fake::ASKED_HERE.get()
}

#[cfg(test)]
pub(crate) mod fake {
    use std::cell::Cell;

    thread_local! {
        pub(super) static ASKED_HERE: Cell<bool> = const { Cell::new(false) };
    }

    /// A signal to this thread, until the value is dropped.
    pub(crate) struct FakeSignal;

    impl FakeSignal {
        pub(crate) fn now() -> Self {
            ASKED_HERE.set(true);
            Self
        }
    }

    impl Drop for FakeSignal {
        fn drop(&mut self) {
            ASKED_HERE.set(false);
        }
    }
}
