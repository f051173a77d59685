//! Acknowledgements to producers beside the contents of the log: nothing lost, nothing twice,
//! nothing out of order.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

/// A record, by the partition and the number that its producer gave it. Numbers of a partition
/// start at 0.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Entry {
    /// The partition.
    pub partition: u32,
    /// The producer's running number within the partition.
    pub number: u64,
    /// The offset in the log.
    pub offset: u64,
}

/// Reads lines `partition number offset`. A last line without its end is no entry.
pub fn read(path: &Path) -> Vec<Entry> {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    parse(&text)
}

fn parse(text: &str) -> Vec<Entry> {
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let entry = |line: &str| {
        let mut words = line.split(' ').map(|word| word.parse::<u64>().expect("a number"));
        let mut next = || words.next().expect("three numbers");
        Entry { partition: u32::try_from(next()).expect("a partition"), number: next(), offset: next() }
    };
    whole.lines().map(entry).collect()
}

/// Acknowledged records must be in the log, where the acknowledgement said.
pub fn lost(acknowledged: &[Entry], log: &[Entry]) -> Vec<String> {
    let present: HashMap<(u32, u64), &Entry> =
        log.iter().map(|entry| ((entry.partition, entry.offset), entry)).collect();
    let complaint = |entry: &Entry| match present.get(&(entry.partition, entry.offset)) {
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
    let mut next: HashMap<u32, (u64, u64)> = HashMap::new();
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

    fn entries(list: &[(u32, u64, u64)]) -> Vec<Entry> {
        list.iter().map(|&(partition, number, offset)| Entry { partition, number, offset }).collect()
    }

    #[test]
    fn a_good_log_raises_no_complaint() {
        let log = entries(&[(0, 0, 0), (1, 0, 0), (0, 1, 1), (0, 2, 5)]);
        assert_eq!(disorder(&log), Vec::<String>::new());
        assert_eq!(lost(&log[1..3], &log), Vec::<String>::new());
    }

    #[test]
    fn each_fault_is_seen() {
        type Case = (&'static str, &'static [(u32, u64, u64)]);
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
    }

    #[test]
    fn a_torn_last_line_is_no_entry() {
        assert_eq!(parse("0 1 2\n0 2 3"), entries(&[(0, 1, 2)]));
        assert_eq!(parse("0 1"), Vec::new());
    }
}
