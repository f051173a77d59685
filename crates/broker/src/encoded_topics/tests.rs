//! Lifetimes of kept topics.

use levada_wire::messages::metadata_response::MetadataResponseTopic;

use super::*;

const VIEW: (&str, i16) = ("PLAINTEXT", 13);

fn id(number: u8) -> Uuid {
    Uuid::from_bytes([number; 16])
}

fn topic() -> EncodedTopic {
    EncodedTopic::new(MetadataResponseTopic::default(), 13).unwrap().unwrap()
}

/// Asks for a topic twice, so that it is kept.
fn keep(topics: &EncodedTopics, state: State<'_>, now_ms: i64) {
    assert!(topics.lend(state, VIEW, now_ms).is_none());
    let mut lent = topics.lend(state, VIEW, now_ms).unwrap();
    assert!(lent.topic(id(1), || Some((topic(), true))).is_some());
}

/// True if the topic is kept.
fn has(topics: &EncodedTopics, state: State<'_>, now_ms: i64) -> bool {
    topics.lend(state, VIEW, now_ms).is_some_and(|mut lent| lent.topic(id(1), || None).is_some())
}

#[test]
fn encoded_topics_are_reused_by_repeated_requests() {
    let (topics, image) = (EncodedTopics::default(), Arc::new(Image::default()));
    let state = State { image: &image, changes: 3 };
    assert!(topics.lend(state, VIEW, 0).is_none());
    assert!(topics.lend(state, VIEW, AGAIN_MS + 1).is_none(), "the first request is forgotten");
    keep(&topics, State { changes: 4, ..state }, AGAIN_MS + 1);
    let state = State { changes: 4, ..state };
    assert!(has(&topics, state, 2 * AGAIN_MS + 2), "what is kept needs no hurry");
    let other = topics.lend(state, ("SSL", 13), 2 * AGAIN_MS + 2);
    assert!(other.is_some_and(|mut lent| lent.topic(id(1), || None).is_none()), "by listener");
}

#[test]
fn changes_and_idleness_drop_encoded_topics() {
    let (topics, image) = (EncodedTopics::default(), Arc::new(Image::default()));
    let state = State { image: &image, changes: 0 };
    keep(&topics, state, 0);
    assert!(!has(&topics, State { changes: 1, ..state }, 0), "a change of a partition");
    keep(&topics, state, 0);
    let next = Arc::new(Image::default());
    assert!(!has(&topics, State { image: &next, ..state }, 0), "another image");
    keep(&topics, state, 0);
    topics.expire(IDLE_MS);
    assert!(has(&topics, state, 0));
    topics.expire(IDLE_MS + 1);
    assert!(!has(&topics, state, IDLE_MS + 1), "a pause");
}

#[test]
fn encoded_topics_are_bounded() {
    let (topics, image) = (EncodedTopics::default(), Arc::new(Image::default()));
    let state = State { image: &image, changes: 0 };
    keep(&topics, state, 0);
    let mut lent = topics.lend(state, VIEW, 0).unwrap();
    let passing = |number: u32| {
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&number.to_be_bytes());
        Uuid::from_bytes(bytes)
    };
    let most = u32::try_from(BYTES_MAX / ENTRY_BYTES).unwrap();
    for number in 0..most {
        assert!(lent.topic(passing(number), || Some((topic(), true))).is_some(), "answered in any case");
    }
    assert!(lent.topic(passing(most - 1), || None).is_none(), "not kept beyond the limit");
    assert!(lent.topic(id(2), || Some((topic(), false))).is_some());
    assert!(lent.kept.bytes <= BYTES_MAX);
}

#[test]
fn busy_topic_cache_does_not_block_threads() {
    let (topics, image) = (EncodedTopics::default(), Arc::new(Image::default()));
    let state = State { image: &image, changes: 0 };
    keep(&topics, state, 0);
    let _lent = topics.lend(state, VIEW, 0).unwrap();
    assert!(topics.lend(state, VIEW, 0).is_none());
}
