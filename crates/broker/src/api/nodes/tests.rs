//! Tests of `nodes`: three brokers of which one is fenced and one lacks the client's listener.

use levada_metadata::image::Position;
use levada_metadata::records::{Endpoint, Record, RegisterBrokerRecord};

use super::*;

const CLIENT: &str = "CLIENT";

fn broker(broker_id: i32, listeners: &[&str], fenced: bool) -> Record {
    let endpoint = |name: &&str| Endpoint {
        name: (*name).to_owned(),
        host: format!("{name}-{broker_id}"),
        port: 9092,
        security_protocol: 0,
    };
    Record::RegisterBroker(RegisterBrokerRecord {
        broker_id,
        end_points: listeners.iter().map(endpoint).collect(),
        log_dirs: vec![reserved(100)],
        fenced,
        ..RegisterBrokerRecord::default()
    })
}

/// Broker 1 is this one; 2 is live, 3 fenced, and 4 has only another listener.
fn image() -> Image {
    let mut image = Image::empty();
    let records = [
        broker(1, &[CLIENT], false),
        broker(2, &["OTHER", CLIENT], false),
        broker(3, &[CLIENT], true),
        broker(4, &["OTHER"], false),
    ];
    for (record, offset) in records.iter().zip(0..) {
        image.apply(record, Position { offset, ..Position::default() }).unwrap();
    }
    image
}

fn nodes(image: &Image) -> Nodes<'_> {
    Nodes::new((1, ("advertised".to_owned(), 1234)), CLIENT.to_owned(), image)
}

fn partition(leader: i32, replicas: &[i32], directory: Uuid) -> PartitionRegistration {
    PartitionRegistration {
        leader,
        replicas: replicas.to_vec(),
        isr: replicas.to_vec(),
        directories: vec![directory; replicas.len()],
        ..PartitionRegistration::default()
    }
}

#[test]
fn metadata_lists_brokers_by_clients_listener() {
    let image = image();
    let told = |fenced| {
        let all = nodes(&image).all(fenced).into_iter();
        all.map(|node| (node.broker.broker_id, node.host, node.port)).collect::<Vec<_>>()
    };
    let (own, second) = ((1, "advertised".to_owned(), 1234), (2, "CLIENT-2".to_owned(), 9092));
    assert_eq!(told(false), [own.clone(), second.clone()]);
    assert_eq!(told(true), [own, second, (3, "CLIENT-3".to_owned(), 9092)]);
    assert!(nodes(&image).live(3).is_none() && nodes(&image).endpoint(3).is_some());
    assert!(nodes(&image).lacks_listener(4) && !nodes(&image).lacks_listener(5));
}

#[test]
fn the_controller_is_a_live_broker() {
    let image = image();
    for _ in 0..64 {
        assert!([1, 2, 4].contains(&nodes(&image).controller_id()));
    }
    assert_eq!(nodes(&Image::empty()).controller_id(), -1);
}

#[test]
fn metadata_omits_leader_unreachable_by_client() {
    let image = image();
    let leader = |leader, online| nodes(&image).leader(&partition(leader, &[leader], reserved(100)), online);
    assert_eq!(leader(2, false), 2);
    assert_eq!((leader(1, true), leader(1, false)), (1, NO_LEADER));
    assert_eq!(
        (leader(4, false), leader(5, false), leader(NO_LEADER, false)),
        (NO_LEADER, NO_LEADER, NO_LEADER)
    );
}

#[test]
fn replicas_are_offline_by_broker_listener_and_directory() {
    let image = image();
    let offline =
        |directory, online| nodes(&image).offline(&partition(2, &[1, 2, 3, 4, 5], directory), online);
    assert_eq!(offline(reserved(100), true), [3, 4, 5]);
    assert_eq!(offline(reserved(100), false), [1, 3, 4, 5]);
    // Unknown and lost directories are offline, those that are not decided are not.
    assert_eq!(offline(reserved(101), true), [2, 3, 4, 5]);
    assert_eq!(offline(LOST_DIRECTORY, true), [2, 3, 4, 5]);
    assert_eq!(offline(reserved(0), true), [3, 4, 5]);
    assert_eq!(offline(reserved(1), true), [3, 4, 5]);
}
