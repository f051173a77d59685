//! Any body as a Fetch request: decoded exactly as the codec crate decodes it.

use bytes::Bytes;
use levada_wire::decode;
use levada_wire::fetch::FetchRequest;
use levada_wire::messages;

/// Checks one input.
pub fn run(input: &[u8]) {
    let Some((version, body)) = input.split_first() else { return };
    let version = 4 + i16::from(*version % 15);
    let body = Bytes::copy_from_slice(body);
    let ours = FetchRequest::decode(body.clone(), version);
    // The codec crate has its own limits, so it may refuse input that we accept, never the reverse.
    let Ok(theirs) = decode::<messages::FetchRequest>(body, version) else { return };
    let ours = ours.expect("the codec crate accepts it");
    assert_eq!(
        (ours.max_wait_ms, ours.min_bytes, ours.max_bytes),
        (theirs.max_wait_ms, theirs.min_bytes, theirs.max_bytes)
    );
    assert_eq!((ours.session_id, ours.session_epoch), (theirs.session_id, theirs.session_epoch));
    assert_eq!((ours.rack_id, ours.cluster_id), (theirs.rack_id, theirs.cluster_id));
    assert_eq!(
        (ours.topics.len(), ours.forgotten.len()),
        (theirs.topics.len(), theirs.forgotten_topics_data.len())
    );
    for (ours, theirs) in ours.topics.into_iter().zip(theirs.topics) {
        assert_eq!((ours.name, ours.topic_id), (theirs.topic, theirs.topic_id));
        assert_eq!(ours.partitions.len(), theirs.partitions.len());
        for (ours, theirs) in ours.partitions.into_iter().zip(theirs.partitions) {
            assert_eq!(
                (ours.index, ours.fetch_offset, ours.max_bytes),
                (theirs.partition, theirs.fetch_offset, theirs.partition_max_bytes)
            );
            assert_eq!(
                (ours.replica_directory_id, ours.high_watermark),
                (theirs.replica_directory_id, theirs.high_watermark)
            );
        }
    }
    for (ours, theirs) in ours.forgotten.into_iter().zip(theirs.forgotten_topics_data) {
        assert_eq!(
            (ours.name, ours.topic_id, ours.partitions),
            (theirs.topic, theirs.topic_id, theirs.partitions)
        );
    }
}
