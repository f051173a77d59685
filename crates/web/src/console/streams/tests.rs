//! The page of a streams group.

use levada_wire::messages::streams_group_describe_response::{Assignment, Topology};

use super::*;

fn ids(subtopology: &str, partitions: &[i32]) -> Vec<TaskIds> {
    let mut ids = TaskIds::default();
    (ids.subtopology_id, ids.partitions) = (StrBytes::from(subtopology), partitions.to_vec());
    vec![ids]
}

/// A group with one subtopology; each member has an active task, and the second one a standby task.
fn group() -> Described {
    let member = |id: &str, active: Vec<TaskIds>, standby: Vec<TaskIds>| {
        let mut assignment = Assignment::default();
        (assignment.active_tasks, assignment.standby_tasks) = (active, standby);
        let mut member = streams_group_describe_response::Member::default();
        (member.member_id, member.assignment) = (StrBytes::from(id), assignment);
        member
    };
    let mut subtopology = streams_group_describe_response::Subtopology::default();
    subtopology.subtopology_id = StrBytes::from("0");
    subtopology.source_topics = vec![StrBytes::from("clicks"), StrBytes::from("users")];
    let mut topology = Topology::default();
    topology.subtopologies = Some(vec![subtopology]);
    let mut group = DescribedGroup::default();
    group.topology = Some(topology);
    group.members = vec![member("a", ids("0", &[0]), vec![]), member("b", ids("0", &[1]), ids("0", &[0]))];
    group.into()
}

fn committed(topic: &str, partition: i32, lag: i64) -> Committed {
    Committed { place: (topic.to_owned(), partition), offset: 5, start: Some(0), end: Some(5 + lag) }
}

#[test]
fn tasks_have_the_lag_of_their_partitions() {
    let group = group();
    let streams = group.streams.as_ref().unwrap();
    let committed = [committed("clicks", 0, 3), committed("users", 0, 4), committed("clicks", 2, 9)];
    let found = streams.tasks(&group.members, &committed);
    let found: Vec<_> =
        found.iter().map(|(name, task)| (*name, task.lag, task.member, task.standby.clone())).collect();
    let expected = [
        (("0", 2), Some(9), None, vec![]),
        (("0", 0), Some(7), Some("a"), vec!["b"]),
        (("0", 1), None, Some("b"), vec![]),
    ];
    assert_eq!(found, expected);
    assert_eq!(group.members[1].assigned, [("clicks".to_owned(), 1), ("users".to_owned(), 1)]);
}

#[test]
fn streams_page_shows_tasks_and_topics() {
    let group = group();
    let streams = group.streams.as_ref().unwrap();
    let page =
        streams.page(&group.members, &[]).into_string() + &streams.members(&group.members).into_string();
    for expected in ["0_1", "clicks", "users", "Standby", "Epoch 0"] {
        assert!(page.contains(expected), "{expected}: {page}");
    }
    let mut empty = DescribedGroup::default();
    empty.topology = Some(Topology::default());
    let empty = Described::from(empty);
    let page = empty.streams.unwrap().page(&[], &[]).into_string();
    assert!(page.contains("No member has a task") && page.contains("topics are missing"), "{page}");
}
