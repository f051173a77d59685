//! Tasks of a described streams group.

use levada_wire::Uuid;
use levada_wire::messages::streams_group_describe_response::Assignment;

use super::*;

fn ids(tasks: &[(&str, &[i32])]) -> Vec<TaskIds> {
    let one = |(subtopology, partitions): &(&str, &[i32])| {
        let mut ids = TaskIds::default();
        (ids.subtopology_id, ids.partitions) = (StrBytes::from(*subtopology), partitions.to_vec());
        ids
    };
    tasks.iter().map(one).collect()
}

fn member(id: &str, assigned: [&[(&str, &[i32])]; 2]) -> streams_group_describe_response::Member {
    let mut member = streams_group_describe_response::Member::default();
    member.member_id = StrBytes::from(id);
    let mut assignment = Assignment::default();
    [assignment.active_tasks, assignment.standby_tasks] = assigned.map(ids);
    member.assignment = assignment;
    member
}

fn topology() -> Topology {
    let topics = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let subtopology = |id: &str, sources: &[&str], repartitions: &[&str]| Subtopology {
        subtopology: id.to_owned(),
        source_topics: topics(sources),
        repartition_source_topics: topics(repartitions),
        repartition_sink_topics: vec![],
        changelog_topics: vec![],
    };
    let subtopologies = vec![subtopology("0", &["wide", "narrow"], &[]), subtopology("1", &[], &["words"])];
    Topology { epoch: 0, subtopologies: Some(subtopologies) }
}

#[test]
fn task_ranges_are_shown_by_subtopology() {
    let check = |given: &[(&str, &[i32])], expected: &str| assert_eq!(shown(&tasks(&ids(given))), expected);
    check(&[], "-");
    check(&[("0", &[2])], "0_2");
    check(&[("1", &[5, 3, 2, 1]), ("0", &[0, 1])], "0_0-1 1_1-3,5");
    check(&[("0", &[0]), ("0", &[1])], "0_0-1");
}

#[test]
fn task_lag_is_sum_of_partition_lags() {
    let topic = |name: &str, partitions: i32| {
        let leaders = (0..partitions).map(|partition| (partition, 1)).collect();
        (name.to_owned(), Topic { name: name.to_owned(), id: Uuid::ZERO, leaders })
    };
    let topics = BTreeMap::from([topic("wide", 2), topic("narrow", 1), topic("words", 1)]);
    let mut group = DescribedGroup::default();
    group.members =
        vec![member("a", [&[("0", &[0, 1])], &[("1", &[0])]]), member("b", [&[("1", &[0])], &[("0", &[1])]])];
    let mut group = described("g", &group, (1, Some(topology())), &topics);
    let read: Vec<String> =
        group.members[0].partitions.iter().map(|one| format!("{}/{}", one.topic, one.partition)).collect();
    assert_eq!(read, ["narrow/0", "wide/0", "wide/1"]);
    let lag = |topic: &str, partition: i32, lag: i64| ((topic.to_owned(), partition), lag);
    let lags =
        BTreeMap::from([lag("narrow", 0, 3), lag("wide", 0, 4), lag("wide", 2, 5), lag("other", 0, 1)]);
    let found = Description::of(&mut group, &lags).tasks;
    let shown = found.iter().map(|one| {
        let Task { subtopology, partition, lag, member, standby } = one;
        format!("{subtopology}_{partition} {lag:?} {member:?} {standby:?}")
    });
    let expected = [
        r#"0_0 Some(7) Some("a") []"#,
        r#"0_1 None Some("a") ["b"]"#,
        "0_2 Some(5) None []",
        r#"1_0 None Some("b") ["a"]"#,
    ];
    assert_eq!(shown.collect::<Vec<_>>(), expected);
}
