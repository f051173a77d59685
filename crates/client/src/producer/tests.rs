//! Tests of batches on their way to a broker with faults.

use std::borrow::Cow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use levada_base::batch::{BatchView, Builder};
use levada_wire::ApiKey;
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::InitProducerIdResponse;

use super::sequence::Sequences;
use super::{Acks, Producer, ProducerOptions, Record, leaves_doubt};
use crate::cluster::{Cluster, Led};
use crate::connection::ConnectionOptions;
use crate::error::{Cause, Caused as _, ClientError};
use crate::fake_broker::FakeBroker;
use crate::login::Login;
use crate::notice::{BatchLabel, Notice, Unwatched, Watch};

fn cluster(broker: &FakeBroker) -> Cluster {
    Cluster::connect(broker.address(), Login::default(), ConnectionOptions::default()).unwrap()
}

/// A producer to `clicks`, which needs the leaders of these partitions, or of any.
fn producer(broker: &FakeBroker, led: &[i32], options: ProducerOptions) -> Producer<'static> {
    let mut cluster = cluster(broker);
    let topic = cluster.topic("clicks", true, Led::These(led)).unwrap();
    Producer::new(cluster, topic, options, &Unwatched).unwrap()
}

fn value(text: &'static str) -> Record<'static> {
    Record { value: Some(Cow::Borrowed(text.as_bytes())), ..Record::default() }
}

#[test]
fn producer_sequences_continue_per_partition() {
    let mut sequences = Sequences::of(7, 3);
    let mut sequence = |partition: i32, count: usize| {
        let mut builder = Builder::new();
        for _ in 0..count {
            builder.push(0, None, Some(b"v"));
        }
        let batch = sequences.number(partition, builder).build().unwrap();
        let view = BatchView::parse(&batch).unwrap();
        assert_eq!((view.producer_id(), view.producer_epoch()), (7, 3));
        view.base_sequence()
    };
    assert_eq!((sequence(0, 2), sequence(0, 3), sequence(1, 1), sequence(0, 1)), (0, 2, 0, 5));
}

#[test]
fn producer_loses_no_record_on_closed_connection() {
    for acks in [Acks::Nobody, Acks::Leader] {
        let stored = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&stored);
        let broker = FakeBroker::storing(&[1], move |asked, _, _| {
            asked.close();
            seen.fetch_add(1, Ordering::SeqCst);
            0
        });
        let mut producer = producer(&broker, &[], ProducerOptions { acks, ..ProducerOptions::default() });
        for count in 1..=3 {
            producer.push(&value("v"), 1).unwrap();
            producer.flush().unwrap();
            broker.await_closed(count);
        }
        assert_eq!(stored.load(Ordering::SeqCst), 3, "{acks:?}");
    }
}

#[test]
fn producer_continues_despite_leaderless_partition() {
    let partitions = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&partitions);
    let broker = FakeBroker::storing(&[-1, 1, -1, 2], move |_, partition, _| {
        seen.lock().unwrap().push(partition);
        0
    });
    let started = Instant::now();
    for partition in [Some(1), None] {
        let mut producer = producer(&broker, partition.as_slice(), ProducerOptions::default());
        for _ in 0..2 {
            producer.push(&Record { partition, ..value("v") }, 1).unwrap();
            producer.flush().unwrap();
        }
    }
    assert_eq!(*partitions.lock().unwrap(), [1, 1, 1, 3]);
    assert!(started.elapsed() < Duration::from_secs(10), "no wait for leaders: {:?}", started.elapsed());
}

#[test]
fn producer_outlasts_transient_refusals() {
    let mut codes = [5, 19, 20, 56, 0].into_iter();
    let broker = FakeBroker::storing(&[1], move |_, _, _| codes.next().unwrap());
    let mut producer = producer(&broker, &[], ProducerOptions::default());
    producer.push(&value("v"), 1).unwrap();
    producer.finish().unwrap();
    assert_eq!(producer.acknowledged_records(), 1);
}

/// A record for this partition.
fn aimed(partition: i32) -> Record<'static> {
    Record { partition: Some(partition), ..value("v") }
}

#[test]
fn leaderless_records_wait_while_others_are_stored() {
    let has_leader = Arc::new(AtomicUsize::new(0));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (led, stored) = (Arc::clone(&has_leader), Arc::clone(&seen));
    let broker = FakeBroker::start(move |asked| match asked.header.api {
        ApiKey::Metadata if led.load(Ordering::SeqCst) == 0 => asked.metadata(&[("clicks", 1, &[-1, 1])]),
        ApiKey::Metadata => asked.metadata(&[("clicks", 1, &[1, 1])]),
        ApiKey::InitProducerId => asked.answer(&InitProducerIdResponse::default()),
        _ => asked.produced(|partition, batch| {
            stored.lock().unwrap().push((partition, BatchView::parse(&batch).unwrap().base_sequence()));
            0
        }),
    });
    let mut producer = producer(&broker, &[], ProducerOptions::default());
    let started = Instant::now();
    for line in 1..=2 {
        for partition in [0, 1] {
            producer.push(&aimed(partition), line).unwrap();
        }
        producer.flush().unwrap();
    }
    assert_eq!(*seen.lock().unwrap(), [(1, 0), (1, 1)], "the other partition goes on");
    assert!(started.elapsed() < Duration::from_secs(10), "no wait for a leader: {:?}", started.elapsed());
    has_leader.store(1, Ordering::SeqCst);
    producer.finish().unwrap();
    assert_eq!(*seen.lock().unwrap(), [(1, 0), (1, 1), (0, 0), (0, 1)], "in their order, without a gap");
    assert_eq!(producer.acknowledged_records(), 4);
}

#[test]
fn records_without_leader_time_out_naming_partition() {
    let broker = FakeBroker::storing(&[-1, 1], |_, partition, _| {
        assert_eq!(partition, 1);
        0
    });
    let options = ProducerOptions { timeout: Duration::from_millis(300), ..ProducerOptions::default() };
    let mut producer = producer(&broker, &[], options);
    let started = Instant::now();
    for partition in [0, 1, 0, 1] {
        producer.push(&aimed(partition), 1).unwrap();
        producer.flush().unwrap();
    }
    let error = producer.finish().unwrap_err();
    assert!(error.to_string().contains("clicks/0"), "{error}");
    assert_eq!((error.cause(), producer.acknowledged_records()), (Cause::Code(5), 2));
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
    producer.push(&aimed(1), 1).unwrap();
    producer.finish().unwrap();
    assert_eq!(producer.acknowledged_records(), 3);
}

#[test]
fn producer_reports_batches_that_may_be_stored() {
    let cases = [
        (Cause::Connection, true),
        (Cause::Code(7), true),
        (Cause::Code(20), true),
        (Cause::Code(19), false),
        (Cause::Code(6), false),
        (Cause::Other, false),
    ];
    for (cause, expected) in cases {
        assert_eq!(leaves_doubt(cause), expected, "{cause:?}");
    }
}

#[test]
fn record_headers_count_towards_batch_size() {
    let counts = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&counts);
    let broker = FakeBroker::storing(&[1], move |_, _, batch| {
        assert!(batch.len() <= 1_000_000, "{} bytes", batch.len());
        seen.lock().unwrap().push(BatchView::parse(&batch).unwrap().record_count());
        0
    });
    let mut producer = producer(&broker, &[], ProducerOptions::default());
    let large = vec![b'h'; 600_000];
    for line in 1..=2 {
        let mut record = value("v");
        record.headers = vec![(Cow::Borrowed(b"k"), Some(Cow::Borrowed(&large)))];
        producer.push(&record, line).unwrap();
    }
    producer.flush().unwrap();
    assert_eq!(*counts.lock().unwrap(), [1, 1]);
}

#[test]
fn producer_id_request_is_retried_while_loading() {
    let mut asked_before = 0;
    let broker = FakeBroker::start(move |asked| match asked.header.api {
        ApiKey::InitProducerId => {
            asked_before += 1;
            let mut response = InitProducerIdResponse::default();
            response.error_code =
                if asked_before <= 2 { ErrorCode::CoordinatorLoadInProgress.code() } else { 0 };
            asked.answer(&response)
        }
        _ => asked.metadata(&[("clicks", 1, &[1])]),
    });
    let ended = Sequences::request(&mut cluster(&broker)).map(drop);
    assert!(ended.is_ok(), "{ended:?}");
}

/// The abandoned batches that a producer reports.
#[derive(Default)]
struct Told(Mutex<Vec<BatchLabel>>);

impl Watch<ClientError> for Told {
    fn is_asked_to_stop(&self) -> bool {
        false
    }

    fn notice(&self, notice: Notice<'_, ClientError>) {
        if let Notice::NotAcknowledged { batch, .. } = notice {
            self.0.lock().unwrap().push(batch.clone());
        }
    }
}

#[test]
fn abandoned_batches_of_partition_are_one_report() {
    let broker = FakeBroker::storing(&[-1, -1], |_, _, _| 0);
    let mut cluster = cluster(&broker);
    let topic = cluster.present_topic("clicks").unwrap();
    let told = Told::default();
    let mut producer = Producer::new(cluster, topic, ProducerOptions::default(), &told).unwrap();
    for number in 1..=6 {
        producer.push(&aimed(if number == 4 { 1 } else { 0 }), number).unwrap();
        producer.flush().unwrap();
    }
    producer.report_unsent();
    let label = |partition, records, first, last| BatchLabel {
        topic: "clicks".to_owned(),
        partition,
        records,
        first,
        last,
    };
    assert_eq!(*told.0.lock().unwrap(), [label(0, 5, 1, 6), label(1, 1, 4, 4)]);
}
