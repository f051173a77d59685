//! Any body as a Produce request: decoded in place exactly as the codec crate decodes it by
//! copying.

use bytes::{Bytes, BytesMut};
use levada_wire::decode;
use levada_wire::messages;
use levada_wire::produce::ProduceRequest;

/// Checks one input.
pub fn run(input: &[u8]) {
    let Some((version, body)) = input.split_first() else { return };
    let version = 3 + i16::from(*version % 11);
    let ours = ProduceRequest::decode(BytesMut::from(body), version);
    // The codec crate has its own limits, so it may refuse input that we accept, never the reverse.
    let Ok(theirs) = decode::<messages::ProduceRequest>(Bytes::copy_from_slice(body), version) else {
        return;
    };
    let ours = ours.expect("the codec crate accepts it");
    assert_eq!(ours.transactional_id, theirs.transactional_id);
    assert_eq!((ours.acks, ours.timeout_ms), (theirs.acks, theirs.timeout_ms));
    assert_eq!(ours.topics.len(), theirs.topic_data.len());
    for (ours, theirs) in ours.topics.into_iter().zip(theirs.topic_data) {
        assert_eq!((ours.name, ours.topic_id), (theirs.name, theirs.topic_id));
        assert_eq!(ours.partitions.len(), theirs.partition_data.len());
        for (mut ours, theirs) in ours.partitions.into_iter().zip(theirs.partition_data) {
            assert_eq!(ours.index, theirs.index);
            assert_eq!(ours.records.as_deref(), theirs.records.as_deref());
            if let Some(records) = &mut ours.records {
                records.fill(0xff);
            }
        }
    }
}
