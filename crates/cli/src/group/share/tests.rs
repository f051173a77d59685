//! Rows of a described share group.

use super::*;

fn member(id: &str, partitions: &[i32]) -> Member {
    let partition = |partition: &i32| Partition { topic: "t".to_owned(), partition: *partition };
    Member {
        id: id.to_owned(),
        instance_id: None,
        client_id: "c".to_owned(),
        host: String::new(),
        epoch: Some(1),
        topics: Vec::new(),
        topic_regex: None,
        partitions: partitions.iter().map(partition).collect(),
        lag: None,
        streams: None,
    }
}

#[test]
fn several_members_share_a_partition() {
    let offset = |start, lag| ShareOffset { start, leader_epoch: 4, lag, error_code: 0 };
    let place = |partition: i32| ("t".to_owned(), partition);
    let offsets = BTreeMap::from([
        (place(0), offset(Some(10), Some(3))),
        (place(1), offset(None, None)),
        (place(2), offset(Some(7), None)),
    ]);
    let end = |offset| FoundOffset { offset, timestamp_ms: -1 };
    let ends = BTreeMap::from([(place(0), end(20)), (place(1), end(5)), (place(3), end(1))]);
    let rows = rows(&offsets, &[member("a", &[0, 3]), member("b", &[0])], &ends);
    let shown = rows.iter().map(|row| {
        (row.partition, [row.start, row.end, row.delivery_complete, row.lag], row.members.join(","))
    });
    let expected = [
        (0, [Some(10), Some(20), Some(7), Some(3)], "a,b"),
        (1, [None, Some(5), None, None], ""),
        (2, [Some(7), None, None, None], ""),
        (3, [None, Some(1), None, None], "a"),
    ];
    let expected = expected.map(|(partition, numbers, members)| (partition, numbers, members.to_owned()));
    assert_eq!(shown.collect::<Vec<_>>(), expected);
    assert_eq!((rows[0].leader_epoch, rows[1].leader_epoch), (Some(4), None));
}
