//! Any frame as a Fetch response: decoded exactly as the codec crate decodes it.

use bytes::Bytes;
use levada_wire::decode_response;
use levada_wire::fetch::FetchResponse;
use levada_wire::messages;

/// Checks one input.
pub fn run(input: &[u8]) {
    let Some((version, frame)) = input.split_first() else { return };
    let version = 4 + i16::from(*version % 15);
    let frame = Bytes::copy_from_slice(frame);
    let ours = FetchResponse::decode(frame.clone(), version);
    // The codec crate has its own limits, so it may refuse input that we accept, never the reverse.
    let Ok((correlation_id, theirs)) = decode_response::<messages::FetchResponse>(frame, version) else {
        return;
    };
    let (found, ours) = ours.expect("the codec crate accepts it");
    assert_eq!(found, correlation_id);
    assert_eq!((ours.error_code, ours.session_id), (theirs.error_code, theirs.session_id));
    assert_eq!(
        (ours.topics.len(), ours.node_endpoints.len()),
        (theirs.responses.len(), theirs.node_endpoints.len())
    );
    for (ours, theirs) in ours.topics.into_iter().zip(theirs.responses) {
        assert_eq!((ours.name, ours.topic_id), (theirs.topic, theirs.topic_id));
        assert_eq!(ours.partitions.len(), theirs.partitions.len());
        for (ours, theirs) in ours.partitions.into_iter().zip(theirs.partitions) {
            assert_eq!((ours.index, ours.error_code), (theirs.partition_index, theirs.error_code));
            assert_eq!(
                (ours.high_watermark, ours.log_start_offset),
                (theirs.high_watermark, theirs.log_start_offset)
            );
            let diverging = ours.diverging_epoch.map_or((-1, -1), |end| (end.epoch, end.end_offset));
            assert_eq!(diverging, (theirs.diverging_epoch.epoch, theirs.diverging_epoch.end_offset));
            let snapshot = ours.snapshot_id.map_or((-1, -1), |id| (id.end_offset, id.epoch));
            assert_eq!(snapshot, (theirs.snapshot_id.end_offset, theirs.snapshot_id.epoch));
            assert_eq!(ours.records.unwrap_or_default(), theirs.records.unwrap_or_default());
        }
    }
}
