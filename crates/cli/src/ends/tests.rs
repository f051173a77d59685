//! Tests of offsets that a leader does not know or tell.

use levada_client::LATEST;
use levada_client::fake_broker::{DEAD, FakeBroker};
use levada_client::{ConnectionOptions, Login};
use levada_wire::ApiKey;
use levada_wire::messages::list_offsets_response::{ListOffsetsPartitionResponse, ListOffsetsTopicResponse};
use levada_wire::messages::{ListOffsetsRequest, ListOffsetsResponse};

use super::*;

#[test]
fn silent_and_unsure_leaders_hide_no_other_offset() {
    let broker = FakeBroker::start(|asked| match asked.header.api {
        ApiKey::Metadata => asked.metadata(&[("clicks", 1, &[1, 1, -1, 1, DEAD])]),
        _ => {
            let request: ListOffsetsRequest = asked.decoded();
            let mut topic = ListOffsetsTopicResponse::default();
            topic.name = request.topics[0].name.clone();
            topic.partitions = request.topics[0]
                .partitions
                .iter()
                .map(|one| {
                    let mut partition = ListOffsetsPartitionResponse::default();
                    partition.partition_index = one.partition_index;
                    partition.offset = 70 + i64::from(one.partition_index);
                    if one.partition_index == 1 {
                        (partition.error_code, partition.offset) = (ErrorCode::OffsetNotAvailable.code(), -1);
                    }
                    partition
                })
                .collect();
            let mut response = ListOffsetsResponse::default();
            response.topics = vec![topic];
            asked.answer(&response)
        }
    });
    let mut cluster =
        Cluster::connect(broker.address(), Login::default(), ConnectionOptions::default()).unwrap();
    let topics = cluster.topics(None).unwrap();
    let mut ends = Ends::default();
    for _ in 0..2 {
        let found = ends.ask(&mut cluster, topics.values(), LATEST, Isolation::Uncommitted).unwrap();
        let found: Vec<(i32, i64)> =
            found.iter().map(|((_, partition), found)| (*partition, found.offset)).collect();
        assert_eq!(found, [(0, 70), (3, 73)], "partition 2 has no leader, and that of 4 is dead");
    }
    assert_eq!(ends.silent.keys().collect::<Vec<_>>(), [&DEAD]);
    assert!(ends.silent[&DEAD].starts_with("cannot connect to "), "{:?}", ends.silent);
    assert_eq!(ends.unknown, BTreeSet::from([("clicks".to_owned(), 1)]));
}
