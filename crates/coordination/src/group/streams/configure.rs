//! The topology of a streams group, configured for the topics that exist: numbers of partitions of
//! its internal topics and of tasks, and internal topics that are missing.

use std::collections::{BTreeMap, BTreeSet};

use super::reason::{Reason, named_counts};
use crate::group::error::GroupError;
use crate::group::java_map::JavaMap;
use crate::group::records::{CopartitionGroup, InternalTopic, Subtopology, Topology};
use crate::group::topics::Topics;

/// Maximum number of tasks of a topology, without standby tasks. Kafka has no limit.
const TASKS_MAX: i64 = 1 << 17;

/// A topology, configured for the topics that exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Configured {
    /// The parts by id; none if source topics are missing or numbers of partitions do not fit.
    parts: Option<BTreeMap<String, ConfiguredPart>>,
    /// Internal topics that are missing, in Kafka's order.
    pub(super) missing: Vec<InternalTopic>,
    /// Reason why tasks cannot be assigned.
    pub(super) reason: Option<Reason>,
}

/// A part of a configured topology.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ConfiguredPart {
    /// Number of tasks of the subtopology.
    pub(super) tasks: i32,
    /// External topics that it reads.
    pub(super) sources: BTreeSet<String>,
    /// Topics between parts that it writes.
    pub(super) sinks: BTreeSet<String>,
    /// Topics between parts that it reads, by name.
    pub(super) repartition: BTreeMap<String, InternalTopic>,
    /// Topics with the changes of its state, by name.
    pub(super) changelogs: BTreeMap<String, InternalTopic>,
}

impl Configured {
    /// True if tasks can be assigned.
    pub(super) fn is_ready(&self) -> bool {
        self.reason.is_none()
    }

    /// The parts by id, if they are known.
    pub(super) fn parts(&self) -> Option<&BTreeMap<String, ConfiguredPart>> {
        self.parts.as_ref()
    }

    /// The parts of a topology whose tasks can be assigned.
    pub(super) fn ready_parts(&self) -> Option<&BTreeMap<String, ConfiguredPart>> {
        self.parts.as_ref().filter(|_| self.is_ready())
    }
}

/// A fault of a topology: of its topics, or of the topology itself.
enum Fault {
    Topics(Reason),
    Topology(GroupError),
}

impl From<Reason> for Fault {
    fn from(reason: Reason) -> Self {
        Self::Topics(reason)
    }
}

/// Compares a topology with the topics.
///
/// # Errors
/// If the topology is invalid with any topics.
pub(super) fn configure(topology: &Topology, topics: &dyn Topics) -> Result<Configured, GroupError> {
    match Configuration::of(topology, topics).configured() {
        Ok(configured) => Ok(configured),
        Err(Fault::Topics(reason)) => {
            Ok(Configured { parts: None, missing: Vec::new(), reason: Some(reason) })
        }
        Err(Fault::Topology(error)) => Err(error),
    }
}

/// Topics between the parts of a topology.
struct Between<'a> {
    /// Topics whose number of partitions the topology states.
    fixed: BTreeSet<&'a str>,
    /// Topics whose number of partitions the topology does not state.
    flexible: BTreeSet<&'a str>,
    /// Stated numbers of partitions of the fixed topics, or of the topics if they exist.
    stated: BTreeSet<i32>,
}

struct Configuration<'a> {
    topology: &'a Topology,
    topics: &'a dyn Topics,
    /// The parts, in Kafka's order.
    parts: Vec<&'a Subtopology>,
    /// Numbers of partitions of internal topics.
    decided: BTreeMap<&'a str, i32>,
}

impl<'a> Configuration<'a> {
    fn of(topology: &'a Topology, topics: &'a dyn Topics) -> Self {
        let mut parts = JavaMap::new();
        topology.subtopologies.iter().for_each(|part| parts.insert(part.id.as_str(), part));
        Self { topology, topics, parts: parts.values().copied().collect(), decided: BTreeMap::new() }
    }

    fn configured(mut self) -> Result<Configured, Fault> {
        let sources: BTreeSet<&String> = self.parts.iter().flat_map(|part| &part.source_topics).collect();
        let missing: Vec<&String> =
            sources.into_iter().filter(|name| self.topics.by_name(name).is_none()).collect();
        if !missing.is_empty() {
            return Err(Reason::missing_sources(&missing).into());
        }
        self.decide_repartition()?;
        self.copartition()?;
        self.decide_changelogs()?;
        let parts = self.parts.iter().map(|part| Ok((part.id.clone(), self.configured_part(part)?)));
        let parts: BTreeMap<String, ConfiguredPart> = parts.collect::<Result<_, Fault>>()?;
        if parts.values().map(|part| i64::from(part.tasks)).sum::<i64>() > TASKS_MAX {
            return Err(invalid("The topology has more tasks than this broker assigns."));
        }
        let missing = self.missing(&parts)?;
        let reason = (!missing.is_empty()).then(|| Reason::missing_internal(&missing));
        Ok(Configured { parts: Some(parts), missing, reason })
    }

    /// Number of partitions of a topic: that of the topic if it exists.
    fn count(&self, name: &str) -> Option<i32> {
        let existing = self.topics.by_name(name).map(|(_, count)| count);
        existing.or_else(|| self.decided.get(name).copied())
    }

    /// Decides the number of partitions of a topic between parts: the number that the topology
    /// states, or the largest number of the topics that the writing part reads.
    fn decide_repartition(&mut self) -> Result<(), Fault> {
        let parts = self.parts.clone();
        let mut decided: BTreeMap<&str, i32> = BTreeMap::new();
        let stated = parts.iter().flat_map(|part| &part.repartition_source_topics);
        decided.extend(
            stated.filter(|topic| topic.partitions != 0).map(|topic| (topic.name.as_str(), topic.partitions)),
        );
        let mut pending = parts.clone();
        while !pending.is_empty() {
            let before = decided.len();
            pending.retain(|part| {
                let mut sinks = part.repartition_sink_topics.iter();
                let is_open = sinks.any(|sink| !decided.contains_key(sink.as_str()));
                let most = if is_open { self.most_read(part, &decided) } else { Some(0) };
                let Some(most) = most else { return true };
                for sink in &part.repartition_sink_topics {
                    decided.entry(sink).or_insert(most);
                }
                false
            });
            if decided.len() == before && !pending.is_empty() {
                return Err(invalid(
                    "Failed to compute number of partitions for all repartition topics. There may be loops in the topology that cannot be resolved.",
                ));
            }
        }
        let mut read = parts.iter().flat_map(|part| &part.repartition_source_topics);
        if read.any(|topic| !decided.contains_key(topic.name.as_str())) {
            return Err(invalid(
                "Failed to compute number of partitions for all repartition topics, because a repartition source topic is never used as a sink topic.",
            ));
        }
        self.decided = decided;
        Ok(())
    }

    /// The largest number of partitions, as far as it is known, of the topics that a part reads.
    fn most_read(&self, part: &Subtopology, decided: &BTreeMap<&str, i32>) -> Option<i32> {
        let between = part.repartition_source_topics.iter();
        let between = between.filter_map(|topic| decided.get(topic.name.as_str()).copied());
        between.chain(part.source_topics.iter().filter_map(|name| self.count(name))).max()
    }

    fn copartition(&mut self) -> Result<(), Fault> {
        let parts = self.parts.clone();
        let between = || parts.iter().flat_map(|part| &part.repartition_source_topics);
        let names = |is_fixed: bool| {
            let topics = between().filter(move |topic| (topic.partitions != 0) == is_fixed);
            topics.map(|topic| topic.name.as_str()).collect::<BTreeSet<&str>>()
        };
        let (fixed, flexible) = (names(true), names(false));
        let stated = fixed.iter().filter_map(|name| self.count(name)).collect();
        let between = Between { fixed, flexible, stated };
        for part in &parts {
            for group in &part.copartition_groups {
                let names = members_of(part, group).ok_or_else(|| {
                    invalid("A copartition group refers to a topic that its subtopology does not have.")
                })?;
                self.enforce(&names, &between)?;
            }
        }
        Ok(())
    }

    /// Sets the topics between parts of a group to the number of partitions of the external topics,
    /// which must agree; without those, to the stated number, or the largest.
    fn enforce(&mut self, names: &BTreeSet<&'a str>, between: &Between<'a>) -> Result<(), Fault> {
        let Between { fixed, flexible, stated } = between;
        let counts: BTreeMap<&'a str, i32> =
            names.iter().filter_map(|name| Some((*name, self.count(name)?))).collect();
        let is_between = |name: &&str| fixed.contains(*name) || flexible.contains(*name);
        let (between, external): (BTreeMap<_, _>, BTreeMap<_, _>) =
            counts.into_iter().partition(|(name, _)| is_between(name));
        let same = |counts: &BTreeMap<&str, i32>, numbers: &BTreeSet<i32>| match numbers.len() {
            0 | 1 => Ok(numbers.first().copied()),
            _ => Err(Reason::unlike(&named_counts(counts))),
        };
        let count = if !external.is_empty() {
            same(&external, &external.values().copied().collect())?
        } else if fixed.is_empty() {
            between.values().copied().max()
        } else {
            // As in Kafka, those of the whole topology.
            same(&between, stated)?
        };
        let Some(count) = count else { return Ok(()) };
        for (name, own) in between {
            if fixed.contains(name) && own != count {
                return Err(Reason::unlike_source(name, own, count).into());
            }
            self.decided.insert(name, count);
        }
        Ok(())
    }

    /// Decides the number of partitions of a changelog topic: the number of tasks of the part.
    fn decide_changelogs(&mut self) -> Result<(), Fault> {
        for part in self.parts.clone() {
            let tasks = self.tasks(part)?;
            self.decided.extend(part.state_changelog_topics.iter().map(|topic| (topic.name.as_str(), tasks)));
        }
        Ok(())
    }

    fn tasks(&self, part: &Subtopology) -> Result<i32, Fault> {
        let most = part.inputs().filter_map(|name| self.count(name)).max();
        most.ok_or_else(|| invalid("No source topics found for a subtopology."))
    }

    fn configured_part(&self, part: &Subtopology) -> Result<ConfiguredPart, Fault> {
        let internal = |topics: &[InternalTopic]| {
            let topics = topics.iter().map(|topic| {
                let decided = self.decided.get(topic.name.as_str()).copied().unwrap_or_default();
                let partitions = if topic.partitions == 0 { decided } else { topic.partitions };
                if partitions < 1 {
                    return Err(invalid("Number of partitions must be at least 1."));
                }
                Ok((topic.name.clone(), InternalTopic { partitions, ..topic.clone() }))
            });
            topics.collect::<Result<BTreeMap<_, _>, Fault>>()
        };
        Ok(ConfiguredPart {
            tasks: self.tasks(part)?,
            sources: part.source_topics.iter().cloned().collect(),
            sinks: part.repartition_sink_topics.iter().cloned().collect(),
            repartition: internal(&part.repartition_source_topics)?,
            changelogs: internal(&part.state_changelog_topics)?,
        })
    }

    /// Internal topics that do not exist; existing ones must have the right number of partitions.
    fn missing(&self, parts: &BTreeMap<String, ConfiguredPart>) -> Result<Vec<InternalTopic>, Fault> {
        let mut expected = JavaMap::new();
        for topic in parts.values().flat_map(|part| part.repartition.values().chain(part.changelogs.values()))
        {
            expected.insert(topic.name.as_str(), topic);
        }
        let required = self.topology.required_topics();
        for name in &required {
            let Some((_, found)) = self.topics.by_name(name) else { continue };
            if let Some(topic) = expected.get(&name.as_str())
                && topic.partitions != found
            {
                return Err(Reason::unexpected(name, topic.partitions, found).into());
            }
            expected.remove(&name.as_str());
        }
        Ok(expected.values().map(|topic| (*topic).clone()).collect())
    }
}

fn invalid(what: &'static str) -> Fault {
    Fault::Topology(GroupError::StreamsInvalidTopology(what))
}

/// The names of the topics of a group.
fn members_of<'a>(part: &'a Subtopology, group: &CopartitionGroup) -> Option<BTreeSet<&'a str>> {
    let place = |place: &i16| usize::try_from(*place).ok();
    let sources = group.source_topics.iter().map(|at| part.source_topics.get(place(at)?).map(String::as_str));
    let between = group.repartition_source_topics.iter();
    let between =
        between.map(|at| part.repartition_source_topics.get(place(at)?).map(|topic| topic.name.as_str()));
    sources.chain(between).collect()
}

#[cfg(test)]
mod tests;
