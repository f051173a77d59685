//! Text files of a data directory: offset checkpoints, leader epochs, files of key and value, and
//! JSON.

use serde_json::{Value, json};

use super::report::{Report, Verdict};
use levada_terminal::failure::Failure;
use levada_terminal::output::counted;

/// Lines of `topic partition offset`, after a version and a count.
pub(super) fn dump_offsets(text: &str, report: &mut Report<'_>) -> Result<Verdict, Failure> {
    dump_counted(text, report, |line| {
        let (rest, offset) = line.rsplit_once(' ')?;
        let (topic, partition) = rest.rsplit_once(' ')?;
        let (partition, offset): (i32, i64) = (partition.parse().ok()?, offset.parse().ok()?);
        let fields =
            vec![("topic", json!(topic)), ("partition", json!(partition)), ("offset", json!(offset))];
        (partition >= 0 && !topic.is_empty()).then_some(("offset", fields))
    })
}

/// Lines of `epoch start-offset`, both rising, after a version and a count.
pub(super) fn dump_epochs(text: &str, report: &mut Report<'_>) -> Result<Verdict, Failure> {
    let mut last = (-1, -1);
    dump_counted(text, report, |line| {
        let (epoch, start) = line.split_once(' ')?;
        let (epoch, start): (i32, i64) = (epoch.parse().ok()?, start.parse().ok()?);
        let rises = epoch > last.0 && start >= last.1;
        last = (epoch, start);
        rises.then(|| ("epoch", vec![("epoch", json!(epoch)), ("start_offset", json!(start))]))
    })
}

type Row = (&'static str, Vec<(&'static str, Value)>);

fn dump_counted(
    text: &str,
    report: &mut Report<'_>,
    mut parse: impl FnMut(&str) -> Option<Row>,
) -> Result<Verdict, Failure> {
    let mut lines = text.lines();
    match lines.next().map(str::trim) {
        Some("0") => {}
        Some(version) => return Ok(Verdict::damaged(1, format!("version {version:?} is unknown"))),
        // Kafka creates these files empty and reads that as no entries.
        None => return Ok(Verdict::Sound(counted(0, "entry", "entries"))),
    }
    let Some(count) = lines.next().and_then(|line| line.trim().parse::<usize>().ok()) else {
        return Ok(Verdict::damaged(2, "no count of entries"));
    };
    let mut found = 0;
    for (index, line) in lines.enumerate() {
        let Some((kind, fields)) = parse(line) else {
            return Ok(Verdict::damaged(
                index as u64 + 3,
                format!("{line:?} is not an entry, or is out of order"),
            ));
        };
        report.row(kind, &fields)?;
        found += 1;
    }
    if found == count {
        Ok(Verdict::Sound(counted(count as u64, "entry", "entries")))
    } else {
        Ok(Verdict::damaged(2, format!("{count} entries announced, {found} found")))
    }
}

/// Prints lines of key and value; one key must be present.
pub(super) fn dump_pairs(
    text: &str,
    separator: char,
    needed: &str,
    report: &mut Report<'_>,
) -> Result<Verdict, Failure> {
    let mut keys = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let Some((key, value)) = line.split_once(separator) else {
            return Ok(Verdict::damaged(index as u64 + 1, format!("{line:?} is not a key and value")));
        };
        report.row("setting", &[("key", json!(key.trim())), ("value", json!(value.trim()))])?;
        keys.push(key.trim());
    }
    if keys.contains(&needed) {
        Ok(Verdict::Sound(counted(keys.len() as u64, "setting", "settings")))
    } else {
        Ok(Verdict::damaged(1, format!("{needed} is missing")))
    }
}

/// One JSON object.
pub(super) fn dump_object(text: &str, report: &mut Report<'_>) -> Result<Verdict, Failure> {
    let object: serde_json::Map<String, Value> = match serde_json::from_str(text) {
        Ok(object) => object,
        Err(error) => return Ok(Verdict::damaged(error.line() as u64, error.to_string())),
    };
    for (key, value) in &object {
        report.row("setting", &[("key", json!(key)), ("value", value.clone())])?;
    }
    Ok(Verdict::Sound(counted(object.len() as u64, "setting", "settings")))
}
