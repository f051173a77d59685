//! The signals that stop or reload a server, caught from before the start, so that none is lost.

use std::io;
use std::sync::mpsc::{Receiver, channel};

use tokio::signal::unix::{SignalKind, signal};

/// Meaning of a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM or SIGINT.
    Stop,
    /// SIGHUP.
    Reload,
}

/// SIGTERM, SIGINT and SIGHUP, which from now on no longer end the process.
#[derive(Debug)]
pub struct Signals {
    received: Receiver<Signal>,
}

impl Signals {
    /// Catches the signals for the whole process.
    ///
    /// # Errors
    /// If the kernel gives no thread or no event queue.
    pub fn catch() -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        let (mut terminate, mut interrupt, mut hangup) = {
            let _entered = runtime.enter();
            let of = |kind| signal(kind);
            (of(SignalKind::terminate())?, of(SignalKind::interrupt())?, of(SignalKind::hangup())?)
        };
        let (sender, received) = channel();
        std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
            loop {
                let next = runtime.block_on(async {
                    tokio::select! {
                        _ = terminate.recv() => Signal::Stop,
                        _ = interrupt.recv() => Signal::Stop,
                        _ = hangup.recv() => Signal::Reload,
                    }
                });
                if sender.send(next).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { received })
    }

    /// Waits for the next signal.
    pub(crate) fn next(&self) -> Signal {
        // The other end is a thread that runs until the process ends.
        self.received.recv().unwrap_or(Signal::Stop)
    }
}
