//! Warnings about the topics of coordinators.

use std::fmt::Debug;
use std::sync::Arc;

use levada_config::{BrokerConfig, Sources};
use levada_metadata::image::{Image, Position};
use levada_metadata::records::{PartitionRecord, Record, TopicRecord};
use levada_testing::LogFields;
use levada_wire::Uuid;
use parking_lot::Mutex;
use tracing::field::Field;

use super::*;

#[test]
fn wrong_coordinator_topic_size_warns_once() {
    let config = BrokerConfig::load(&Sources::flags(Vec::<String>::new())).unwrap();
    let coordinators = Coordinators::new(Arc::new(LiveConfig::new(config)));
    let lines = Arc::new(Mutex::new(0));
    let counted = lines.clone();
    let count = move |field: &Field, value: &dyn Debug| {
        let begins = format!("{value:?}").starts_with("the topic keeps its number of partitions");
        *counted.lock() += usize::from(field.name() == "message" && begins);
    };
    let _logged = tracing::subscriber::set_default(LogFields(count));
    let mut image = Image::empty();
    coordinators.provide(&image);
    assert_eq!(*lines.lock(), 0, "no topic exists");
    let topic_id = Uuid::from_bytes([1; 16]);
    let topic = Record::from(TopicRecord { name: TRANSACTIONS_TOPIC.to_owned(), topic_id });
    let partition = Record::from(PartitionRecord {
        topic_id,
        replicas: vec![1],
        isr: vec![1],
        leader: 1,
        ..PartitionRecord::default()
    });
    for record in [topic, partition] {
        image.apply(&record, Position::default()).unwrap();
    }
    for _ in 0..3 {
        coordinators.provide(&image);
    }
    assert_eq!(*lines.lock(), 1);
}
