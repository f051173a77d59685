//! Tests of the removal of entries.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use clap::Parser;
use levada_client::fake_broker::FakeBroker;
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::DeleteAclsResponse;
use levada_wire::messages::delete_acls_response::{DeleteAclsFilterResult, DeleteAclsMatchingAcl};
use serde_json::Value;

use super::*;
use crate::cluster::BrokerArgs;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    brokers: BrokerArgs,
    #[command(flatten)]
    remove: Remove,
}

/// Runs `levada acl remove` with these words against a broker that has an entry for each of the
/// error codes. Returns the output and the number of requests too.
fn remove(words: &str, codes: &'static [i16]) -> (Result<(), Failure>, Vec<u8>, usize) {
    let requests = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&requests);
    let broker = FakeBroker::start(move |asked| {
        counter.fetch_add(1, Ordering::SeqCst);
        let entry = |code: &i16| {
            let mut entry = DeleteAclsMatchingAcl::default();
            entry.error_code = *code;
            entry
        };
        let mut result = DeleteAclsFilterResult::default();
        result.matching_acls = codes.iter().map(entry).collect();
        let mut response = DeleteAclsResponse::default();
        response.filter_results = vec![result];
        asked.answer(&response)
    });
    let line = format!("remove {words} --yes --output json -b {}", broker.address());
    let line = Line::try_parse_from(line.split(' ')).unwrap();
    let mut out = Vec::new();
    let ended = line.remove.run(&mut line.brokers.connect().unwrap(), &mut out);
    (ended, out, requests.load(Ordering::SeqCst))
}

#[test]
fn acl_remove_refuses_host_or_prefix_alone() {
    for words in ["alice --host 10.0.0.7", "alice --prefix"] {
        let (ended, _, requests) = remove(words, &[0]);
        assert!(matches!(ended, Err(Failure::Usage(_))), "{words}: {ended:?}");
        assert_eq!(requests, 0, "{words}");
    }
    let (ended, _, requests) = remove("alice", &[0]);
    assert!(ended.is_ok() && requests == 1, "{ended:?}");
}

#[test]
fn acl_remove_fails_if_broker_keeps_entry() {
    const REFUSAL: i16 = ErrorCode::KafkaStorageError.code();
    let (ended, out, _) = remove("alice", &[0, REFUSAL]);
    assert!(matches!(ended, Err(Failure::Told)), "{ended:?}");
    let rows: Value = serde_json::from_slice(&out).unwrap();
    let outcomes: Vec<&str> =
        rows.as_array().unwrap().iter().filter_map(|row| row["outcome"].as_str()).collect();
    assert_eq!(outcomes, ["failed", "done"], "{rows}");
}
