//! Plans in files: in the form of Kafka's `kafka-reassign-partitions`, or the JSON that this
//! command prints.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::Path;

use levada_client::TopicPartition;
use levada_terminal::failure::Failure;
use serde::{Deserialize, Serialize};

use super::{Move, Ongoing};
use crate::layout::{Layout, listed};

/// Longest plan of the way back that is printed, in bytes.
const PRINTED: usize = 2_000;

/// A plan in one of the two forms.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum PlanFile {
    Kafkas { partitions: Vec<Entry> },
    Ours { moves: Vec<Entry> },
}

/// A partition in a plan; unknown fields are ignored.
#[derive(Debug, Deserialize)]
struct Entry {
    topic: String,
    partition: i32,
    #[serde(alias = "to")]
    replicas: Vec<i32>,
    /// The replicas that the author of the plan saw.
    from: Option<Vec<i32>>,
    #[serde(default)]
    log_dirs: Vec<String>,
}

/// A plan in the JSON of kafka-reassign-partitions.
#[derive(Debug, Serialize)]
struct KafkasPlan {
    version: i32,
    partitions: Vec<KafkasEntry>,
}

#[derive(Debug, Serialize)]
struct KafkasEntry {
    topic: String,
    partition: i32,
    replicas: Vec<i32>,
}

/// Reads a plan; `-` is stdin. Partitions that already have the planned replicas are omitted.
pub(crate) fn read_plan(path: &Path, layout: &Layout) -> Result<Vec<Move>, Failure> {
    let shown = path.display();
    let text = if path == Path::new("-") { stdin() } else { fs::read_to_string(path) };
    let text = text.map_err(|error| Failure::Usage(format!("cannot read the plan {shown}: {error}")))?;
    parse(&text, layout).map_err(|what| Failure::Usage(format!("the plan {shown}: {what}")))
}

fn stdin() -> io::Result<String> {
    let mut text = String::new();
    io::stdin().read_to_string(&mut text)?;
    Ok(text)
}

pub(super) fn parse(text: &str, layout: &Layout) -> Result<Vec<Move>, String> {
    const EXPECTED: &str =
        "expected {\"partitions\": [{\"topic\": NAME, \"partition\": N, \"replicas\": [N, …]}, …]}";
    let plan: PlanFile = serde_json::from_str(text).map_err(|_| EXPECTED.to_owned())?;
    let (PlanFile::Kafkas { partitions: entries } | PlanFile::Ours { moves: entries }) = plan;
    let mut moves: BTreeMap<TopicPartition, Move> = BTreeMap::new();
    for entry in entries {
        let place = (entry.topic.clone(), entry.partition);
        let shown = format!("{}/{}", place.0, place.1);
        if entry.log_dirs.iter().any(|directory| directory != "any") {
            return Err(format!("{shown} names directories; only \"any\" is possible in log_dirs"));
        }
        let present = &layout
            .partitions
            .get(&place)
            .ok_or_else(|| format!("there is no partition {shown}; levada partition list shows all"))?
            .replicas;
        if let Some(seen) = entry.from.filter(|seen| seen != present) {
            let (seen, present) = (listed(seen), listed(present.iter().copied()));
            return Err(format!("{shown} had replicas {seen} and has {present} now; make a new plan"));
        }
        let one = Move {
            topic: entry.topic,
            partition: entry.partition,
            from: present.clone(),
            to: entry.replicas,
            bytes: None,
        };
        if moves.insert(place, one).is_some() {
            return Err(format!("{shown} is named twice"));
        }
    }
    Ok(moves.into_values().filter(|one| one.from != one.to).collect())
}

/// Moves that the controller carries out already.
pub(crate) fn of_ongoing(ongoing: &BTreeMap<TopicPartition, Ongoing>) -> Vec<Move> {
    let one = |(place, ongoing): (&TopicPartition, &Ongoing)| Move {
        topic: place.0.clone(),
        partition: place.1,
        from: ongoing.origin(),
        to: ongoing.target(),
        bytes: None,
    };
    ongoing.iter().map(one).collect()
}

/// The plan of the way back, in Kafka's form.
pub(super) fn way_back(moves: &[Move]) -> String {
    let entry = |one: &Move| KafkasEntry {
        topic: one.topic.clone(),
        partition: one.partition,
        replicas: one.from.clone(),
    };
    let plan = KafkasPlan { version: 1, partitions: moves.iter().map(entry).collect() };
    serde_json::to_string(&plan).expect("numbers and texts are JSON")
}

/// Fails if the file for the way back exists already, before anything is printed or changed.
pub(super) fn check_way_back(file: Option<&Path>) -> Result<(), Failure> {
    match file.filter(|path| path.symlink_metadata().is_ok()) {
        Some(path) => Err(not_written(path, &io::ErrorKind::AlreadyExists.into())),
        None => Ok(()),
    }
}

fn not_written(path: &Path, error: &io::Error) -> Failure {
    let shown = path.display();
    Failure::with_next(
        format!("cannot write the plan that undoes the moves to {shown}: {error}; nothing was moved"),
        "the name of a new file in a directory that you may write to",
    )
}

/// Writes the plan of the way back to a new file, or prints it if it is short.
pub(super) fn keep_way_back(file: Option<&Path>, moves: &[Move]) -> Result<(), Failure> {
    let plan = way_back(moves);
    let Some(path) = file else {
        if plan.len() <= PRINTED {
            tell!("to undo the moves, for levada partition move --plan: {plan}");
        }
        return Ok(());
    };
    let written = OpenOptions::new().write(true).create_new(true).open(path);
    let written = written.and_then(|mut file| file.write_all(plan.as_bytes()).and_then(|()| file.sync_all()));
    written.map_err(|error| not_written(path, &error))?;
    tell!("to undo the moves: levada partition move --plan {}", path.display());
    Ok(())
}
