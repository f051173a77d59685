//! Tests of changes that only the controller makes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use clap::Parser;
use levada_client::fake_broker::FakeBroker;
use levada_wire::ApiKey;
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::CreateTopicsResponse;
use levada_wire::messages::create_topics_response::CreatableTopicResult;

use super::*;
use crate::cluster::BrokerArgs;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    brokers: BrokerArgs,
    #[command(flatten)]
    create: Create,
}

#[test]
fn single_copy_by_default_is_told() {
    let told = |words: &[&str], replicas, brokers| {
        let line = Line::try_parse_from([&["create", "clicks"], words].concat()).unwrap();
        let mut topic = CreatableTopicResult::default();
        (topic.name, topic.replication_factor) = (StrBytes::from("clicks"), replicas);
        line.create.single_copy(&topic, brokers).is_some()
    };
    assert!(told(&[], 1, 3));
    assert!(!told(&[], 3, 3));
    assert!(!told(&[], 1, 1), "a broker alone");
    assert!(!told(&["--replicas", "1"], 1, 3));
}

#[test]
fn topic_create_retries_with_controller() {
    let requests = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&requests);
    let broker = FakeBroker::start(move |asked| {
        if asked.header.api == ApiKey::Metadata {
            return asked.metadata(&[]);
        }
        let mut topic = CreatableTopicResult::default();
        topic.name = StrBytes::from("clicks");
        topic.error_code =
            if counter.fetch_add(1, Ordering::SeqCst) == 0 { ErrorCode::NotController.code() } else { 0 };
        let mut response = CreateTopicsResponse::default();
        response.topics = vec![topic];
        asked.answer(&response)
    });
    let line = Line::try_parse_from(["create", "clicks", "-b", broker.address()]).unwrap();
    let ended = line.create.run(&mut line.brokers.connect().unwrap(), &mut Vec::new());
    assert!(ended.is_ok(), "{ended:?}");
    assert_eq!(requests.load(Ordering::SeqCst), 2);
}
