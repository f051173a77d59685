//! Tests of rows of brokers, and of the conditions of a removal.

use std::collections::BTreeMap;

use clap::Parser;

use super::list::Row;
use super::remove::Remove;
use crate::layout::{Directories, Directory, Layout, Member, Placed};

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    remove: Remove,
}

fn placed(leader: Option<i32>, replicas: &[i32], in_sync: &[i32]) -> Placed {
    Placed { leader, replicas: replicas.to_vec(), in_sync: in_sync.to_vec(), ..Placed::default() }
}

/// Brokers 1 and 2 that serve, 3 that is fenced and holds a replica, and 4 that is fenced.
fn layout() -> Layout {
    let member = |id: i32| {
        let host = format!("broker-{id}");
        (id, Member { host, port: 9092, rack: None, fenced: Some(id >= 3) })
    };
    let partitions =
        [placed(Some(1), &[1, 2], &[1]), placed(Some(1), &[2, 1], &[1, 2]), placed(None, &[3], &[])];
    let partitions = (0..).zip(partitions).map(|(index, placed)| (("t".to_owned(), index), placed));
    Layout { brokers: (1..=4).map(member).collect(), partitions: partitions.collect() }
}

#[test]
fn broker_row_counts_partitions_and_bytes() {
    let directory = |broker, error: Option<&str>| Directory {
        broker,
        error: error.map(str::to_owned),
        free_bytes: Some(1 << 30),
        ..Directory::default()
    };
    let directories = Directories {
        known: vec![directory(1, None), directory(2, None), directory(2, Some("KAFKA_STORAGE_ERROR"))],
        unknown: BTreeMap::new(),
    };
    let layout = layout();
    let row = |id| Row::new(id, &layout, &directories);
    let counts = |row: &Row| (row.leaders, row.replicas, row.out_of_sync, row.bytes, row.free_bytes);
    assert_eq!(counts(&row(1)), (2, 2, 0, Some(0), Some(1 << 30)));
    assert_eq!(counts(&row(2)), (0, 2, 1, None, Some(1 << 31)), "one directory has failed");
    assert_eq!(counts(&row(3)), (0, 1, 1, None, None));
    assert_eq!(row(3).cells(&layout), ["3", "broker-3:9092", "-", "fenced", "0", "1", "1", "-"]);
}

#[test]
fn only_an_empty_stopped_broker_is_removed() {
    fn check(line: &str, expected: Option<&str>) {
        let line = Line::try_parse_from(std::iter::once("remove").chain(line.split(' '))).unwrap();
        let said = line.remove.check(&layout()).err().map(|failure| failure.line().to_owned());
        assert_eq!(said.is_some(), expected.is_some(), "{said:?}");
        assert!(said.as_deref().is_none_or(|said| said.contains(expected.unwrap())), "{said:?}");
    }
    check("4", None);
    check("1", Some("broker 1 is alive"));
    check("1 --alive", Some("broker 1 holds replicas of 2 partitions"));
    check("3", Some("broker 3 holds replicas of 1 partition"));
    check("3 --lost", None);
    check("9", Some("the cluster has no broker 9"));
}
