//! Leaders that clients are referred to.

use levada_metadata::image::Position;
use levada_metadata::records::{Endpoint, PartitionRecord, Record, RegisterBrokerRecord, TopicRecord};

use super::*;

const TOPIC: Uuid = Uuid::from_bytes([7; 16]);

fn broker(broker_id: i32, fenced: bool) -> Record {
    let endpoint = |name: &str, port| Endpoint {
        name: name.to_owned(),
        host: format!("broker-{broker_id}"),
        port,
        security_protocol: 0,
    };
    let record = RegisterBrokerRecord {
        broker_id,
        fenced,
        rack: Some("r".to_owned()),
        end_points: vec![endpoint("PLAINTEXT", 9092), endpoint("INTERNAL", 9094)],
        ..RegisterBrokerRecord::default()
    };
    record.into()
}

fn image() -> Image {
    let topic = TopicRecord { name: "t".to_owned(), topic_id: TOPIC };
    let partition = |partition_id, leader| -> Record {
        let record = PartitionRecord {
            partition_id,
            topic_id: TOPIC,
            replicas: vec![1, 2],
            leader,
            leader_epoch: 5,
            ..PartitionRecord::default()
        };
        record.into()
    };
    let leaders = [partition(0, 1), partition(1, 2), partition(2, -1)];
    let mut image = Image::empty();
    for (offset, record) in [broker(1, false), broker(2, false), broker(3, true), topic.into()]
        .into_iter()
        .chain(leaders)
        .enumerate()
    {
        image.apply(&record, Position { offset: offset as i64, ..Position::default() }).unwrap();
    }
    image
}

#[test]
fn only_another_node_is_named_as_the_leader() {
    let image = image();
    let named = |index| leader_elsewhere(image.topic("t").unwrap(), index, 1);
    assert_eq!(named(1), Some(LeaderEpoch { leader_id: 2, leader_epoch: 5 }));
    assert_eq!([0, 2, 3].map(named), [None, None, None], "this node, no leader, no such partition");
}

#[test]
fn leader_endpoint_matches_listener_of_client() {
    let image = image();
    let found = endpoint(&image, 2, "INTERNAL").unwrap();
    assert_eq!((found.node_id, found.host.as_str(), found.port), (2, "broker-2", 9094));
    assert_eq!(found.rack.as_ref().map(StrBytes::as_str), Some("r"));
    assert_eq!(endpoint(&image, 2, "OTHER"), None);
    assert_eq!(endpoint(&image, 3, "INTERNAL"), None, "a fenced broker answers nobody");
    assert_eq!(endpoint(&image, 4, "INTERNAL"), None);
}
