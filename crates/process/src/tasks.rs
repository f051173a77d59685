//! Background work and its panics. A panic is logged as an error with the name of the work, and
//! each kind of work has a fate: it begins again after a pause, or the broker stops in order,
//! because the state that the work has left cannot be trusted.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use tokio::task::JoinHandle;

/// Pause before work begins again after a panic.
pub const RESTART_PAUSE: Duration = Duration::from_millis(if cfg!(test) { 20 } else { 1000 });

/// Work that has panicked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name} has panicked ({cause}): report the panic, which the log shows before this line")]
pub struct Panicked {
    name: String,
    cause: String,
}

impl Panicked {
    fn new(name: &str, payload: &(dyn Any + Send)) -> Self {
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        let panicked = Self { name: name.to_owned(), cause: text.unwrap_or("no message").to_owned() };
        tracing::error!(
            task = name,
            cause = panicked.cause,
            "background work has panicked: report the panic"
        );
        panicked
    }
}

/// Does work on this thread. A panic is logged with the name of the work.
///
/// # Errors
/// The work has panicked. The caller decides on the state that the work has left.
pub fn guarded<T>(name: &str, work: impl FnOnce() -> T) -> Result<T, Panicked> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|payload| Panicked::new(name, &*payload))
}

/// Runs a task to its end within the task that awaits it, on any runtime. A panic is logged with
/// the name of the work.
///
/// # Errors
/// The work has panicked. The caller decides on the state that the work has left.
pub async fn caught<T>(name: &str, task: impl Future<Output = T>) -> Result<T, Panicked> {
    let mut task = pin!(task);
    let poll = |context: &mut std::task::Context<'_>| match catch_unwind(AssertUnwindSafe(|| {
        task.as_mut().poll(context)
    })) {
        Ok(polled) => polled.map(Ok),
        Err(payload) => Poll::Ready(Err(Panicked::new(name, &*payload))),
    };
    std::future::poll_fn(poll).await
}

/// Starts a task on this thread's [`tokio::task::LocalSet`]. A task that panics begins again after
/// a pause, so it must keep nothing that a panic can leave half done.
pub fn spawn_restarted<F>(name: &'static str, mut task: impl FnMut() -> F + 'static)
where
    F: Future<Output = ()> + 'static,
{
    start(Box::pin(async move {
        while finished(name, task()).await.is_err() {
            tokio::time::sleep(RESTART_PAUSE).await;
        }
    }));
}

/// Starts a task on this thread's [`tokio::task::LocalSet`]. If it panics, `stop` is called with
/// the reason, and has the broker stop in order.
pub fn spawn_vital(
    name: &'static str,
    task: impl Future<Output = ()> + 'static,
    stop: impl FnOnce(String) + 'static,
) {
    start(Box::pin(async move {
        if let Err(panicked) = finished(name, task).await {
            stop(panicked.to_string());
        }
    }));
}

/// Runs a task on this thread's [`tokio::task::LocalSet`] to its end.
///
/// # Errors
/// The task has panicked.
pub async fn finished<T: 'static>(
    name: &str,
    task: impl Future<Output = T> + 'static,
) -> Result<Option<T>, Panicked> {
    match start(Box::pin(task)).await {
        Ok(result) => Ok(Some(result)),
        Err(ended) if ended.is_panic() => Err(Panicked::new(name, &*ended.into_panic())),
        // The thread ends.
        Err(_) => Ok(None),
    }
}

/// Starts a task without its type: the runtime's code for a task is compiled once, and not for each
/// task.
fn start<T: 'static>(task: Pin<Box<dyn Future<Output = T>>>) -> JoinHandle<T> {
    tokio::task::spawn_local(task)
}

#[cfg(test)]
mod tests;
