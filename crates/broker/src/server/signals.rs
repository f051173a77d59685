//! The signals that stop a broker, caught from before it starts so that none is lost.

use std::io;
use std::sync::mpsc::{Receiver, channel};

use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGTERM and SIGINT, which from now on no longer end the process.
pub struct Signals {
    pub(super) received: Receiver<()>,
}

impl Signals {
    /// Takes the signals over, for the whole process.
    ///
    /// # Errors
    /// If the kernel gives no thread or no event queue.
    pub fn catch() -> io::Result<Signals> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        let (mut terminate, mut interrupt) = {
            let _entered = runtime.enter();
            (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?)
        };
        let (sender, received) = channel();
        std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
            let mut next = || runtime.block_on(either(&mut terminate, &mut interrupt));
            loop {
                next();
                if sender.send(()).is_err() {
                    return;
                }
            }
        })?;
        Ok(Signals { received })
    }
}

async fn either(one: &mut Signal, other: &mut Signal) {
    tokio::select! {
        _ = one.recv() => {}
        _ = other.recv() => {}
    }
}
