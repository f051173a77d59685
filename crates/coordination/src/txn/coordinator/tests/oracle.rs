//! Requests that a real Kafka has answered get the same answers here, and leave the same records.

use std::collections::BTreeMap;

use crate::txn::config::TxnConfig;
use crate::txn::error::TxnError;
use crate::txn::records::tests::golden_of;
use crate::txn::records::{Record, Topics, Value};
use crate::txn::request::{AddRequest, EndRequest, InitRequest, ProducerIdentity, Protocol, VerifyRequest};
use crate::txn::tests::rig::{Rig, at, init};

/// Kafka falls over its own exhausted epoch here; a repeated request gets the same answer again
/// instead.
const KAFKA_FAILS: &str = "init x 60000 P7 32765 -> -1 - -1";
const INSTEAD: &str = "0 P7 32766";

fn code(error: TxnError) -> i16 {
    match error {
        TxnError::UnknownServerError => -1,
        TxnError::InvalidTxnState => 48,
        TxnError::InvalidProducerIdMapping => 49,
        TxnError::InvalidTransactionTimeout => 50,
        TxnError::ConcurrentTransactions => 51,
        TxnError::ProducerFenced => 90,
        TxnError::TransactionAbortable => 120,
        error => panic!("{error}"),
    }
}

/// The producer ids of this run under the names of the recorded one.
#[derive(Default)]
struct Names {
    ids: BTreeMap<String, i64>,
}

impl Names {
    /// An id that has a name; one that Kafka did not know either gets a wild one.
    fn id(&mut self, name: &str) -> i64 {
        let wild = 1_000_000 + i64::try_from(self.ids.len()).unwrap();
        if name == "-" { -1 } else { *self.ids.entry(name.into()).or_insert(wild) }
    }

    fn name(&mut self, id: i64) -> String {
        let known = self.ids.iter().find(|(_, known)| **known == id).map(|(name, _)| name.clone());
        if id == -1 {
            return "-".into();
        }
        known.unwrap_or_else(|| {
            let name = format!("P{}", self.ids.len());
            self.ids.insert(name.clone(), id);
            name
        })
    }

    fn identity(&mut self, answer: Result<ProducerIdentity, TxnError>) -> String {
        match answer {
            Ok(owner) => format!("0 {} {}", self.name(owner.producer_id), owner.producer_epoch),
            Err(error) => format!("{} - -1", code(error)),
        }
    }
}

fn run(rig: &mut Rig, names: &mut Names, words: &[&str]) -> String {
    match *words {
        ["init", id, timeout_ms, producer, epoch] => {
            let expected = (producer != "-").then(|| (names.id(producer), epoch.parse().unwrap()));
            let timeout_ms = timeout_ms.parse().unwrap();
            let answer = rig.ask(InitRequest { timeout_ms, expected, ..init(id) });
            names.identity(answer)
        }
        ["add", id, producer, epoch, partitions] => {
            let request = AddRequest {
                transactional_id: id.into(),
                producer_id: names.id(producer),
                producer_epoch: epoch.parse().unwrap(),
                protocol: Protocol::Classic,
                partitions: partitions.split(',').map(at).collect(),
            };
            rig.ask(request).map_or_else(code, |()| 0).to_string()
        }
        ["verify", id, producer, epoch, partitions] => {
            let request = VerifyRequest {
                transactional_id: id.into(),
                producer_id: names.id(producer),
                producer_epoch: epoch.parse().unwrap(),
                partitions: partitions.split(',').map(at).collect(),
            };
            let codes = rig.ask(request).map_or_else(
                |error| vec![code(error)],
                |errors| errors.into_iter().map(|error| error.map_or(0, code)).collect(),
            );
            codes.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
        }
        ["end", id, producer, epoch, how, version] => {
            let protocol = if version == "v5" { Protocol::EpochBump } else { Protocol::Classic };
            let answer = rig.ask(EndRequest {
                transactional_id: id.into(),
                producer_id: names.id(producer),
                producer_epoch: epoch.parse().unwrap(),
                protocol,
                commit: how == "commit",
            });
            names.identity(answer)
        }
        _ => panic!("{words:?}"),
    }
}

fn jump(rig: &mut Rig, names: &mut Names, id: &str, epoch: i16) {
    let mut owner = rig.ask(init(id)).unwrap();
    while owner.producer_epoch < epoch {
        owner = rig.ask(init(id)).unwrap();
    }
    names.name(owner.producer_id);
}

/// A value without what differs from run to run.
fn essence(value: &Value) -> (i16, i32, &'static str, Topics, i16, [bool; 3]) {
    let mut topics = value.topics.clone().unwrap_or_default();
    topics.iter_mut().for_each(|(_, partitions)| partitions.sort_unstable());
    topics.sort();
    let has =
        [value.next_producer_id >= 0, value.previous_producer_id == value.producer_id, value.start_ms >= 0];
    (value.producer_epoch, value.timeout_ms, value.state.name(), topics, value.client_version, has)
}

#[test]
fn transaction_coordinator_matches_recorded_kafka() {
    let config = TxnConfig { abort_interval_ms: 500, ..TxnConfig::default() };
    let mut rig = Rig::new(config);
    let mut names = Names::default();
    rig.hold_markers = true;
    let text = include_str!("../../../../testdata/txn/answers-4.3.1.txt");
    let mut answered = 0;
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let Some((request, expected)) = line.split_once(" -> ") else {
            match line.split(' ').collect::<Vec<_>>()[..] {
                ["settle"] => {}
                ["pass", ms] => rig.pass(ms.parse().unwrap()),
                ["jump", id, _, epoch] => jump(&mut rig, &mut names, id, epoch.parse().unwrap()),
                _ => panic!("{line}"),
            }
            rig.settle();
            continue;
        };
        rig.pass(1);
        let answer = run(&mut rig, &mut names, &request.split(' ').collect::<Vec<_>>());
        // Kafka names one error for each partition.
        let expected = if line == KAFKA_FAILS { INSTEAD } else { expected };
        assert_eq!(answer, expected, "{line}");
        answered += 1;
    }
    assert_eq!(answered, 118);
    for id in ["a", "b", "c", "d", "w", "y", "z"] {
        let records = rig.log.iter().map(|record| {
            let record = Record::decode(record.key.clone(), record.value.clone()).unwrap();
            match record {
                Record::Transaction(of, Some(value)) if of == id => Some(value),
                _ => None,
            }
        });
        let ours: Vec<Value> = records.flatten().collect();
        let theirs = golden_of(id);
        // Of ids that have jumped only the end is golden.
        let ours = &ours[ours.len() - theirs.len()..];
        for (index, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
            assert_eq!(essence(ours), essence(theirs), "record {index} of {id}");
        }
    }
}
