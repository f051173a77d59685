//! The signals that a broker handles, caught from before the start, so that none is lost.
//!
//! | Signal | Broker |
//! |---|---|
//! | SIGHUP | reads its configuration, keys and trust again |
//! | SIGTERM, SIGINT | stops in order |
//! | SIGQUIT | writes its state to the log, then stops in order |
//! | SIGUSR1 | continues |
//! | SIGINT during a stop | ends immediately |

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Instant;

#[cfg(test)]
mod tests;

/// Longest time from the signal to the end of the process. If the device needs longer to write the
/// memory, the next start has to recover.
const STOP_LIMIT: Duration = Duration::from_secs(120);

/// The broker's signals, which from now on no longer end the process.
pub struct Signals {
    orders: Receiver<Order>,
    sender: Sender<Order>,
}

/// A signal's request to the running broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Read configuration, keys and trust again.
    Reload,
    /// Stop in order.
    Stop,
    /// Write the state to the log, then stop in order.
    DumpAndStop,
    /// Stop in order: the broker cannot continue in its cluster.
    Leave,
}

/// An event that the signal thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Hangup,
    Terminate,
    Interrupt,
    Quit,
    /// The time limit of a stop in order has passed.
    LimitReached,
}

/// Consequence of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Give(Order),
    /// End the process now.
    End(&'static str),
}

/// Meaning of a signal, which depends on earlier signals.
#[derive(Debug, Default)]
struct Course {
    is_stopping: bool,
}

impl Course {
    fn on(&mut self, event: Event) -> Option<Action> {
        let order = match (event, self.is_stopping) {
            (Event::Hangup, false) => return Some(Action::Give(Order::Reload)),
            (Event::Terminate | Event::Interrupt, false) => Order::Stop,
            (Event::Quit, false) => Order::DumpAndStop,
            (Event::Interrupt, true) => return Some(Action::End("SIGINT during the stop")),
            (Event::LimitReached, true) => return Some(Action::End("the stop took too long")),
            (Event::Hangup | Event::Terminate | Event::Quit, true) | (Event::LimitReached, false) => {
                return None;
            }
        };
        self.is_stopping = true;
        Some(Action::Give(order))
    }
}

/// The event queues of the signals.
struct Caught {
    hangup: Signal,
    terminate: Signal,
    interrupt: Signal,
    quit: Signal,
    /// The signal is caught and ignored.
    _user: Signal,
}

impl Caught {
    fn catch() -> io::Result<Self> {
        Ok(Self {
            hangup: signal(SignalKind::hangup())?,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            quit: signal(SignalKind::quit())?,
            _user: signal(SignalKind::user_defined1())?,
        })
    }

    async fn next(&mut self) -> Event {
        tokio::select! {
            _ = self.hangup.recv() => Event::Hangup,
            _ = self.terminate.recv() => Event::Terminate,
            _ = self.interrupt.recv() => Event::Interrupt,
            _ = self.quit.recv() => Event::Quit,
        }
    }
}

impl Signals {
    /// Catches the signals for the whole process.
    ///
    /// # Errors
    /// If the kernel gives no thread or no event queue.
    pub fn catch() -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        let caught = {
            let _entered = runtime.enter();
            Caught::catch()?
        };
        let (sender, orders) = channel();
        let (name, own) = ("signals".to_owned(), sender.clone());
        std::thread::Builder::new().name(name).spawn(move || watch(&runtime, caught, &own))?;
        Ok(Self { orders, sender })
    }

    /// A way to send commands other than signals.
    pub(super) fn sender(&self) -> Sender<Order> {
        self.sender.clone()
    }

    /// The next order; none if there is none within `limit`. Blocks.
    pub(super) fn next(&self, limit: Option<Duration>) -> Option<Order> {
        let received = match limit {
            Some(limit) => self.orders.recv_timeout(limit),
            None => self.orders.recv().map_err(RecvTimeoutError::from),
        };
        match received {
            Ok(order) => Some(order),
            Err(RecvTimeoutError::Timeout) => None,
            // The other end is a thread that runs until the process ends.
            Err(RecvTimeoutError::Disconnected) => Some(Order::Stop),
        }
    }
}

/// Converts signals to orders until the process ends.
fn watch(runtime: &Runtime, mut caught: Caught, orders: &Sender<Order>) {
    let mut course = Course::default();
    let mut limit = None;
    loop {
        let event = runtime.block_on(async {
            match limit {
                None => caught.next().await,
                Some(at) => tokio::time::timeout_at(at, caught.next()).await.unwrap_or(Event::LimitReached),
            }
        });
        match course.on(event) {
            None => {}
            Some(Action::End(reason)) => {
                tracing::error!("{reason}: the process exits immediately; the next start checks the logs");
                std::process::exit(1);
            }
            Some(Action::Give(order)) => {
                if order != Order::Reload {
                    limit = Some(Instant::now() + STOP_LIMIT);
                }
                // If a broker did not start, no thread receives commands.
                let _ = orders.send(order);
            }
        }
    }
}
