//! Epochs answer as Kafka's do, and their file comes back.

use tempfile::tempdir;

use super::*;
use crate::disk::RealDisk;

fn epochs(entries: &[(i32, i64)]) -> Epochs {
    let mut epochs = Epochs::default();
    for (epoch, offset) in entries {
        assert!(epochs.assign(*epoch, *offset));
    }
    epochs
}

#[test]
fn an_epoch_ends_where_the_next_begins() {
    let known = epochs(&[(2, 10), (5, 20)]);
    let cases = [
        (-2, (-2, 10)),
        (-1, (-1, -1)),
        (0, (0, 10)),
        (2, (2, 20)),
        (4, (2, 20)),
        (5, (5, 33)),
        (6, (-1, -1)),
    ];
    for (asked, expected) in cases {
        assert_eq!(known.end_offset(asked, 33), expected, "{asked}");
    }
    assert_eq!(Epochs::default().end_offset(0, 33), (-1, -1));
}

#[test]
fn epochs_never_decrease() {
    let mut known = epochs(&[(2, 10)]);
    assert!(!known.assign(1, 20));
    assert!(!known.assign(2, 20));
    assert!(!known.assign(-1, 20));
    assert_eq!(known, epochs(&[(2, 10)]));
    assert!(known.assign(3, 10));
    assert_eq!(known.entries, [(3, 10)]);
}

#[test]
fn epochs_truncate_at_both_ends() {
    let check = |from: i64, to: i64, expected: &[(i32, i64)]| {
        let mut known = epochs(&[(1, 0), (2, 10), (5, 20)]);
        known.truncate_start(from);
        known.truncate_end(to);
        assert_eq!(known.entries, expected, "{from}..{to}");
    };
    check(0, 100, &[(1, 0), (2, 10), (5, 20)]);
    check(5, 100, &[(1, 5), (2, 10), (5, 20)]);
    check(10, 100, &[(2, 10), (5, 20)]);
    check(25, 100, &[(5, 25)]);
    check(0, 20, &[(1, 0), (2, 10)]);
    check(0, 0, &[]);
}

#[test]
fn epoch_file_round_trips_and_reports_damage() {
    let dir = tempdir().unwrap();
    assert_eq!(Epochs::load(&RealDisk, dir.path()).unwrap(), Epochs::default());
    let known = epochs(&[(0, 0), (7, 1 << 40)]);
    known.store(&RealDisk, dir.path()).unwrap();
    let path = dir.path().join(LEADER_EPOCHS);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "0\n2\n0 0\n7 1099511627776\n");
    assert_eq!(Epochs::load(&RealDisk, dir.path()).unwrap(), known);
    std::fs::write(&path, "").unwrap();
    assert_eq!(Epochs::load(&RealDisk, dir.path()).unwrap(), Epochs::default(), "as Kafka creates it");
    for text in [
        "1\n0\n",
        "0\n",
        "0\n2\n0 0\n2 1",
        "0\n2\n0 0\n",
        "0\n1\n0\n",
        "0\n1\n0 0 0\n",
        "0\n2\n3 0\n2 5\n",
        "0\n1\nx y\n",
    ] {
        std::fs::write(&path, text).unwrap();
        assert!(matches!(Epochs::load(&RealDisk, dir.path()), Err(LogError::Corrupt { .. })), "{text:?}");
    }
}
