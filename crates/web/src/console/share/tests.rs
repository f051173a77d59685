//! The page of a share group.

use super::*;

fn group(members: usize) -> Described {
    let member = |number: usize| GroupMember {
        id: format!("member-{number}"),
        instance: None,
        client: "client".to_owned(),
        host: "/127.0.0.1".to_owned(),
        assigned: vec![("tasks".to_owned(), 0)],
    };
    Described {
        state: "Stable".to_owned(),
        protocol: SHARE,
        assignor: "simple".to_owned(),
        members: (0..members).map(member).collect(),
        streams: None,
    }
}

fn shared(start: Option<i64>, lag: Option<i64>) -> Vec<Shared> {
    vec![Shared { place: ("tasks".to_owned(), 0), start, lag, members: 2 }]
}

#[test]
fn records_without_members_are_an_alarm() {
    let cases = [
        (0, Some(3), Some(7), "has no member"),
        (2, Some(3), Some(0), "is complete"),
        (2, None, None, "No member has fetched from 1 partition yet"),
    ];
    for (members, start, lag, expected) in cases {
        let text = diagnosis(&group(members), &shared(start, lag)).into_string();
        assert!(text.contains(expected), "{expected}: {text}");
    }
    assert_eq!(diagnosis(&group(2), &shared(Some(3), Some(7))).into_string(), "", "members work on it");
}

#[test]
fn unknown_offsets_have_no_number() {
    let text = partitions(&shared(None, Some(12_345))).into_string();
    assert!(text.contains("—") && text.contains("12"), "{text}");
}
