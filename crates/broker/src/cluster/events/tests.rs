//! Events as their consumer receives them.

use levada_metadata::image::Position;
use levada_metadata::records::{NoOpRecord, Record};

use super::*;

fn image(offset: i64) -> ClusterEvent {
    let mut image = Image::empty();
    let position = Position { offset, ..Position::default() };
    image.apply(&Record::from(NoOpRecord), position).unwrap();
    ClusterEvent::Image(image)
}

/// Everything that the consumer receives until the senders are gone: offsets of images, and names
/// of other events.
fn received(receiver: &EventReceiver) -> Vec<String> {
    let next = || receiver.recv_timeout(Duration::from_secs(60)).ok();
    let name = |event| match event {
        ClusterEvent::Image(image) => image.offset().to_string(),
        other => format!("{other:?}"),
    };
    std::iter::from_fn(next).map(name).collect()
}

#[test]
fn pending_images_are_coalesced_into_last_one() {
    let (sender, receiver) = queue();
    (0..1_000).for_each(|offset| sender.send(image(offset)).unwrap());
    sender.send(ClusterEvent::CaughtUp).unwrap();
    (1_000..2_000).for_each(|offset| sender.send(image(offset)).unwrap());
    sender.send(ClusterEvent::Unfenced).unwrap();
    drop(sender);
    // The last image counts for all of them, and no other event is lost.
    assert_eq!(received(&receiver), ["1999", "CaughtUp", "Unfenced"]);
}

#[test]
fn image_after_received_one_is_separate_event() {
    let (sender, receiver) = queue();
    let limit = Duration::from_secs(60);
    for offset in 0..3 {
        sender.send(image(offset)).unwrap();
        let event = receiver.recv_timeout(limit).unwrap();
        assert!(matches!(event, ClusterEvent::Image(image) if image.offset() == offset));
    }
    assert!(matches!(receiver.recv_timeout(Duration::ZERO), Err(RecvTimeoutError::Timeout)));
    drop(receiver);
    assert!(sender.send(image(3)).is_err() && sender.send(ClusterEvent::Fenced).is_err());
}

#[test]
fn event_queue_wake_ends_wait_without_event() {
    let (sender, receiver) = queue();
    let limit = Duration::from_secs(60);
    sender.wake();
    sender.send(ClusterEvent::CaughtUp).unwrap();
    assert!(matches!(receiver.recv_timeout(limit), Err(RecvTimeoutError::Timeout)));
    assert!(matches!(receiver.recv_timeout(limit), Ok(ClusterEvent::CaughtUp)));
}
