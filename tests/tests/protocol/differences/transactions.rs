//! Random requests of transactional producers.

use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::{Value, json};

use super::{History, PARTITIONS};

/// The body with ids in place of its texts that begin with "id:": they are numbers, and the client
/// knows them by the names of requests.
fn ids(body: &Value) -> String {
    let text = body.to_string();
    let mut parts = text.split("\"id:");
    let mut done = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once('"').expect("the end of a text");
        done += &format!("{{{name}}}{rest}");
    }
    done
}

/// A producer of a transactional id, as an InitProducerId or an EndTxn has returned it.
#[derive(Clone)]
struct Session {
    transactional_id: String,
    /// Name of the request that returned the producer id.
    name: String,
    epoch: i64,
    sequences: [i64; PARTITIONS],
}

impl Session {
    fn id(&self) -> String {
        format!("id:{}", self.name)
    }
}

/// The sessions of a history: the newest of each transactional id, and some that are fenced.
#[derive(Default)]
pub(super) struct Sessions(Vec<Session>);

impl Sessions {
    fn take(&mut self, transactional_id: &str, name: &str, response: &Value) {
        let (error, epoch) = (response["errorCode"].as_i64(), response["producerEpoch"].as_i64());
        if error == Some(0) && epoch.is_some_and(|epoch| epoch >= 0) && response["producerId"] != json!(-1) {
            self.0.push(Session {
                transactional_id: transactional_id.to_owned(),
                name: name.to_owned(),
                epoch: epoch.expect("checked above"),
                sequences: [0; PARTITIONS],
            });
        }
    }

    /// A session, with its index: mostly a recent one.
    fn draw(&self, random: &mut StdRng) -> Option<(usize, Session)> {
        let back =
            if random.random_bool(0.8) { random.random_range(0..2) } else { random.random_range(0..6) };
        let index = self.0.len().checked_sub(1 + back)?;
        Some((index, self.0[index].clone()))
    }
}

/// One request of a transaction's life, by a session that may be fenced.
pub(super) fn step(history: &mut History<'_>, sessions: &mut Sessions) {
    let topic = history.topic();
    let drawn = sessions.draw(&mut history.random);
    let kind = history.below(if drawn.is_some() { 20 } else { 1 });
    let Some((index, session)) = drawn.filter(|_| kind > 0) else { return init(history, sessions) };
    let id = session.transactional_id.clone();
    let partition = usize::try_from(history.below(PARTITIONS as i64)).expect("small");
    let group = history.draw_id("group");
    // A history has the requests of one version of the transaction protocol, as an application has.
    let is_second = history.seed % 2 == 1;
    match kind {
        1..5 => {
            let body = json!({
                "v3AndBelowTransactionalId": id, "v3AndBelowProducerId": session.id(),
                "v3AndBelowProducerEpoch": session.epoch,
                "v3AndBelowTopics": [{"name": topic, "partitions": [partition]}],
            });
            history.ask_text("ADD_PARTITIONS_TO_TXN 3", &ids(&body));
        }
        5..12 => {
            let version = if is_second { 12 } else { 11 };
            sessions.0[index].sequences[partition] += produce(history, version, (&session, partition));
        }
        12 | 13 => {
            let body = json!({
                "transactionalId": id, "producerId": session.id(), "producerEpoch": session.epoch,
                "groupId": group,
            });
            history.ask_text("ADD_OFFSETS_TO_TXN 3", &ids(&body));
        }
        14 | 15 => {
            let version = if is_second { 5 } else { 3 };
            let offset = history.below(100);
            let body = json!({
                "transactionalId": id, "groupId": group, "producerId": session.id(),
                "producerEpoch": session.epoch, "generationId": -1, "memberId": "", "groupInstanceId": null,
                "topics": [{"name": topic, "partitions": [{
                    "partitionIndex": partition, "committedOffset": offset, "committedLeaderEpoch": -1,
                    "committedMetadata": null,
                }]}],
            });
            history.ask_text(&format!("TXN_OFFSET_COMMIT {version}"), &ids(&body));
        }
        _ => {
            let version = if is_second { 5 } else { 3 };
            let body = json!({
                "transactionalId": id, "producerId": session.id(), "producerEpoch": session.epoch,
                "committed": history.random.random_bool(0.6),
            });
            let (name, response) = history.ask_text(&format!("END_TXN {version}"), &ids(&body));
            if version == 5 {
                sessions.take(&id, &name, &response);
            }
        }
    }
    look_at_transactions(history, &id, &group);
}

/// Sends InitProducerId for a transactional id: without a producer, or with the id and epoch of a
/// known one.
fn init(history: &mut History<'_>, sessions: &mut Sessions) {
    let id = history.draw_id("txn");
    let mut body = json!({
        "transactionalId": id, "transactionTimeoutMs": 60_000, "producerId": -1, "producerEpoch": -1,
    });
    if let Some((_, known)) = sessions.draw(&mut history.random).filter(|_| history.random.random_bool(0.3)) {
        body["producerId"] = json!(known.id());
        body["producerEpoch"] = json!(known.epoch);
    }
    let version = 4 + history.below(2);
    let (name, response) = history.ask_text(&format!("INIT_PRODUCER_ID {version}"), &ids(&body));
    sessions.take(&id, &name, &response);
}

/// Sends a batch; returns the number of records by which the sequence goes on. Now and then the
/// batch leaves a gap, but not the first one. There is no repetition, and no epoch to come, which
/// no client has: after either, a Kafka refuses the next batch of the transaction.
fn produce(history: &mut History<'_>, version: i64, (session, partition): (&Session, usize)) -> i64 {
    let (topic, count, due) = (history.topic(), 1 + history.below(3), session.sequences[partition]);
    let sequence = if due > 0 && history.below(12) == 0 { due + 7 } else { due };
    let batch = format!("@{{{}}}/{}/{sequence}/{count}/true", session.name, session.epoch);
    let body = json!({
        "transactionalId": session.transactional_id, "acks": -1, "timeoutMs": 5_000,
        "topicData": [{"name": topic, "partitionData": [{"index": partition, "records": batch}]}],
    });
    let (_, response) = history.ask(&format!("PRODUCE {version}"), &body);
    let error = &response["responses"][0]["partitionResponses"][0]["errorCode"];
    if *error == 0 && sequence == due { count } else { 0 }
}

/// Compares what others see of a transaction, when its end is written.
fn look_at_transactions(history: &mut History<'_>, id: &str, group: &str) {
    history.ask_settled("DESCRIBE_TRANSACTIONS 0", &json!({"transactionalIds": [id]}), |response| {
        let state = response["transactionStates"][0]["transactionState"].as_str();
        !state.is_some_and(|state| state.starts_with("Prepare"))
    });
    let topic = history.topic();
    let partitions: Vec<Value> = (0..PARTITIONS)
        .map(|index| json!({"partitionIndex": index, "currentLeaderEpoch": -1, "timestamp": -1}))
        .collect();
    let body = json!({
        "replicaId": -1, "isolationLevel": 1, "topics": [{"name": topic, "partitions": partitions}],
    });
    history.ask("LIST_OFFSETS 8", &body);
    let indexes: Vec<usize> = (0..PARTITIONS).collect();
    let body = json!({"topics": [{"name": topic, "partitionIndexes": indexes}]});
    history.ask("DESCRIBE_PRODUCERS 0", &body);
    let topics = json!([{"name": topic, "partitionIndexes": indexes}]);
    let body = json!({
        "groups": [{"groupId": group, "memberId": null, "memberEpoch": -1, "topics": topics}],
        "requireStable": false,
    });
    history.ask("OFFSET_FETCH 9", &body);
}
