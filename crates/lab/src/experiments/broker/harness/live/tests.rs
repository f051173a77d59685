//! All threads of a lane end when one of them fails.

use std::net::TcpListener;

use super::*;
use crate::experiments::broker::harness::floor;

#[test]
fn consumer_stops_waiting_when_produce_is_refused() {
    let place = TopicPartition { topic: "live".to_owned(), partition: 0 };
    let (mut refusal, offset_at) = floor::produced(&place).unwrap();
    refusal[offset_at - 2..offset_at].copy_from_slice(&7_i16.to_be_bytes());
    let lane = ProducerLane {
        place,
        base: 0,
        pace: FixedRate::new(Instant::now(), 1000.0),
        frame: vec![0],
        warm_up: 0,
        last: AtomicU64::new(UNKNOWN),
    };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let connect = || {
        let connection = Connection::open(listener.local_addr().unwrap()).unwrap();
        (connection, listener.accept().unwrap().0)
    };
    let (producer, mut broker) = connect();
    broker.write_all(&refusal).unwrap();
    let error = lane.hear(producer).unwrap_err().to_string();
    assert!(error.contains("Produce was refused"), "{error}");
    // A consumer that still awaits records would read the end of this connection.
    let (consumer, broker) = connect();
    drop(broker);
    lane.read(consumer).expect("the consumer awaits no record");
    let (producer, _broker) = connect();
    let sent = lane.send(&mut producer.sender().unwrap(), StopCondition::Time(Duration::ZERO));
    assert_eq!(sent.unwrap(), 0);
}
