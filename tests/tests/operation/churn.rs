//! Topics come and go under the feet of those who use them.
//!
//! Suite: short; 2 s

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use levada_tests::Node;
use levada_tests::raw::{self, Batch, Connection};

const TOPIC: &str = "come-and-go";
const UNKNOWN_TOPIC_OR_PARTITION: i16 = 3;
const TOPIC_ALREADY_EXISTS: i16 = 36;

fn create(connection: &mut Connection) -> i16 {
    raw::topic_error(&connection.call(&raw::create_topic(TOPIC, 1)))
}

fn delete(connection: &mut Connection) -> i16 {
    raw::topic_error(&connection.call(&raw::delete_topic(TOPIC)))
}

#[test]
fn waiting_fetch_ends_immediately_on_topic_deletion() {
    let mut node = Node::started();
    let (mut admin, mut consumer) = (Connection::open(node.address()), Connection::open(node.address()));
    assert_eq!(create(&mut admin), 0);
    let start = Instant::now();
    consumer.send_frame(&raw::waiting_fetch(TOPIC, 0, 1_000, 15_000)).expect("sent");
    assert_eq!(delete(&mut admin), 0);
    let answer = consumer.response().expect("an answer");
    assert_eq!(raw::fetch_error(&answer), UNKNOWN_TOPIC_OR_PARTITION);
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    node.stop();
}

/// A topic is deleted and created again by several clients immediately, while others produce to it.
/// The producers see it as existing or as unknown, nothing else; and the last topic has its files.
#[test]
fn topic_recreated_after_deletion_keeps_its_files() {
    let mut node = Node::new().option("auto.create.topics.enable", "false");
    node.start();
    let batch = Batch::of(&[b"value"]).encode();
    let over = AtomicBool::new(false);
    let address = node.address();
    let produce = |until: &dyn Fn() -> bool| {
        let mut connection = Connection::open(address);
        while !until() {
            let error = raw::produce_error(&connection.call(&raw::produce(TOPIC, 1, &batch)));
            assert!(matches!(error, 0 | UNKNOWN_TOPIC_OR_PARTITION), "error {error}");
        }
    };
    std::thread::scope(|scope| {
        let producers = [(); 2].map(|()| scope.spawn(|| produce(&|| over.load(Ordering::Relaxed))));
        for change in [create, delete, create, delete] {
            scope.spawn(move || {
                let mut connection = Connection::open(address);
                for _ in 0..150 {
                    let error = change(&mut connection);
                    assert!(
                        matches!(error, 0 | UNKNOWN_TOPIC_OR_PARTITION | TOPIC_ALREADY_EXISTS),
                        "error {error}"
                    );
                }
            });
        }
        for _ in 0..150 {
            std::thread::scope(|scope| {
                scope.spawn(|| create(&mut Connection::open(address)));
                scope.spawn(|| delete(&mut Connection::open(address)));
            });
        }
        over.store(true, Ordering::Relaxed);
        for producer in producers {
            producer.join().expect("a producer");
        }
    });
    let mut connection = Connection::open(address);
    create(&mut connection);
    assert_eq!(raw::produce_error(&connection.call(&raw::produce(TOPIC, 1, &batch))), 0);
    let log = node.data().join(format!("{TOPIC}-0/00000000000000000000.log"));
    assert!(log.metadata().expect("the log is there").len() >= batch.len() as u64);
    let names = std::fs::read_dir(node.data())
        .expect("a data directory")
        .map(|entry| entry.expect("an entry").file_name());
    let left: Vec<_> = names.filter(|name| name.to_string_lossy().contains("stray")).collect();
    assert!(left.is_empty(), "{left:?}");
    node.assert_running("after the churn");
    node.stop();
}
