//! Tests of records of internal topics as JSON, by records that a real Kafka has written.

use levada_metadata::records::{Record, TopicRecord, UserScramCredentialRecord, encode};
use levada_wire::Uuid;

use super::*;

fn unhex(hex: &str) -> Option<Bytes> {
    let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    (hex != "-").then(|| (0..hex.len()).step_by(2).map(byte).collect())
}

/// Every record of a file of golden records, decoded; key and value are the last two columns.
fn decoded(topic: InternalTopic, text: &str) -> Vec<Value> {
    let records = text.lines().filter(|line| !line.starts_with('#'));
    let columns = records.map(|line| line.rsplit_once(' ').unwrap());
    let decode = |(rest, value): (&str, &str)| {
        let key = rest.rsplit_once(' ').map_or(rest, |(_, key)| key);
        topic.decode(unhex(key), unhex(value)).unwrap()
    };
    columns.map(decode).collect()
}

fn of<'a>(decoded: &'a [Value], kind: &'a str) -> impl Iterator<Item = &'a Value> {
    decoded.iter().filter(move |one| one["type"] == kind)
}

#[test]
fn kafkas_group_records_are_decoded() {
    let text = include_str!("../../../../coordination/testdata/group/consumer-offsets-4.3.1.txt");
    let decoded = decoded(InternalTopic::Offsets, text);
    let offset = of(&decoded, "offset").find(|one| !one["value"].is_null()).unwrap();
    assert!(offset["key"]["group_id"].is_string() && offset["key"]["partition"].is_i64(), "{offset}");
    assert!(offset["value"]["offset"].is_i64(), "{offset}");
    let group = of(&decoded, "group").find(|one| !one["value"].is_null()).unwrap();
    assert!(group["value"]["generation"].is_i64(), "{group}");
    for kind in ["consumer_group", "consumer_group_member", "consumer_group_current"] {
        assert!(of(&decoded, kind).next().is_some_and(|one| one["key"]["group_id"].is_string()), "{kind}");
    }
    assert_eq!(of(&decoded, "other").count(), 0);
}

#[test]
fn decoded_metadata_records_omit_user_credentials() {
    let decode =
        |record: Record| InternalTopic::Metadata.decode(None, Some(encode(&record).unwrap())).unwrap();
    let topic_id = Uuid::from_bytes([7; 16]);
    let topic = decode(TopicRecord { name: "clicks".to_owned(), topic_id }.into());
    let id = levada_metadata::uuid::text(topic_id);
    assert_eq!(topic, json!({ "type": "Topic", "version": 0, "name": "clicks", "topic_id": id }));
    let credential = UserScramCredentialRecord {
        name: "alice".to_owned(),
        mechanism: 1,
        salt: b"planted".to_vec(),
        stored_key: b"planted".to_vec(),
        server_key: b"planted".to_vec(),
        iterations: 4096,
    };
    let user = decode(credential.into());
    let expected = json!({ "type": "UserScramCredential", "version": 0, "name": "alice", "mechanism": 1, "iterations": 4096 });
    assert_eq!(user, expected);
}

#[test]
fn undecodable_internal_topic_record_is_refused() {
    let bytes = |text: &'static [u8]| Some(Bytes::from_static(text));
    InternalTopic::Offsets.decode(bytes(&[0]), None).unwrap_err();
    InternalTopic::Transactions.decode(bytes(&[0, 0, 0xff]), bytes(b"x")).unwrap_err();
    InternalTopic::Metadata.decode(None, bytes(b"text")).unwrap_err();
    assert_eq!(InternalTopic::Offsets.decode(None, None), Err("it has no key".to_owned()));
    assert_eq!(InternalTopic::of_directory("__consumer_offsets-7"), Some(InternalTopic::Offsets));
    assert_eq!(InternalTopic::of_directory("clicks-7"), None);
}
