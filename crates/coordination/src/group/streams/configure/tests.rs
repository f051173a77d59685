//! Topologies and topics.

use std::sync::Arc;

use levada_wire::Uuid;
use proptest::prelude::*;

use super::{Configured, configure};
use crate::group::error::GroupError;
use crate::group::records::{CopartitionGroup, InternalTopic, Subtopology, Topology};
use crate::group::request::StreamsStatus;
use crate::group::topics::Topics;

/// Topics by name.
#[derive(Debug)]
struct Named(Vec<(String, i32)>);

impl Topics for Named {
    fn by_name(&self, name: &str) -> Option<(Uuid, i32)> {
        let (_, count) = self.0.iter().find(|(topic, _)| topic == name)?;
        Some((Uuid::from_bytes([1; 16]), *count))
    }

    fn by_id(&self, _: Uuid) -> Option<(String, i32)> {
        None
    }

    fn names(&self) -> Vec<Arc<str>> {
        Vec::new()
    }

    fn version(&self) -> i64 {
        0
    }
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

fn internal(topics: &[(&str, i32)]) -> Vec<InternalTopic> {
    let topic = |(name, partitions): &(&str, i32)| InternalTopic {
        name: (*name).to_owned(),
        partitions: *partitions,
        ..InternalTopic::default()
    };
    topics.iter().map(topic).collect()
}

fn part(id: &str, sources: &[&str]) -> Subtopology {
    Subtopology { id: id.into(), source_topics: names(sources), ..Subtopology::default() }
}

fn with(parts: Vec<Subtopology>, topics: &[(&str, i32)]) -> Result<Configured, GroupError> {
    let topics = topics.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
    configure(&Topology { epoch: 0, subtopologies: parts }, &Named(topics))
}

fn status(configured: &Configured) -> (i8, &str) {
    let status = &configured.reason.as_ref().unwrap().0;
    (status.code, &status.detail)
}

/// A part that writes `r`, and one that reads it and keeps state.
fn chain(partitions: i32) -> Vec<Subtopology> {
    let first = Subtopology { repartition_sink_topics: names(&["r"]), ..part("0", &["s"]) };
    let second = Subtopology {
        repartition_source_topics: internal(&[("r", partitions)]),
        state_changelog_topics: internal(&[("c", 0)]),
        ..part("1", &[])
    };
    vec![first, second]
}

#[test]
fn missing_source_topics_are_named() {
    let found = with(vec![part("0", &["d", "c", "b", "a", "s"])], &[("s", 1)]).unwrap();
    let detail = "Source topics a, b, c and 1 additional topics are missing.";
    assert_eq!(status(&found), (StreamsStatus::MISSING_SOURCE_TOPICS, detail));
}

#[test]
fn internal_topics_have_the_partitions_of_their_sources() {
    let found = with(chain(0), &[("s", 3)]).unwrap();
    assert_eq!(status(&found), (StreamsStatus::MISSING_INTERNAL_TOPICS, "Internal topics are missing: r, c"));
    let counts: Vec<i32> = found.missing.iter().map(|topic| topic.partitions).collect();
    assert_eq!(counts, [3, 3]);
    let stated = with(chain(5), &[("s", 3)]).unwrap();
    assert_eq!(stated.missing.iter().map(|topic| topic.partitions).collect::<Vec<_>>(), [5, 5]);
    let ready = with(chain(0), &[("s", 3), ("r", 3), ("c", 3)]).unwrap();
    assert!(ready.is_ready());
    assert_eq!(ready.ready_parts().unwrap()["1"].tasks, 3);
}

#[test]
fn existing_internal_topics_must_fit() {
    let found = with(chain(0), &[("s", 3), ("r", 3), ("c", 2)]).unwrap();
    let detail = "Existing topic c has different number of partitions: expected 3, found 2";
    assert_eq!(status(&found), (StreamsStatus::INCORRECTLY_PARTITIONED_TOPICS, detail));
}

#[test]
fn topology_loops_without_sources_are_invalid() {
    let looped = Subtopology {
        repartition_sink_topics: names(&["r"]),
        repartition_source_topics: internal(&[("r", 0)]),
        ..part("0", &[])
    };
    let invalid = |parts| matches!(with(parts, &[("s", 1)]), Err(GroupError::StreamsInvalidTopology(_)));
    assert!(invalid(vec![looped]));
    let unwritten = Subtopology { repartition_source_topics: internal(&[("r", 0)]), ..part("0", &["s"]) };
    assert!(invalid(vec![unwritten]));
    assert!(invalid(vec![part("0", &[])]));
    assert!(invalid(chain(-1)));
    let outside = Subtopology {
        copartition_groups: vec![CopartitionGroup { source_topics: vec![1], ..CopartitionGroup::default() }],
        ..part("0", &["s"])
    };
    assert!(invalid(vec![outside]));
}

#[test]
fn copartitioned_topics_agree() {
    let joined = |partitions| {
        let second = Subtopology {
            copartition_groups: vec![CopartitionGroup {
                source_topics: vec![0],
                repartition_source_topics: vec![0],
                ..CopartitionGroup::default()
            }],
            ..chain(partitions).remove(1)
        };
        vec![chain(0).remove(0), Subtopology { source_topics: names(&["u"]), ..second }]
    };
    let found = with(joined(0), &[("s", 3), ("u", 6)]).unwrap();
    assert_eq!(found.missing.iter().map(|topic| topic.partitions).collect::<Vec<_>>(), [6, 6]);
    let fixed = with(joined(5), &[("s", 3), ("u", 6)]).unwrap();
    let detail = "Number of partitions [5] of repartition topic [r] doesn't match number of partitions [6] of the source topic.";
    assert_eq!(status(&fixed), (StreamsStatus::INCORRECTLY_PARTITIONED_TOPICS, detail));
    let external = Subtopology {
        copartition_groups: vec![CopartitionGroup {
            source_topics: vec![0, 1],
            ..CopartitionGroup::default()
        }],
        ..part("0", &["s", "u"])
    };
    let unlike = with(vec![external], &[("s", 3), ("u", 6)]).unwrap();
    let detail = "Following topics do not have the same number of partitions: [{s=3, u=6}]";
    assert_eq!(status(&unlike), (StreamsStatus::INCORRECTLY_PARTITIONED_TOPICS, detail));
}

#[test]
fn the_number_of_tasks_is_bounded() {
    let parts: Vec<Subtopology> = (0..100).map(|number| part(&number.to_string(), &["s"])).collect();
    assert!(with(parts.clone(), &[("s", 1_000)]).unwrap().is_ready());
    assert!(matches!(with(parts, &[("s", 2_000)]), Err(GroupError::StreamsInvalidTopology(_))));
}

fn any_part() -> impl Strategy<Value = Subtopology> {
    let name = || (0..5_u8).prop_map(|number| format!("t{number}"));
    let topics = || {
        let topic = (name(), -1..4_i32).prop_map(|(name, partitions)| InternalTopic {
            name,
            partitions,
            ..InternalTopic::default()
        });
        prop::collection::vec(topic, 0..3)
    };
    let places = || prop::collection::vec(-1..3_i16, 0..3);
    let groups = (places(), places()).prop_map(|(source_topics, repartition_source_topics)| {
        CopartitionGroup { source_topics, repartition_source_topics, ..CopartitionGroup::default() }
    });
    let plain = || prop::collection::vec(name(), 0..3);
    (0..3_u8, plain(), plain(), topics(), topics(), prop::collection::vec(groups, 0..3)).prop_map(
        |(id, sources, sinks, repartition, changelogs, copartition_groups)| Subtopology {
            id: id.to_string(),
            source_topics: sources,
            repartition_sink_topics: sinks,
            repartition_source_topics: repartition,
            state_changelog_topics: changelogs,
            copartition_groups,
            ..Subtopology::default()
        },
    )
}

proptest! {
    #[test]
    fn any_topology_is_configured_or_refused(
        parts in prop::collection::vec(any_part(), 0..4),
        topics in prop::collection::vec((0..5_u8, 1..4_i32), 0..5),
    ) {
        let topics: Vec<(String, i32)> =
            topics.into_iter().map(|(number, count)| (format!("t{number}"), count)).collect();
        if let Ok(found) = configure(&Topology { epoch: 0, subtopologies: parts }, &Named(topics)) {
            prop_assert!(!found.is_ready() || found.ready_parts().unwrap().values().all(|part| part.tasks > 0));
            prop_assert!(found.missing.iter().all(|topic| topic.partitions > 0));
        }
    }
}
