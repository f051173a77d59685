//! Tests of records of internal topics as JSON, by records that a real Kafka has written.

use levada_metadata::records::control::LeaderChange;
use levada_metadata::records::{
    AccessControlEntryRecord, ConfigRecord, Record, TopicRecord, UserScramCredentialRecord, encode,
};
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
    let expected = json!({ "type": "UserScramCredential", "version": 0, "name": "alice", "mechanism": "SCRAM-SHA-256", "iterations": 4096 });
    assert_eq!(user, expected);
}

#[test]
fn metadata_records_have_names_for_numbers() {
    let decode =
        |record: Record| InternalTopic::Metadata.decode(None, Some(encode(&record).unwrap())).unwrap();
    let entry = AccessControlEntryRecord {
        resource_type: 2,
        pattern_type: 4,
        operation: 3,
        permission_type: 2,
        ..AccessControlEntryRecord::default()
    };
    let entry = decode(entry.into());
    let named = ["resource_type", "pattern_type", "operation", "permission_type"].map(|field| &entry[field]);
    assert_eq!(named, ["TOPIC", "PREFIXED", "READ", "DENY"]);
    for (resource_type, expected) in [(4, json!("BROKER")), (77, json!(77))] {
        let setting = decode(ConfigRecord { resource_type, ..ConfigRecord::default() }.into());
        assert_eq!(setting["resource_type"], expected);
    }
}

#[test]
fn control_records_of_metadata_are_decoded() {
    let change = LeaderChange { leader_id: 3, voters: vec![1, 3], granting_voters: vec![3] };
    let decode = |record: &ControlRecord| {
        let (key, value) = control::encode(record).unwrap();
        InternalTopic::Metadata.decode_control(Some(key), Some(value)).unwrap().unwrap()
    };
    let decoded = decode(&ControlRecord::LeaderChange(change));
    let expected =
        json!({ "type": "LeaderChange", "leader_id": 3, "voters": [1, 3], "granting_voters": [3] });
    assert_eq!(decoded, expected);
    let voter = Voter {
        voter_id: 1,
        directory_id: Uuid::from_bytes([7; 16]),
        endpoints: Vec::new(),
        min_kraft_version: 0,
        max_kraft_version: 1,
    };
    let voters = decode(&ControlRecord::Voters(vec![voter]));
    assert_eq!(voters["voters"][0]["directory_id"], levada_metadata::uuid::text(Uuid::from_bytes([7; 16])));
    let bytes = || Some(Bytes::from_static(b"text"));
    assert!(InternalTopic::Metadata.decode_control(bytes(), bytes()).unwrap().is_err());
    assert_eq!(InternalTopic::Offsets.decode_control(bytes(), bytes()), None);
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
