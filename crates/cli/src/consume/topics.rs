//! The topics to consume: names, and patterns that match names.

use std::collections::{BTreeMap, BTreeSet};

use levada_client::{ClientError, Cluster, Led, Topic, Topics};
use regex::Regex;

use crate::kafka_error;
use levada_terminal::failure::Failure;

/// The topics of the command line.
#[derive(Debug)]
pub(super) struct Wanted {
    names: BTreeSet<String>,
    /// The given names, each with the expression that matches whole names.
    patterns: Vec<(String, Regex)>,
}

impl Wanted {
    /// A topic's name cannot contain `^`, so that a text that begins with it is a pattern.
    pub(super) fn new(texts: &[String]) -> Result<Self, Failure> {
        let (patterns, names): (Vec<_>, Vec<_>) = texts.iter().partition(|text| text.starts_with('^'));
        let compile = |pattern: &String| {
            let compiled = Regex::new(pattern).and_then(|_| Regex::new(&format!(r"\A(?:{pattern})\z")));
            let wrong = |error| Failure::Usage(format!("{pattern} is not a regular expression: {error}"));
            Ok((pattern.clone(), compiled.map_err(wrong)?))
        };
        let patterns = patterns.into_iter().map(compile).collect::<Result<_, Failure>>()?;
        Ok(Self { names: names.into_iter().cloned().collect(), patterns })
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// One expression for all patterns; `None` without patterns.
    pub(super) fn expression(&self) -> Option<String> {
        let all: Vec<_> = self.patterns.iter().map(|(text, _)| format!("(?:{text})")).collect();
        match self.patterns.as_slice() {
            [] => None,
            [(text, _)] => Some(text.clone()),
            _ => Some(all.join("|")),
        }
    }

    /// The existing topics, with only these partitions, or all. Waits for a leader of topics that
    /// are being created; a name without a topic is an error, a pattern without one is not.
    pub(super) fn find(&self, cluster: &mut Cluster, partitions: &[i32]) -> Result<Topics, Failure> {
        let led = Led::These(partitions);
        self.find_by(cluster, partitions, |cluster, name| cluster.topic(name, false, led))
    }

    /// Like `find`, without a wait: partitions may have no leader.
    pub(super) fn find_again(&self, cluster: &mut Cluster, partitions: &[i32]) -> Result<Topics, Failure> {
        self.find_by(cluster, partitions, Cluster::present_topic)
    }

    fn find_by(
        &self,
        cluster: &mut Cluster,
        partitions: &[i32],
        find: impl Fn(&mut Cluster, &str) -> Result<Topic, ClientError>,
    ) -> Result<Topics, Failure> {
        let mut topics = self.matching(cluster)?;
        for name in &self.names {
            let topic = kafka_error::needing(find(cluster, name), "read", &format!("--topic {name}"))?;
            topics.insert(name.clone(), topic);
        }
        if !partitions.is_empty() {
            for topic in topics.values_mut() {
                let leaders = partitions.iter().map(|partition| Ok((*partition, topic.leader(*partition)?)));
                topic.leaders = leaders.collect::<Result<BTreeMap<_, _>, ClientError>>()?;
            }
        }
        Ok(topics)
    }

    fn matching(&self, cluster: &mut Cluster) -> Result<Topics, Failure> {
        if self.patterns.is_empty() {
            return Ok(Topics::new());
        }
        let mut topics = cluster.topics(None)?;
        topics.retain(|name, _| self.patterns.iter().any(|(_, pattern)| pattern.is_match(name)));
        Ok(topics)
    }

    /// The names and patterns as given.
    pub(super) fn shown(&self) -> String {
        let patterns = self.patterns.iter().map(|(text, _)| text.as_str());
        self.names().chain(patterns).collect::<Vec<_>>().join(" ")
    }
}
