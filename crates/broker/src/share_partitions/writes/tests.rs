//! Tests of `writes`.

use super::*;

fn queued(id: u64, start_offset: i64, spans: usize) -> Queued {
    let span = DeliverySpan { first: 0, last: 0, state: 2, delivery_count: 1 };
    let write = StateWrite {
        id: WriteId(id),
        state_epoch: 3,
        leader_epoch: 4,
        start_offset,
        delivery_complete_count: 5,
        spans: vec![span; spans],
    };
    Queued { write, waiter: None }
}

fn ids(batch: WriteBatch) -> Vec<u64> {
    batch.into_writes().map(|(WriteId(id), _)| id).collect()
}

#[test]
fn waiting_share_state_writes_share_a_request() {
    let mut queue = WriteQueue::default();
    assert!(queue.is_idle());
    assert!(queue.push(queued(0, 10, 1)), "a task is to be started");
    let first = queue.next().unwrap();
    assert!(!queue.push(queued(1, 11, 1)) && !queue.push(queued(2, 12, 2)), "the task runs");
    assert_eq!(ids(first), [0]);
    let next = queue.next().unwrap();
    let part = next.part((levada_wire::Uuid::ZERO, 7)).unwrap();
    assert_eq!((part.partition, part.state_epoch, part.leader_epoch), (7, 3, 4));
    assert_eq!((part.start_offset, part.delivery_complete_count, part.batches.len()), (12, 5, 3));
    assert_eq!(ids(next), [1, 2]);
    assert!(!queue.is_idle(), "until the task has looked once more");
    assert!(queue.next().is_none() && queue.is_idle());
    assert!(queue.push(queued(3, 12, 1)), "another task");
}

#[test]
fn large_share_state_writes_are_sent_alone() {
    let mut queue = WriteQueue::default();
    for (id, spans) in [(0, SPANS_MAX + 1), (1, SPANS_MAX), (2, 1)] {
        queue.push(queued(id, 0, spans));
    }
    let batches: Vec<_> = std::iter::from_fn(|| queue.next().map(ids)).collect();
    assert_eq!(batches, [vec![0], vec![1], vec![2]]);
}
