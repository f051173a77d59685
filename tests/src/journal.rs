//! Acknowledgements to producers, compared with the contents of the log: nothing lost, nothing
//! twice, nothing out of order.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::{fmt, fs};

use crate::Tool;

/// A record, by the partition and the number that its producer gave it. Numbers of a partition
/// start at 0.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Entry {
    /// The partition.
    pub partition: u32,
    /// The producer's running number within the partition.
    pub number: u64,
    /// The offset in the log; -1 if the acknowledgement did not contain it: a record that was sent
    /// again is in the log, but its offset may be unknown.
    pub offset: i64,
}

/// Reads lines `partition number offset`. A last line without its end is not an entry.
pub fn read(path: &Path) -> Vec<Entry> {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    parse(&text)
}

/// Parses the complete lines of a journal's text.
pub(crate) fn parse(text: &str) -> Vec<Entry> {
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let entry = |line: &str| {
        let mut words = line
            .split(' ')
            .map(|word| word.parse::<i64>().unwrap_or_else(|error| panic!("{line:?}: {word:?}: {error}")));
        let mut next = || words.next().expect("three numbers");
        Entry {
            partition: u32::try_from(next()).expect("a partition"),
            number: u64::try_from(next()).expect("a running number"),
            offset: next(),
        }
    };
    whole.lines().map(entry).collect()
}

/// Reads a topic with this number of partitions, and compares it with the acknowledgements that an
/// idempotent `load.py` recorded: returns complaints about lost, repeated and misplaced records.
pub fn compare(bootstrap: &str, topic: (&str, impl fmt::Display), acknowledged: &Path) -> Vec<String> {
    let (acknowledged, log) = collect(bootstrap, topic, acknowledged);
    complaints(&acknowledged, &log)
}

/// Complaints about lost, repeated and misplaced records of a log that was read from its start.
pub fn complaints(acknowledged: &[Entry], log: &[Entry]) -> Vec<String> {
    let mut complaints = lost(acknowledged, log);
    complaints.extend(disorder(log));
    complaints
}

/// The acknowledgements that `load.py` recorded, and the records of its topic with this number of
/// partitions.
pub fn collect(
    bootstrap: &str,
    (topic, partitions): (&str, impl fmt::Display),
    acknowledged: &Path,
) -> (Vec<Entry>, Vec<Entry>) {
    let found = acknowledged.with_extension("found");
    Tool::python("journal.py").args([bootstrap, topic, &partitions.to_string()]).stdout(&found).run();
    let (acknowledged, log) = (read(acknowledged), read(&found));
    println!("{} acknowledged, {} in the log", acknowledged.len(), log.len());
    (acknowledged, log)
}

/// Acknowledged records must be in the log, at the acknowledged offset.
pub fn lost(acknowledged: &[Entry], log: &[Entry]) -> Vec<String> {
    let present: HashMap<(u32, i64), &Entry> =
        log.iter().map(|entry| ((entry.partition, entry.offset), entry)).collect();
    let numbers: HashSet<(u32, u64)> = log.iter().map(|entry| (entry.partition, entry.number)).collect();
    let complaint = |entry: &Entry| match present.get(&(entry.partition, entry.offset)) {
        None if entry.offset < 0 && numbers.contains(&(entry.partition, entry.number)) => None,
        None => Some(format!("lost: {entry:?}")),
        Some(found) if found.number != entry.number => {
            Some(format!("acknowledged {entry:?}, the log has {found:?}"))
        }
        Some(_) => None,
    };
    acknowledged.iter().filter_map(complaint).collect()
}

/// The log, read in order, must have each number of each partition once, in order.
pub fn disorder(log: &[Entry]) -> Vec<String> {
    let mut next: HashMap<u32, (u64, i64)> = HashMap::new();
    let mut complaints = Vec::new();
    for entry in log {
        let (number, offset) = next.entry(entry.partition).or_insert((0, 0));
        if entry.number < *number {
            complaints.push(format!("twice or late: {entry:?}, expected number {number}"));
        } else if entry.number > *number {
            complaints.push(format!("missing before: {entry:?}, expected number {number}"));
        }
        if entry.offset < *offset {
            complaints.push(format!("offsets go back: {entry:?}, expected at least {offset}"));
        }
        *number = (*number).max(entry.number + 1);
        *offset = entry.offset + 1;
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::{Entry, disorder, lost, parse};

    fn entries(list: &[(u32, u64, i64)]) -> Vec<Entry> {
        list.iter().map(|&(partition, number, offset)| Entry { partition, number, offset }).collect()
    }

    #[test]
    fn correct_log_passes_the_journal_check() {
        let log = entries(&[(0, 0, 0), (1, 0, 0), (0, 1, 1), (0, 2, 5)]);
        assert_eq!(disorder(&log), Vec::<String>::new());
        assert_eq!(lost(&log[1..3], &log), Vec::<String>::new());
    }

    #[test]
    fn journal_check_detects_each_fault() {
        type Case = (&'static str, &'static [(u32, u64, i64)]);
        let table: [Case; 4] = [
            ("missing before", &[(0, 0, 0), (0, 2, 1)]),
            ("missing before", &[(0, 1, 0)]),
            ("twice or late", &[(0, 0, 0), (0, 1, 1), (0, 0, 2)]),
            ("offsets go back", &[(0, 0, 1), (0, 1, 0)]),
        ];
        for (words, log) in table {
            let complaints = disorder(&entries(log));
            assert!(complaints.len() == 1 && complaints[0].starts_with(words), "{words}: {complaints:?}");
        }
        let log = entries(&[(0, 0, 0), (0, 1, 1)]);
        assert_eq!(lost(&entries(&[(0, 2, 2)]), &log).len(), 1);
        assert_eq!(lost(&entries(&[(1, 0, 0)]), &log).len(), 1);
        assert_eq!(lost(&entries(&[(0, 0, 1)]), &log).len(), 1);
        assert_eq!(lost(&entries(&[(0, 1, -1)]), &log), Vec::<String>::new());
        assert_eq!(lost(&entries(&[(0, 2, -1), (1, 1, -1)]), &log).len(), 2);
    }

    #[test]
    fn torn_last_journal_line_is_ignored() {
        assert_eq!(parse("0 1 2\n0 2 3"), entries(&[(0, 1, 2)]));
        assert_eq!(parse("0 1"), Vec::new());
    }
}
