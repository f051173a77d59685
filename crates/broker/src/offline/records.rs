//! Records of internal topics as JSON, for inspection.

use bytes::Bytes;
use serde_json::{Value, json};

use levada_coordination::group::records::{
    ConsumerRecord, Partitions, Record as GroupRecord, ShareRecord, StreamsRecord,
};
use levada_coordination::share_state::records::Record as StateRecord;
use levada_coordination::txn::records::Record as TxnRecord;
use levada_metadata::records as metadata;
use levada_metadata::records::control::{self, ControlRecord, Voter};
use levada_wire::record_json;

/// An internal topic whose records can be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InternalTopic {
    /// `__consumer_offsets`.
    Offsets,
    /// `__transaction_state`.
    Transactions,
    /// `__share_group_state`.
    ShareStates,
    /// `__cluster_metadata`.
    Metadata,
}

impl InternalTopic {
    /// The topic of a partition's directory, such as `__consumer_offsets-7`.
    pub fn of_directory(name: &str) -> Option<Self> {
        match name.rsplit_once('-')?.0 {
            "__consumer_offsets" => Some(Self::Offsets),
            "__transaction_state" => Some(Self::Transactions),
            "__share_group_state" => Some(Self::ShareStates),
            "__cluster_metadata" => Some(Self::Metadata),
            _ => None,
        }
    }

    /// A record of the topic as an object with the field `type`. Credentials of users come without
    /// salt and keys.
    ///
    /// # Errors
    /// The reason why it is not a record of this topic.
    pub fn decode(self, key: Option<Bytes>, value: Option<Bytes>) -> Result<Value, String> {
        match (self, key, value) {
            (Self::Metadata, _, Some(value)) => {
                let (record, version) = metadata::decode(value).map_err(|error| error.to_string())?;
                let mut decoded = serde_json::to_value(&record).map_err(|error| error.to_string())?;
                decoded["version"] = json!(version);
                Ok(decoded)
            }
            (Self::Metadata, _, None) => Err("it has no value".to_owned()),
            (_, None, _) => Err("it has no key".to_owned()),
            (Self::Offsets, Some(key), value) => {
                GroupRecord::decode(key, value).map(of_group).map_err(|error| error.to_string())
            }
            (Self::Transactions, Some(key), value) => {
                TxnRecord::decode(key, value).map(of_transaction).map_err(|error| error.to_string())
            }
            (Self::ShareStates, Some(key), value) => {
                StateRecord::decode(key, value).map(of_share_state).map_err(|error| error.to_string())
            }
        }
    }

    /// A control record of the topic as an object with the field `type`; none for the end markers
    /// of transactions, which are the same in all topics but the metadata log.
    ///
    /// # Errors
    /// The reason why it is not a control record of the metadata log.
    pub fn decode_control(self, key: Option<Bytes>, value: Option<Bytes>) -> Option<Result<Value, String>> {
        if self != Self::Metadata {
            return None;
        }
        let (Some(key), Some(value)) = (key, value) else {
            return Some(Err("it has no key or no value".to_owned()));
        };
        Some(control::decode(key, value).map(of_control).map_err(|error| error.to_string()))
    }
}

fn of_control(record: ControlRecord) -> Value {
    match record {
        ControlRecord::LeaderChange(change) => json!({
            "type": "LeaderChange",
            "leader_id": change.leader_id,
            "voters": change.voters,
            "granting_voters": change.granting_voters,
        }),
        ControlRecord::SnapshotHeader { last_contained_log_timestamp_ms } => json!({
            "type": "SnapshotHeader",
            "last_contained_log_timestamp_ms": last_contained_log_timestamp_ms,
        }),
        ControlRecord::SnapshotFooter => json!({ "type": "SnapshotFooter" }),
        ControlRecord::KRaftVersion(level) => json!({ "type": "KRaftVersion", "kraft_version": level }),
        ControlRecord::Voters(voters) => {
            json!({ "type": "Voters", "voters": voters.iter().map(of_voter).collect::<Vec<_>>() })
        }
    }
}

fn of_voter(voter: &Voter) -> Value {
    let endpoints = voter.endpoints.iter();
    let endpoints = endpoints.map(|one| json!({ "name": one.name, "host": one.host, "port": one.port }));
    json!({
        "voter_id": voter.voter_id,
        "directory_id": record_json::text(&voter.directory_id),
        "endpoints": endpoints.collect::<Vec<_>>(),
        "min_kraft_version": voter.min_kraft_version,
        "max_kraft_version": voter.max_kraft_version,
    })
}

fn of_group(record: GroupRecord) -> Value {
    match record {
        GroupRecord::Offset(key, value) => json!({ "type": "offset", "key": key, "value": value }),
        GroupRecord::Group(group, value) => {
            json!({ "type": "group", "key": { "group_id": group }, "value": value })
        }
        GroupRecord::Consumer(group, record) => of_consumer_group(&group, &record),
        GroupRecord::Share(group, record) => of_share_group(&group, &record),
        GroupRecord::Streams(group, record) => of_streams_group(&group, &record),
        GroupRecord::Other(version) => json!({ "type": "other", "key_version": version }),
    }
}

fn of_whole_group(kind: &str, group: &str, value: Value) -> Value {
    json!({ "type": kind, "key": { "group_id": group }, "value": value })
}

fn of_group_member(kind: &str, (group, member): (&str, &str), value: Value) -> Value {
    json!({ "type": kind, "key": { "group_id": group, "member_id": member }, "value": value })
}

fn of_consumer_group(group: &str, record: &ConsumerRecord) -> Value {
    let of_group = |kind, value| of_whole_group(kind, group, value);
    let of_member = |kind, member, value| of_group_member(kind, (group, member), value);
    match record {
        ConsumerRecord::Epoch(value) => of_group("consumer_group", json!(value)),
        ConsumerRecord::Topics(value) => {
            of_group("consumer_group_topics", json!(value.as_ref().map(|bytes| bytes.len())))
        }
        ConsumerRecord::TargetEpoch(value) => of_group("consumer_group_target_epoch", json!(value)),
        ConsumerRecord::Member(member, value) => of_member("consumer_group_member", member, json!(value)),
        ConsumerRecord::Target(member, value) => {
            of_member("consumer_group_target", member, json!(value.as_ref().map(named)))
        }
        ConsumerRecord::Current(member, value) => of_member("consumer_group_current", member, json!(value)),
        ConsumerRecord::Regex(regex, value) => json!({
            "type": "consumer_group_regex",
            "key": { "group_id": group, "regex": regex },
            "value": value,
        }),
    }
}

fn of_share_group(group: &str, record: &ShareRecord) -> Value {
    let of_group = |kind, value| of_whole_group(kind, group, value);
    let of_member = |kind, member, value| of_group_member(kind, (group, member), value);
    match record {
        ShareRecord::Member(member, value) => of_member("share_group_member", member, json!(value)),
        ShareRecord::Epoch(value) => of_group("share_group", json!(value)),
        ShareRecord::TargetEpoch(value) => of_group("share_group_target_epoch", json!(value)),
        ShareRecord::Target(member, value) => {
            of_member("share_group_target", member, json!(value.as_ref().map(named)))
        }
        ShareRecord::Current(member, value) => of_member("share_group_current", member, json!(value)),
        ShareRecord::State(value) => of_group("share_group_state", json!(value)),
    }
}

fn of_streams_group(group: &str, record: &StreamsRecord) -> Value {
    let of_group = |kind, value| of_whole_group(kind, group, value);
    let of_member = |kind, member, value| of_group_member(kind, (group, member), value);
    match record {
        StreamsRecord::Epoch(value) => of_group("streams_group", json!(value)),
        StreamsRecord::Member(member, value) => of_member("streams_group_member", member, json!(value)),
        StreamsRecord::TargetEpoch(value) => of_group("streams_group_target_epoch", json!(value)),
        StreamsRecord::Target(member, value) => of_member("streams_group_target", member, json!(value)),
        StreamsRecord::Current(member, value) => of_member("streams_group_current", member, json!(value)),
        StreamsRecord::Topology(value) => {
            of_group("streams_group_topology", json!(value.as_ref().map(|topology| &**topology)))
        }
    }
}

/// Partitions by the ids of their topics.
fn named(topics: &Partitions) -> Value {
    topics.iter().map(|(id, partitions)| (record_json::text(id), json!(partitions))).collect()
}

fn of_transaction(record: TxnRecord) -> Value {
    match record {
        TxnRecord::Transaction(id, value) => {
            json!({ "type": "transaction", "key": { "transactional_id": id }, "value": value })
        }
        TxnRecord::Other(version) => json!({ "type": "other", "key_version": version }),
    }
}

fn of_share_state(record: StateRecord) -> Value {
    match record {
        StateRecord::Snapshot(key, value) => json!({ "type": "share_snapshot", "key": key, "value": value }),
        StateRecord::Update(key, value) => json!({ "type": "share_update", "key": key, "value": value }),
        StateRecord::Other(version) => json!({ "type": "other", "key_version": version }),
    }
}

#[cfg(test)]
mod tests;
