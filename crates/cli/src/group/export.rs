//! `levada group export` and `levada group import`: committed offsets as CSV, in the form of
//! Kafka's `kafka-consumer-groups`, or as JSON.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read as _, Write};
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use indicatif::HumanBytes;
use levada_client::{Cluster, Topic, TopicPartition, committed};
use levada_wire::error_code::ErrorCode;
use serde::{Deserialize, Serialize};

use super::reset::{self, Goal, Kind, Plan};
use super::state;
use crate::kafka_error;
use levada_terminal::failure::Failure;
use levada_terminal::output::{self, FormatArgs};

/// Largest file of offsets that is read, in bytes.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// Print the committed offsets of groups, for levada group import and Kafka's tools
///
/// A line is topic,partition,offset, as kafka-consumer-groups --export prints it; with several
/// groups, the group precedes the topic.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada group export readers > readers.csv
  levada group export readers writers --output json")]
pub(crate) struct Export {
    /// Names of the groups
    #[arg(required = true, value_name = "GROUP")]
    groups: Vec<String>,
    /// Output format
    #[arg(long, value_name = "FORM", default_value = "csv", display_order = 100)]
    output: Form,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Form {
    Csv,
    Json,
}

/// Commit the offsets in a file for a group without members
///
/// Prints the plan; --execute carries it out. The file is the output of levada group export or of
/// kafka-consumer-groups --export.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada group import readers readers.csv              shows the plan
  levada group import readers readers.csv --execute    carries it out
  levada group export old | levada group import new - --execute")]
pub(crate) struct Import {
    /// Name of the group
    group: String,
    /// The file, or - for stdin
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Carry out the plan
    #[arg(long)]
    execute: bool,
    #[command(flatten)]
    format: FormatArgs,
}

/// A committed offset in the form of the files. Lines without a group belong to the group of the
/// argument.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(super) struct Row {
    pub(super) group: Option<String>,
    pub(super) topic: String,
    pub(super) partition: i32,
    pub(super) offset: i64,
}

impl Export {
    pub(super) fn run(&self, cluster: &mut Cluster, out: &mut dyn Write) -> Result<(), Failure> {
        let mut rows = Vec::new();
        for group in &self.groups {
            let committed = committed::fetch(cluster, group)?;
            if committed.is_empty() {
                let what = format!("group {group} has no committed offsets");
                return Err(Failure::with_next(what, "levada group list shows all groups"));
            }
            rows.extend(committed.into_iter().map(|((topic, partition), one)| Row {
                group: Some(group.clone()),
                topic,
                partition,
                offset: one.offset,
            }));
        }
        if self.output == Form::Json {
            return output::json(out, &rows);
        }
        for Row { group, topic, partition, offset } in rows {
            match group.filter(|_| self.groups.len() > 1) {
                Some(group) => writeln!(out, "{},{topic},{partition},{offset}", quoted(&group))?,
                None => writeln!(out, "{topic},{partition},{offset}")?,
            }
        }
        Ok(())
    }
}

impl Import {
    pub(super) fn run(&self, cluster: &mut Cluster, out: &mut dyn Write) -> Result<(), Failure> {
        let wanted = self.wanted()?;
        let group = state::describe(cluster, &self.group)?;
        group.map_or(Ok(()), |group| reset::check_idle(&self.group, &group))?;
        let committed = reset::committed_offsets(cluster, &self.group)?;
        let topics = topics(cluster, &wanted)?;
        let ranges = reset::ranges(cluster, &topics, Goal::Latest)?;
        let mut moves = Vec::new();
        for (place, range) in ranges {
            let Some(offset) = wanted.get(&place) else { continue };
            let range = BTreeMap::from([(place, range)]);
            moves.extend(reset::moves(Goal::Offset(*offset), (Kind::Committed, &committed), &range)?);
        }
        let (group, kind) = (&self.group, Kind::Committed);
        let plan = Plan { group, kind, executed: self.execute, partitions: &moves };
        plan.carry_out(cluster, self.format.format, out)
    }

    /// The offsets of the file that are for this group.
    fn wanted(&self) -> Result<BTreeMap<TopicPartition, i64>, Failure> {
        let shown = self.file.display();
        let text = read(&self.file, FILE_BYTES_MAX)?;
        let next = "a file of levada group export, or of kafka-consumer-groups --export";
        let rows = rows(&text).map_err(|error| Failure::with_next(format!("{shown}: {error}"), next))?;
        let own = rows.into_iter().filter(|row| row.group.as_ref().is_none_or(|group| *group == self.group));
        let wanted: BTreeMap<_, _> = own.map(|row| ((row.topic, row.partition), row.offset)).collect();
        if wanted.is_empty() {
            Err(Failure::with_next(format!("{shown} has no offset of group {}", self.group), next))
        } else {
            Ok(wanted)
        }
    }
}

/// The topics of these partitions, with only these partitions.
fn topics(cluster: &mut Cluster, wanted: &BTreeMap<TopicPartition, i64>) -> Result<Vec<Topic>, Failure> {
    let names: Vec<&str> = wanted.keys().map(|(name, _)| name.as_str()).collect();
    let mut topics = cluster.topics(Some(&names))?;
    for (name, partition) in wanted.keys() {
        match topics.get(name) {
            Some(topic) => drop(topic.leader(*partition)?),
            None => {
                kafka_error::check(ErrorCode::UnknownTopicOrPartition.code(), &format!("topic {name}"), None)?
            }
        }
    }
    for topic in topics.values_mut() {
        topic.leaders.retain(|partition, _| wanted.contains_key(&(topic.name.clone(), *partition)));
    }
    Ok(topics.into_values().collect())
}

/// The text of a file of at most `bytes_max` bytes.
fn read(path: &Path, bytes_max: u64) -> Result<String, Failure> {
    let shown = path.display();
    let failed = |error: io::Error| Failure::new(format!("cannot read {shown}: {error}"));
    let mut bytes = Vec::new();
    // One byte more shows that the file is larger.
    let read = if path == Path::new("-") {
        io::stdin().take(bytes_max + 1).read_to_end(&mut bytes)
    } else {
        fs::File::open(path).and_then(|file| file.take(bytes_max + 1).read_to_end(&mut bytes))
    };
    if read.map_err(failed)? as u64 > bytes_max {
        let what = format!("{shown} is larger than {}, the most that is read", HumanBytes(bytes_max));
        return Err(Failure::with_next(what, "split the file, and import each part"));
    }
    String::from_utf8(bytes).map_err(|error| failed(io::Error::new(io::ErrorKind::InvalidData, error)))
}

/// The rows of a file, in either form.
pub(super) fn rows(text: &str) -> Result<Vec<Row>, String> {
    if text.trim_start().starts_with('[') {
        return serde_json::from_str(text).map_err(|error| error.to_string());
    }
    let lines = text.lines().zip(1..).filter(|(line, _)| !line.trim().is_empty());
    lines
        .map(|(line, number)| {
            row(line).ok_or_else(|| format!("line {number}: expected topic,partition,offset: {line}"))
        })
        .collect()
}

/// `topic,partition,offset`, with or without the group before them. Names of topics contain no
/// commas; those of groups may, in quotes.
fn row(line: &str) -> Option<Row> {
    let (rest, offset) = line.trim().rsplit_once(',')?;
    let (rest, partition) = rest.rsplit_once(',')?;
    let (group, topic) = match rest.rsplit_once(',') {
        Some((group, topic)) => (Some(unquoted(group)), topic),
        None => (None, rest),
    };
    let partition = partition.trim().parse().ok().filter(|partition| *partition >= 0)?;
    let offset = offset.trim().parse().ok().filter(|offset| *offset >= 0)?;
    Some(Row { group, topic: unquoted(topic), partition, offset }).filter(|row| !row.topic.is_empty())
}

fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

fn unquoted(field: &str) -> String {
    let field = field.trim();
    match field.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(inner) => inner.replace("\"\"", "\""),
        None => field.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(group: Option<&str>, offset: i64) -> Row {
        Row { group: group.map(str::to_owned), topic: "clicks".to_owned(), partition: 2, offset }
    }

    #[test]
    fn offsets_are_parsed_from_csv_and_json() {
        let check = |text: &str, expected: Row| assert_eq!(rows(text), Ok(vec![expected]), "{text}");
        check("clicks,2,10\n", row(None, 10));
        check("\"clicks\",2,10\r\n\n", row(None, 10));
        check("readers,clicks,2,10", row(Some("readers"), 10));
        check("\"a,\"\"b\",clicks,2,10", row(Some("a,\"b"), 10));
        check(
            r#"[{"group":"readers","topic":"clicks","partition":2,"offset":10}]"#,
            row(Some("readers"), 10),
        );
        for wrong in ["clicks,2", "clicks,two,10", "clicks,2,-1", ",2,10", "[{}]"] {
            rows(wrong).expect_err(wrong);
        }
        assert_eq!(unquoted(&quoted("a,\"b")), "a,\"b");
    }

    #[test]
    fn oversized_offsets_file_is_refused_not_truncated() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("readers.csv");
        let lines = "clicks,2,10\nclicks,3,1000\n";
        fs::write(&path, lines).unwrap();
        let bytes = lines.len() as u64;
        assert_eq!(read(&path, bytes).unwrap(), lines);
        // Without its last bytes the text has another offset.
        for limit in [bytes - 1, bytes - 3, 0] {
            let failure = read(&path, limit).unwrap_err();
            let expected = format!("{} is larger than {}, ", path.display(), HumanBytes(limit));
            assert!(failure.line().starts_with(&expected), "{failure:?}");
        }
    }
}
