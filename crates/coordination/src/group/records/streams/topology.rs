//! The topology of a streams application, as its record and the heartbeats of its members have it.

use std::collections::{BTreeMap, BTreeSet};

use levada_wire::primitives::{DecodeError, Decoder, EncodeError};
use serde::Serialize;

use super::{read_pairs, string, text, write_pairs};
use crate::group::records::consumer::{Out, no_tags};

/// The topology of a streams application.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Topology {
    /// Epoch of the topology.
    pub epoch: i32,
    /// Subtopologies, which exchange records by topics only.
    pub subtopologies: Vec<Subtopology>,
}

/// A part of a topology.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Subtopology {
    /// Id of the subtopology, unique in the topology.
    pub id: String,
    /// Names of the topics that the subtopology reads.
    pub source_topics: Vec<String>,
    /// Expressions of topics it reads.
    pub source_topic_regex: Vec<String>,
    /// Topics with the changes of its state.
    pub state_changelog_topics: Vec<InternalTopic>,
    /// The topics between parts that it writes.
    pub repartition_sink_topics: Vec<String>,
    /// The topics between parts that it reads.
    pub repartition_source_topics: Vec<InternalTopic>,
    /// Topics that must have the same number of partitions.
    pub copartition_groups: Vec<CopartitionGroup>,
}

/// A topic that belongs to the application.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct InternalTopic {
    /// Name of the topic.
    pub name: String,
    /// Number of partitions; 0 if the topology does not state it.
    pub partitions: i32,
    /// Replication factor; 0 for the default of the cluster.
    pub replication_factor: i16,
    /// Settings of the topic.
    pub configs: Vec<(String, String)>,
}

/// Topics that must have the same number of partitions, by their indexes in the lists of the part.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CopartitionGroup {
    /// Indexes of topics in the subtopology's source topics.
    pub source_topics: Vec<i16>,
    /// Indexes of expressions in the subtopology's source topic expressions.
    pub source_topic_regex: Vec<i16>,
    /// Among the topics between parts that the part reads.
    pub repartition_source_topics: Vec<i16>,
}

impl Topology {
    /// The topics that must exist.
    pub fn required_topics(&self) -> BTreeSet<String> {
        let parts = self.subtopologies.iter();
        let names = parts.flat_map(|part| {
            let internal = part.repartition_source_topics.iter().chain(&part.state_changelog_topics);
            part.source_topics.iter().chain(internal.map(|topic| &topic.name))
        });
        names.cloned().collect()
    }

    /// The part that reads a topic.
    pub fn reader_of(&self, topic: &str) -> Option<&Subtopology> {
        self.subtopologies.iter().find(|part| part.inputs().any(|name| name == topic))
    }

    /// True if the other topology is the same, with its parts in any order.
    pub fn is_same(&self, other: &Self) -> bool {
        fn by_id(topology: &Topology) -> BTreeMap<&str, &Subtopology> {
            topology.subtopologies.iter().map(|part| (part.id.as_str(), part)).collect()
        }
        self.epoch == other.epoch && by_id(self) == by_id(other)
    }

    pub(super) fn encode(&self, out: &mut Out<'_>) -> Result<(), EncodeError> {
        out.write_i32(self.epoch)?;
        out.write_compact_array_len(self.subtopologies.len())?;
        self.subtopologies.iter().try_for_each(|part| part.encode(out))?;
        no_tags(out)
    }
}

impl Subtopology {
    /// Names of the topics it reads.
    pub fn inputs(&self) -> impl Iterator<Item = &String> {
        self.source_topics.iter().chain(self.repartition_source_topics.iter().map(|topic| &topic.name))
    }

    fn encode(&self, out: &mut Out<'_>) -> Result<(), EncodeError> {
        out.write_compact_string(&text(&self.id))?;
        write_texts(out, &self.source_topics)?;
        write_texts(out, &self.source_topic_regex)?;
        write_topics(out, &self.state_changelog_topics)?;
        write_texts(out, &self.repartition_sink_topics)?;
        write_topics(out, &self.repartition_source_topics)?;
        out.write_compact_array_len(self.copartition_groups.len())?;
        for group in &self.copartition_groups {
            for places in [&group.source_topics, &group.source_topic_regex, &group.repartition_source_topics]
            {
                out.write_compact_array_len(places.len())?;
                places.iter().try_for_each(|place| out.write_i16(*place))?;
            }
            no_tags(out)?;
        }
        no_tags(out)
    }
}

fn write_texts(out: &mut Out<'_>, texts: &[String]) -> Result<(), EncodeError> {
    out.write_compact_array_len(texts.len())?;
    texts.iter().try_for_each(|one| out.write_compact_string(&text(one)))
}

fn write_topics(out: &mut Out<'_>, topics: &[InternalTopic]) -> Result<(), EncodeError> {
    out.write_compact_array_len(topics.len())?;
    for topic in topics {
        out.write_compact_string(&text(&topic.name))?;
        out.write_i32(topic.partitions)?;
        out.write_i16(topic.replication_factor)?;
        write_pairs(out, topic.configs.iter().map(|(key, value)| (key, value)))?;
        no_tags(out)?;
    }
    Ok(())
}

pub(super) fn topology(value: &mut Decoder) -> Result<Topology, DecodeError> {
    let epoch = value.read_i32()?;
    let count = value.read_compact_array_len()?;
    let subtopologies = value.read_vec(count, subtopology)?;
    value.read_tagged_fields()?;
    Ok(Topology { epoch, subtopologies })
}

fn subtopology(value: &mut Decoder) -> Result<Subtopology, DecodeError> {
    let read = Subtopology {
        id: string(value.read_compact_string())?,
        source_topics: read_texts(value)?,
        source_topic_regex: read_texts(value)?,
        state_changelog_topics: read_topics(value)?,
        repartition_sink_topics: read_texts(value)?,
        repartition_source_topics: read_topics(value)?,
        copartition_groups: {
            let count = value.read_compact_array_len()?;
            value.read_vec(count, copartition_group)?
        },
    };
    value.read_tagged_fields()?;
    Ok(read)
}

fn copartition_group(value: &mut Decoder) -> Result<CopartitionGroup, DecodeError> {
    let places = |value: &mut Decoder| {
        let count = value.read_compact_array_len()?;
        value.read_vec(count, Decoder::read_i16)
    };
    let read = CopartitionGroup {
        source_topics: places(value)?,
        source_topic_regex: places(value)?,
        repartition_source_topics: places(value)?,
    };
    value.read_tagged_fields()?;
    Ok(read)
}

fn read_texts(value: &mut Decoder) -> Result<Vec<String>, DecodeError> {
    let count = value.read_compact_array_len()?;
    value.read_vec(count, |value| string(value.read_compact_string()))
}

fn read_topics(value: &mut Decoder) -> Result<Vec<InternalTopic>, DecodeError> {
    let count = value.read_compact_array_len()?;
    value.read_vec(count, |value| {
        let topic = InternalTopic {
            name: string(value.read_compact_string())?,
            partitions: value.read_i32()?,
            replication_factor: value.read_i16()?,
            configs: read_pairs(value)?,
        };
        value.read_tagged_fields()?;
        Ok(topic)
    })
}
