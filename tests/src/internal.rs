//! Records of the internal topics in the replicas of brokers, as the dump tools of Kafka and of
//! Levada decode them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::ops::Range;
use std::path::Path;

use serde_json::Value;

use crate::cluster::Tools;
use crate::replicas::segments_from;
use crate::{Cluster, Tool};

/// The internal topics, with the option by which Kafka's dump tool decodes them.
pub const TOPICS: [(&str, &str); 2] =
    [("__consumer_offsets", "--offsets-decoder"), ("__transaction_state", "--transaction-log-decoder")];

/// Failure of Kafka's dump tool if a broker truncates the segment in use while the tool reads it.
/// Records below the high watermark, which are never truncated, stand before it.
const TRUNCATED: &str = "CorruptRecordException: Unexpected EOF while attempting to read the next batch";

/// Decoded records of a replica by offset. The markers of transactions are not among them.
pub type Records = BTreeMap<i64, String>;

/// Decodes the records of a replica in a range of offsets, with Kafka's tool. The replica may be in
/// use. An error names a record that the tool cannot decode.
pub fn by_kafka(
    tools: &mut Tools,
    decoder: &str,
    partition: &Path,
    range: Range<i64>,
) -> Result<Records, String> {
    let files: Vec<String> =
        segments_from(partition, range.start).iter().map(|path| path.display().to_string()).collect();
    let line = format!("DumpLogSegments {decoder} --files {}", files.join(","));
    let (code, said) = tools.outcome(&line);
    assert!(code == 0 || said.contains(TRUNCATED), "{line}: {said}");
    let mut records = Records::new();
    for line in said.lines().filter(|line| !line.contains(" endTxnMarker: ")) {
        let Some(rest) = line.strip_prefix("| offset: ") else { continue };
        let offset = rest.split(' ').next().and_then(|offset| offset.parse().ok());
        let offset = offset.ok_or_else(|| format!("no offset in {line}"))?;
        let decoded = line.split_once(" key: {").ok_or_else(|| format!("not decoded: {line}"))?.1;
        if range.contains(&offset) {
            records.insert(offset, decoded.to_owned());
        }
    }
    Ok(records)
}

/// Records of a partition of an internal topic, as `levada log dump` decodes them.
pub fn by_levada(partition: &Path, range: Range<i64>) -> Result<Records, String> {
    let mut tool = Tool::levada();
    tool.args(["log", "dump", "--records", "--output", "json"]);
    for path in segments_from(partition, range.start) {
        tool.arg(path.display().to_string());
    }
    let mut records = Records::new();
    // Of a segment in use the last batch may not be whole, which is damage.
    for line in tool.outcome().1.stdout.lines().filter(|line| line.contains("\"offset\":")) {
        let fields: Value = serde_json::from_str(line).map_err(|error| format!("{line}: {error}"))?;
        let offset = fields["offset"].as_i64().ok_or_else(|| format!("no offset in {line}"))?;
        match &fields["decoded"] {
            _ if !range.contains(&offset) => {}
            Value::Null if fields["undecoded"].is_null() => {}
            Value::Null => return Err(format!("not decoded: {line}")),
            decoded => drop(records.insert(offset, decoded.to_string())),
        }
    }
    Ok(records)
}

/// Fails unless Kafka's tool decodes the same records of each partition of an internal topic in the
/// replica of each broker. The topic must have records.
pub fn assert_equal_replicas(
    cluster: &Cluster,
    tools: &mut Tools,
    (topic, decoder): (&str, &str),
    partitions: u32,
) {
    cluster.await_in_sync(tools);
    let mut count = 0;
    for index in 0..partitions {
        let mut read = cluster.brokers().into_iter().map(|id| {
            let partition = cluster.node(id).data().join(format!("{topic}-{index}"));
            let records = by_kafka(tools, decoder, &partition, 0..i64::MAX);
            let named = |error| panic!("{}: {error}", partition.display());
            (format!("broker {id}"), records.unwrap_or_else(named))
        });
        let (first, expected) = read.next().expect("a broker");
        for (name, records) in read {
            let found = differences((&first, &expected), (&name, &records));
            assert!(found.is_empty(), "{topic}-{index}: {found:#?}");
        }
        count += expected.len();
    }
    println!("{count} records of {topic} read back");
    assert!(count > 0, "no record was written");
}

/// Differences between two views of a log.
pub fn differences<T: PartialEq + Debug>(
    (one, first): (&str, &BTreeMap<i64, T>),
    (other, second): (&str, &BTreeMap<i64, T>),
) -> Vec<String> {
    let offsets: BTreeSet<&i64> = first.keys().chain(second.keys()).collect();
    let views = offsets.into_iter().map(|offset| (offset, first.get(offset), second.get(offset)));
    let different = views.filter(|(_, first, second)| first != second);
    let said = |(offset, first, second)| format!("offset {offset}: {one} has {first:?}, {other} {second:?}");
    different.map(said).collect()
}

/// The committed offset in a decoded record, if the record is a commit.
pub fn committed(record: &str) -> Option<i64> {
    let rest = record.split_once("\"offset\":")?.1;
    rest.split([',', '}']).next()?.trim().parse().ok()
}
