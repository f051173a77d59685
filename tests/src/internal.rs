//! Records of the internal topics in the replicas of brokers, as the dump tools of Kafka and of
//! Levada decode them.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use crate::Tool;
use crate::cluster::Tools;
use crate::replicas::segments;

/// The internal topics, with the option by which Kafka's dump tool decodes them.
pub const TOPICS: [(&str, &str); 2] =
    [("__consumer_offsets", "--offsets-decoder"), ("__transaction_state", "--transaction-log-decoder")];

/// Decoded records of a replica by offset. The markers of transactions are not among them.
pub type Records = BTreeMap<i64, String>;

/// Decodes a replica, which may be in use, with Kafka's tool. An error names a record that the tool
/// cannot decode.
pub fn by_kafka(tools: &mut Tools, decoder: &str, partition: &Path) -> Result<Records, String> {
    let files: Vec<String> = segments(partition).iter().map(|path| path.display().to_string()).collect();
    let said = tools.run(&format!("DumpLogSegments {decoder} --files {}", files.join(",")));
    let mut records = Records::new();
    for line in said.lines().filter(|line| !line.contains(" endTxnMarker: ")) {
        let Some(rest) = line.strip_prefix("| offset: ") else { continue };
        let offset = rest.split(' ').next().and_then(|offset| offset.parse().ok());
        let offset = offset.ok_or_else(|| format!("no offset in {line}"))?;
        let decoded = line.split_once(" key: {").ok_or_else(|| format!("not decoded: {line}"))?.1;
        records.insert(offset, decoded.to_owned());
    }
    Ok(records)
}

/// The same with Levada's tool.
pub fn by_levada(partition: &Path) -> Result<Records, String> {
    let mut tool = Tool::levada();
    tool.args(["log", "dump", "--records", "--output", "json"]);
    for path in segments(partition) {
        tool.arg(path.display().to_string());
    }
    let mut records = Records::new();
    // Of a segment in use the last batch may not be whole, which is damage.
    for line in tool.outcome().1.stdout.lines().filter(|line| line.contains("\"offset\":")) {
        let fields: Value = serde_json::from_str(line).map_err(|error| format!("{line}: {error}"))?;
        let offset = fields["offset"].as_i64().ok_or_else(|| format!("no offset in {line}"))?;
        match &fields["decoded"] {
            Value::Null if fields["undecoded"].is_null() => {}
            Value::Null => return Err(format!("not decoded: {line}")),
            decoded => drop(records.insert(offset, decoded.to_string())),
        }
    }
    Ok(records)
}

/// Differences between two views of a log, up to the end of the shorter one.
pub fn differences<T: PartialEq>(
    (one, first): (&str, &BTreeMap<i64, T>),
    (other, second): (&str, &BTreeMap<i64, T>),
) -> Vec<String> {
    let last = |view: &BTreeMap<i64, T>| view.last_key_value().map_or(-1, |(offset, _)| *offset);
    let end = last(first).min(last(second));
    let offsets = first.keys().chain(second.keys()).filter(|offset| **offset <= end);
    let different = offsets.filter(|offset| first.get(offset) != second.get(offset));
    different.map(|offset| format!("offset {offset}: {one} and {other} differ")).collect()
}

/// The committed offset in a decoded record, if the record is a commit.
pub fn committed(record: &str) -> Option<i64> {
    let rest = record.split_once("\"offset\":")?.1;
    rest.split([',', '}']).next()?.trim().parse().ok()
}
