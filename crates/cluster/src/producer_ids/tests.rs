//! Tests of `producer_ids`.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

fn block(start: i64, len: i32) -> AllocateProducerIdsResponse {
    let mut response = AllocateProducerIdsResponse::default();
    (response.producer_id_start, response.producer_id_len) = (start, len);
    response
}

#[test]
fn the_next_block_is_requested_at_ninety_percent() {
    let mut ids = ProducerIds::new();
    assert_eq!(ids.take(), None);
    let (request, body) = ids.poll(77, 33, 0).unwrap();
    assert_eq!((body.broker_id, body.broker_epoch), (77, 33));
    assert!(ids.poll(77, 33, 0).is_none(), "one request in flight");
    ids.answered(request, Some(&block(1000, 1000)), 0);
    for id in 1000..1900 {
        assert!(ids.poll(77, 33, 0).is_none(), "{id}");
        assert_eq!(ids.take(), Some(id));
    }
    let (request, _) = ids.poll(77, 33, 0).unwrap();
    ids.answered(request, Some(&block(5000, 1000)), 0);
    let rest: Vec<_> = (0..101).map(|_| ids.take().unwrap()).collect();
    assert_eq!((rest[99], rest[100]), (1999, 5000));
}

#[test]
fn failures_are_retried_after_a_pause() {
    let mut stale = block(-1, 0);
    stale.error_code = ErrorCode::StaleBrokerEpoch.code();
    for failure in [None, Some(stale), Some(block(-5, 10)), Some(block(7, 0)), Some(block(i64::MAX, 9))] {
        let mut ids = ProducerIds::new();
        let (request, _) = ids.poll(77, 33, 0).unwrap();
        ids.answered(request, failure.as_ref(), 10);
        assert_eq!((ids.take(), ids.deadline()), (None, Some(60)));
        assert!(ids.poll(77, 33, 59).is_none());
        let (again, _) = ids.poll(77, 33, 60).unwrap();
        ids.answered(request, Some(&block(9, 9)), 61);
        assert_eq!(ids.take(), None, "a late answer: its block may be handed out elsewhere");
        ids.answered(again, Some(&block(9, 9)), 62);
        assert_eq!(ids.take(), Some(9));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn producer_ids_are_unique(operations in prop::collection::vec((0..6u8, 1..20i32), 0..300)) {
        let (mut ids, mut given) = (ProducerIds::new(), BTreeSet::new());
        let (mut start, mut sent, mut now_ms) = (0, Vec::new(), 0);
        for (operation, len) in operations {
            match operation {
                0..3 => drop(ids.take().map(|id| assert!(given.insert(id), "{id} twice"))),
                3 => sent.extend(ids.poll(1, 1, now_ms).map(|(request, _)| request)),
                4 if !sent.is_empty() => {
                    let request = sent.remove(len as usize % sent.len());
                    ids.answered(request, Some(&block(start, len)), now_ms);
                    // The same response once more must not count twice.
                    ids.answered(request, Some(&block(start, len)), now_ms);
                    start += i64::from(len);
                }
                _ => {
                    now_ms += 50;
                    if let Some(request) = sent.pop() {
                        ids.answered(request, None, now_ms);
                    }
                }
            }
        }
    }
}
