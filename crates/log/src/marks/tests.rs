//! Marks and transactions against a model that keeps them all.

use proptest::prelude::*;

use super::*;

#[derive(Clone, Copy, Debug)]
enum Operation {
    /// Appends one record of a new transaction.
    Begin,
    /// Appends the marker of one of the open transactions.
    End(usize),
    /// Appends a record outside of transactions.
    Plain,
    /// Replicates this number of further records.
    Raise(i64),
    /// Removes this number of records from the end.
    Cut(i64),
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        Just(Operation::Begin),
        (0..3_usize).prop_map(Operation::End),
        Just(Operation::Plain),
        (0..6_i64).prop_map(Operation::Raise),
        (0..4_i64).prop_map(Operation::Cut),
    ]
}

/// First offset of each transaction, and its marker.
#[derive(Debug, Default)]
struct Model {
    high: i64,
    end: i64,
    transactions: Vec<(i64, Option<i64>)>,
}

impl Model {
    fn first_open(&self) -> Option<i64> {
        self.transactions.iter().filter(|one| one.1.is_none()).map(|one| one.0).min()
    }

    fn last_stable(&self) -> i64 {
        let is_unstable = |one: &&(i64, Option<i64>)| one.1.is_none_or(|marker| marker >= self.high);
        self.transactions.iter().filter(is_unstable).map(|one| one.0).fold(self.high, i64::min)
    }

    fn append(&mut self, marks: &Marks, ended: &[Ended]) {
        self.end += 1;
        marks.note_transactions(self.first_open(), ended);
        marks.extend(self.end, Path::new("log"));
    }

    fn step(&mut self, marks: &Marks, operation: Operation) {
        match operation {
            Operation::Begin => {
                self.transactions.push((self.end, None));
                self.append(marks, &[]);
            }
            Operation::End(at) => {
                let marker_offset = self.end;
                let Some(one) = self.transactions.iter_mut().filter(|one| one.1.is_none()).nth(at) else {
                    return;
                };
                one.1 = Some(marker_offset);
                let first_offset = one.0;
                self.append(marks, &[Ended { first_offset, marker_offset }]);
            }
            Operation::Plain => self.append(marks, &[]),
            Operation::Raise(by) => {
                marks.raise_high_watermark(self.high + by);
                self.high = self.end.min(self.high + by);
            }
            Operation::Cut(by) => {
                self.end = (self.end - by).max(0);
                self.high = self.high.min(self.end);
                self.transactions.retain(|one| one.0 < self.end);
                for one in &mut self.transactions {
                    one.1 = one.1.filter(|marker| *marker < self.end);
                }
                marks.lower(self.end);
                marks.restart_transactions(self.first_open());
            }
        }
    }
}

fn start(high_watermark: i64) -> Start {
    Start { log_start: 3, high_watermark, log_end: 9, first_open: None, recovery_point: 0 }
}

proptest! {
    /// A transaction holds the last stable offset back until it has ended and its marker is
    /// replicated.
    #[test]
    fn last_stable_offset_matches_the_model(operations in prop::collection::vec(operation(), 0..40)) {
        let marks = Marks::new(Start { log_start: 0, log_end: 0, ..start(0) });
        let mut model = Model::default();
        for operation in operations {
            model.step(&marks, operation);
            prop_assert_eq!(marks.log_end(), model.end);
            prop_assert_eq!(marks.high_watermark(), model.high);
            prop_assert_eq!(marks.last_stable(), model.last_stable());
        }
    }
}

#[test]
fn a_restored_high_watermark_lies_within_the_log() {
    for (restored, expected) in [(0, 3), (3, 3), (5, 5), (9, 9), (12, 9)] {
        assert_eq!(Marks::new(start(restored)).high_watermark(), expected);
    }
}

#[test]
fn high_watermark_never_falls_or_exceeds_log_end() {
    let marks = Marks::new(start(5));
    marks.raise_high_watermark(4);
    assert_eq!(marks.high_watermark(), 5);
    marks.raise_high_watermark(20);
    assert_eq!(marks.high_watermark(), 9);
}
