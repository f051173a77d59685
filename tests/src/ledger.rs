//! Transactions as their writers recorded them, compared with the records that readers of committed
//! records saw: nothing lost, nothing twice, nothing out of order, nothing of an aborted
//! transaction, no half of one.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

/// Result of a transaction, as far as its writer knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// All of its records are there.
    Committed,
    /// None of its records is in the log.
    Aborted,
    /// The writer got no response: all or none of its records are in the log.
    Unknown,
}

/// A transaction that a writer has been through.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Transaction {
    /// Name of the writer.
    pub writer: String,
    /// Number of the transaction among those of the writer.
    pub number: u64,
    /// Outcome of the transaction.
    pub outcome: Outcome,
    /// The records: partition, and the writer's running number within that partition.
    pub records: Vec<(u32, u64)>,
}

/// A record that a reader saw.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Seen {
    /// Number of the partition.
    pub partition: u32,
    /// Offset in the partition.
    pub offset: u64,
    /// Words of its value.
    pub words: Vec<String>,
}

/// Records that one reader saw, by topic, in the reader's order.
pub type View = HashMap<String, Vec<Seen>>;

/// The number of records that a reader of one topic saw, by the last line that it printed.
pub fn count(lines: &[String]) -> u64 {
    let last = lines.last().expect("a reader prints its count");
    last.parse().unwrap_or_else(|error| panic!("{last}: {error}"))
}

/// Reads a writer's journal: lines `transaction outcome partition:number …`.
pub fn journal(writer: &str, path: &Path) -> Vec<Transaction> {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.lines().map(|line| transaction(writer, line)).collect()
}

fn transaction(writer: &str, line: &str) -> Transaction {
    let mut words = line.split_whitespace();
    let number = words.next().and_then(|word| word.parse().ok()).expect("a transaction's number");
    let outcome = match words.next() {
        Some("committed") => Outcome::Committed,
        Some("aborted") => Outcome::Aborted,
        Some("unknown") => Outcome::Unknown,
        other => panic!("{line}: {other:?} is no outcome"),
    };
    let record = |word: &str| {
        let (partition, number) = word.split_once(':').expect("partition:number");
        (partition.parse().expect("a partition"), number.parse().expect("a number"))
    };
    Transaction { writer: writer.to_string(), number, outcome, records: words.map(record).collect() }
}

/// Parses the record of a reader: lines `topic partition offset word …`.
pub fn view(path: &Path) -> View {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut view = View::new();
    for line in text.lines() {
        let (topic, seen) = seen(line);
        view.entry(topic).or_default().push(seen);
    }
    view
}

fn seen(line: &str) -> (String, Seen) {
    let mut words = line.split(' ').map(str::to_string);
    let mut next = || words.next().unwrap_or_else(|| panic!("{line}: a word is missing"));
    let topic = next();
    let partition = next().parse().expect("a partition");
    let offset = next().parse().expect("an offset");
    (topic, Seen { partition, offset, words: words.collect() })
}

/// A record's identity: writer, partition, number.
type Identity<'a> = (&'a str, u32, u64);

/// Compares the writers' transactions with the records seen of them. A record contains
/// `writer transaction number`.
pub fn written(transactions: &[Transaction], seen: &[Seen]) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut times: HashMap<Identity<'_>, usize> = HashMap::new();
    let mut last: HashMap<(&str, u32), u64> = HashMap::new();
    for record in seen {
        let [writer, _, number] = &record.words[..] else { panic!("{record:?} is none of the writers'") };
        let number: u64 = number.parse().expect("a number");
        *times.entry((writer, record.partition, number)).or_default() += 1;
        let before = last.insert((writer, record.partition), number);
        if before.is_some_and(|before| before > number) {
            complaints.push(format!("out of order: {record:?} after number {}", before.unwrap_or_default()));
        }
    }
    for transaction in transactions {
        complaints.extend(fate(transaction, &mut times));
    }
    complaints.extend(times.keys().map(|stranger| format!("never sent, or seen twice: {stranger:?}")));
    complaints
}

/// Removes a transaction's records from the seen ones, and checks it.
fn fate<'a>(transaction: &'a Transaction, times: &mut HashMap<Identity<'a>, usize>) -> Option<String> {
    let writer = transaction.writer.as_str();
    let mut there = 0;
    for &(partition, number) in &transaction.records {
        // Records seen more than once stay, for a separate complaint.
        if let Some(1) = times.get(&(writer, partition, number)) {
            times.remove(&(writer, partition, number));
            there += 1;
        }
    }
    let all = transaction.records.len();
    let wrong = match transaction.outcome {
        Outcome::Committed => (there < all).then_some("lost"),
        Outcome::Aborted => (there > 0).then_some("aborted, but visible"),
        Outcome::Unknown => (there > 0 && there < all).then_some("torn"),
    };
    wrong.map(|wrong| format!("{wrong}: {there} of {all} records are there of {transaction:?}"))
}

/// A copy contains the position of the original, then its text. Each must have been copied once, in
/// order.
pub fn copied(originals: &[Seen], copies: &[Seen]) -> Vec<String> {
    let expected = |seen: &Seen| {
        let words = [&[seen.offset.to_string()][..], &seen.words].concat();
        (seen.partition, words)
    };
    let originals = by_partition(originals.iter().map(expected));
    let copies = by_partition(copies.iter().map(|seen| (seen.partition, seen.words.clone())));
    differences("copy", &originals, &copies)
}

/// Checks that a reader saw during the run the records that are there in the end.
pub fn same(live: &View, last: &View) -> Vec<String> {
    let flat = |view: &View| {
        let all = view.iter().flat_map(|(topic, seen)| seen.iter().map(move |seen| (topic, seen)));
        by_partition(all.map(|(topic, seen)| {
            ((topic.clone(), seen.partition), [&[seen.offset.to_string()][..], &seen.words].concat())
        }))
    };
    differences("view", &flat(last), &flat(live))
}

type Partitions<K> = HashMap<K, Vec<Vec<String>>>;

fn by_partition<K: Eq + std::hash::Hash>(records: impl Iterator<Item = (K, Vec<String>)>) -> Partitions<K> {
    let mut partitions = Partitions::new();
    for (partition, words) in records {
        partitions.entry(partition).or_default().push(words);
    }
    partitions
}

/// The first difference of each partition; later differences are consequences.
fn differences<K>(what: &str, expected: &Partitions<K>, found: &Partitions<K>) -> Vec<String>
where
    K: Eq + std::hash::Hash + std::fmt::Debug,
{
    let none = Vec::new();
    let mut complaints = Vec::new();
    for (partition, expected) in expected {
        let found = found.get(partition).unwrap_or(&none);
        let length = expected.len().max(found.len());
        if let Some(at) = (0..length).find(|&at| expected.get(at) != found.get(at)) {
            let (expected, found) = (expected.get(at), found.get(at));
            complaints.push(format!("{what} of {partition:?}, record {at}: {expected:?} became {found:?}"));
        }
    }
    let strangers = found.keys().filter(|partition| !expected.contains_key(partition));
    complaints.extend(strangers.map(|partition| format!("{what} of {partition:?}: there is no original")));
    complaints
}

#[cfg(test)]
mod tests {
    use super::{Seen, View, copied, same, seen, transaction, written};

    fn list(lines: &[&str]) -> Vec<Seen> {
        lines.iter().map(|line| seen(line).1).collect()
    }

    #[track_caller]
    fn check(journal: &[&str], lines: &[&str], expected: &[&str]) {
        let transactions: Vec<_> = journal.iter().map(|line| transaction("w", line)).collect();
        let found = written(&transactions, &list(lines));
        let fine = found.len() == expected.len()
            && found.iter().zip(expected).all(|(found, expected)| found.starts_with(expected));
        assert!(fine, "{found:?}");
    }

    #[test]
    fn ledger_detects_each_transaction_fault() {
        let journal = ["0 committed 0:0 1:0", "1 aborted 0:1", "2 unknown 0:2 1:1", "3 committed"];
        let whole = ["input 0 0 w 0 0", "input 1 0 w 0 0"];
        check(&journal, &whole, &[]);
        check(&journal, &[&whole[..], &["input 0 5 w 2 2", "input 1 5 w 2 1"]].concat(), &[]);
        check(&journal, &whole[..1], &["lost"]);
        check(&journal, &[&whole[..], &["input 0 3 w 1 1"]].concat(), &["aborted, but visible"]);
        check(&journal, &[&whole[..], &["input 0 5 w 2 2"]].concat(), &["torn"]);
        check(&journal, &[&whole[..], &["input 0 5 w 9 9"]].concat(), &["never sent"]);
        check(&journal, &[&whole[..], &["input 0 5 w 0 0"]].concat(), &["lost", "never sent, or seen twice"]);
        let late = ["input 0 2 w 2 2", "input 0 3 w 0 0", "input 1 0 w 0 0", "input 1 1 w 2 1"];
        check(&journal, &late, &["out of order"]);
    }

    #[test]
    fn ledger_detects_each_copy_fault() {
        let originals = list(&["input 0 3 w 0 0", "input 0 5 w 0 1", "input 1 0 w 0 0"]);
        let good = ["copy 0 0 3 w 0 0", "copy 1 0 0 w 0 0", "copy 0 1 5 w 0 1"];
        assert_eq!(copied(&originals, &list(&good)), Vec::<String>::new());
        let swapped = ["copy 0 0 5 w 0 1", "copy 0 1 3 w 0 0", "copy 1 0 0 w 0 0"];
        let twice = [&good[..], &["copy 1 7 0 w 0 0"]].concat();
        let stranger = [&good[..], &["copy 2 0 0 w 0 0"]].concat();
        for faulty in [&good[..2], &swapped, &twice, &stranger] {
            assert_eq!(copied(&originals, &list(faulty)).len(), 1, "{faulty:?}");
        }
    }

    #[test]
    fn ledger_detects_withdrawn_records() {
        let view =
            |lines: &[&str]| lines.iter().map(|line| (seen(line).0, vec![seen(line).1])).collect::<View>();
        let last = view(&["input 0 3 w 0 0"]);
        assert_eq!(same(&last, &last), Vec::<String>::new());
        for live in [&["input 0 4 w 0 0"][..], &["input 0 3 w 0 1"], &[]] {
            assert_eq!(same(&view(live), &last).len(), 1, "{live:?}");
        }
    }
}
