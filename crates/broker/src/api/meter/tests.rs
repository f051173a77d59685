//! Tests of the meter.

use std::task::Poll;

use super::*;

#[tokio::test]
async fn only_first_meter_step_starts_at_arrival() {
    let received = Instant::now() - Duration::from_secs(1000);
    let meter = Meter::new(received);
    let mut steps = 0;
    let work = std::future::poll_fn(|context| {
        steps += 1;
        context.waker().wake_by_ref();
        if steps == 3 { Poll::Ready(()) } else { Poll::Pending }
    });
    meter.measure(work).await;
    assert_eq!(steps, 3);
    let busy = meter.spent();
    assert!((1000..2000).contains(&busy.as_secs()), "{busy:?}");
    assert!(busy <= meter.ended.get().duration_since(received), "steps do not overlap");
}
