//! Tasks that panic on purpose.

use std::cell::RefCell;
use std::rc::Rc;

use tokio::task::LocalSet;

use super::*;

fn run(work: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    LocalSet::new().block_on(&runtime.unwrap(), work);
}

#[test]
fn panicking_task_restarts_after_a_pause() {
    run(async {
        let (told, mut runs) = tokio::sync::mpsc::unbounded_channel();
        let begun = tokio::time::Instant::now();
        let mut count = 0;
        spawn_restarted("the task", move || {
            count += 1;
            let (told, count) = (told.clone(), count);
            async move {
                told.send(begun.elapsed()).unwrap();
                assert!(count == 3, "on purpose");
            }
        });
        let mut pauses = Vec::new();
        while let Some(at) = runs.recv().await {
            pauses.push(at);
        }
        assert_eq!(pauses.len(), 3, "the third one has ended in order, and is not repeated");
        assert!(
            pauses[1] - pauses[0] >= RESTART_PAUSE && pauses[2] - pauses[1] >= RESTART_PAUSE,
            "{pauses:?}"
        );
    });
}

#[test]
fn vital_task_panic_stops_broker_with_its_cause() {
    run(async {
        let reasons = Rc::new(RefCell::new(Vec::new()));
        let (end, ended) = tokio::sync::oneshot::channel();
        let own = reasons.clone();
        spawn_vital("the quiet one", async {}, |_| panic!("nothing has happened"));
        spawn_vital("the clock", async { panic!("{} on purpose", 1) }, move |reason| {
            own.borrow_mut().push(reason);
            end.send(()).unwrap();
        });
        ended.await.unwrap();
        let reasons = reasons.borrow();
        assert!(reasons[0].starts_with("the clock has panicked (1 on purpose)"), "{reasons:?}");
    });
}

#[test]
fn panicking_work_does_not_end_its_thread() {
    assert_eq!(guarded("the work", || 7), Ok(7));
    let panicked = guarded("the work", || panic!("on purpose")).unwrap_err();
    assert_eq!((&*panicked.name, &*panicked.cause), ("the work", "on purpose"));
}

#[test]
fn panic_of_awaited_task_is_its_own_error() {
    run(async {
        assert_eq!(caught("the task", async { 7 }).await, Ok(7));
        let later = async {
            tokio::task::yield_now().await;
            panic!("{} on purpose", 1)
        };
        let panicked = caught::<()>("the write", later).await.unwrap_err();
        assert!(panicked.to_string().starts_with("the write has panicked (1 on purpose)"), "{panicked}");
    });
}
