//! An acknowledged batch is on the device where its topic wants that.

use std::sync::{Arc, mpsc};
use std::thread;

use levada_base::batch::Builder;
use levada_config::{BrokerConfig, TopicConfig};
use levada_log::{Append, OpenOptions, Writer};
use levada_metadata::image::PartitionRegistration;

use crate::replica::Leadership;
use crate::replica::partition::{Partition, PartitionIdentity};

fn partition(dir: &tempfile::TempDir, own: &[(&str, &str)]) -> Arc<Partition> {
    let (writer, _) = Writer::open(OpenOptions::new(dir.path().join("topic-0")), 1_000).unwrap();
    let own = own.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let config = TopicConfig::resolve(BrokerConfig::default().settings(), &own).unwrap();
    let registration = PartitionRegistration { leader: 1, isr: vec![1], ..PartitionRegistration::default() };
    let identity = PartitionIdentity {
        topic: "topic".into(),
        topic_id: levada_wire::Uuid::from_bytes([7; 16]),
        index: 0,
        leadership: Leadership::of(&registration, 1),
    };
    Arc::new(Partition::new(identity, writer, Arc::new(config), Arc::default()))
}

fn batch() -> Append {
    let mut batch = Builder::new();
    batch.push(1_000, None, Some(b"value"));
    Append::client(batch.build().unwrap())
}

/// Checks the durable offsets when each of six batches is acknowledged, one after the other.
fn check(own: &[(&str, &str)], durable: [i64; 6]) {
    let dir = tempfile::tempdir().unwrap();
    let partition = partition(&dir, own);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let seen = runtime.block_on(async {
        let mut seen = Vec::new();
        for _ in 0..6 {
            partition.append(batch(), 1_000).wait().await.unwrap();
            seen.push(partition.log().durable());
        }
        seen
    });
    assert_eq!(seen, durable, "{own:?}");
}

#[test]
fn acknowledgement_waits_for_sync_if_topic_requires() {
    check(&[], [0; 6]);
    check(&[("levada.ack.durability", "fdatasync")], [1, 2, 3, 4, 5, 6]);
    check(&[("flush.messages", "1")], [1, 2, 3, 4, 5, 6]);
    check(&[("flush.messages", "3")], [0, 0, 3, 3, 3, 6]);
}

#[test]
fn many_concurrent_batches_are_durable_when_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let partition = partition(&dir, &[("levada.ack.durability", "fdatasync")]);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let batches: Vec<_> = (0..100).map(|_| partition.append(batch(), 1_000)).collect();
        for submitted in batches {
            let offset = submitted.wait().await.unwrap().last_offset;
            assert!(partition.log().durable() > offset, "offset {offset} is acknowledged");
        }
    });
}

/// Has `count` threads append at the same time while the writer is held, so that all but one queue
/// after a write, and checks each as it is acknowledged.
fn check_queued(own: &[(&str, &str)], count: usize, check: impl Fn(&Partition, i64) + Sync) {
    let dir = tempfile::tempdir().unwrap();
    let partition = partition(&dir, own);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (partition, handle, check) = (&partition, runtime.handle(), &check);
    let (queue, queued) = mpsc::channel();
    thread::scope(|scope| {
        let (held, is_held) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        scope.spawn(move || {
            partition.lane().with_writer(|_| {
                held.send(()).unwrap();
                released.recv().unwrap();
            })
        });
        is_held.recv().unwrap();
        for _ in 0..count {
            let queue = queue.clone();
            scope.spawn(move || {
                let _entered = handle.enter();
                let submitted = partition.append(batch(), 1_000);
                queue.send(()).unwrap();
                let offset = handle.block_on(submitted.wait()).unwrap().last_offset;
                check(partition, offset);
            });
        }
        for _ in 1..count {
            queued.recv().unwrap();
        }
        release.send(()).unwrap();
    });
}

#[test]
fn queued_batches_are_durable_when_acknowledged() {
    for own in [("flush.messages", "1"), ("levada.ack.durability", "fdatasync")] {
        for _ in 0..10 {
            check_queued(&[own], 8, |partition, offset| {
                assert!(partition.log().durable() > offset, "{own:?}: offset {offset} is acknowledged");
            });
        }
    }
}

#[test]
fn unsynced_queued_batches_stay_below_flush_messages() {
    for _ in 0..10 {
        check_queued(&[("flush.messages", "3")], 8, |partition, offset| {
            assert!(offset - partition.log().durable() < 3, "offset {offset} is acknowledged");
        });
    }
    check_queued(&[], 8, |partition, _| assert_eq!(partition.log().durable(), 0));
}
