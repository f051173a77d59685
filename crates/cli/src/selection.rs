//! Topics and partitions that a command line names: `clicks`, `clicks:0,2`, `logs-*`.

use std::collections::BTreeSet;
use std::str::FromStr;

use levada_client::{Cluster, TopicPartition};
use levada_terminal::failure::Failure;

use crate::hints;

/// Topics by a name or a pattern, all of their partitions or some.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Selection {
    pattern: String,
    /// Partitions of the topic; `None` stands for all.
    partitions: Vec<i32>,
}

impl FromStr for Selection {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || "expected TOPIC, TOPIC:0,2 or a pattern such as logs-*".to_owned();
        let (pattern, partitions) = match text.split_once(':') {
            None => (text, Vec::new()),
            Some((pattern, list)) => {
                let numbers: Result<Vec<i32>, _> = list.split(',').map(str::parse).collect();
                (pattern, numbers.map_err(|_| expected())?)
            }
        };
        if pattern.is_empty() || partitions.iter().any(|partition| *partition < 0) {
            return Err(expected());
        }
        Ok(Self { pattern: pattern.to_owned(), partitions })
    }
}

impl Selection {
    /// True if the partition is one of these.
    pub(crate) fn contains(&self, (topic, partition): &TopicPartition) -> bool {
        (self.partitions.is_empty() || self.partitions.contains(partition)) && matches(&self.pattern, topic)
    }

    /// True if partitions are listed, so that their number is not that of the topic.
    pub(crate) fn lists_partitions(&self) -> bool {
        !self.partitions.is_empty()
    }
}

/// The partitions among `all` that are named by these selections, in the order of `all`. No
/// selection means all.
///
/// # Errors
/// A selection names nothing.
pub(crate) fn chosen<'a>(
    selections: &[Selection],
    all: impl Iterator<Item = &'a TopicPartition> + Clone,
) -> Result<Vec<&'a TopicPartition>, Failure> {
    for selection in selections {
        for partition in selection.partitions.iter().map(Some).chain([None]) {
            let names = |place: &&TopicPartition| {
                matches(&selection.pattern, &place.0) && partition.is_none_or(|one| *one == place.1)
            };
            if !all.clone().any(|place| names(&place)) {
                return Err(missing(selection, partition.copied(), all));
            }
        }
    }
    let is_chosen =
        |place: &&TopicPartition| selections.is_empty() || selections.iter().any(|one| one.contains(place));
    Ok(all.filter(is_chosen).collect())
}

/// Topics by names and patterns: a name selects one topic, a pattern the topics that match it.
/// Internal topics match patterns that begin with `_`.
///
/// # Errors
/// The request gets no response, or nothing matches a pattern.
pub(crate) fn topics(cluster: &mut Cluster, words: &[String]) -> Result<Vec<String>, Failure> {
    if !words.iter().any(|word| is_pattern(word)) {
        return Ok(words.to_vec());
    }
    let known = cluster.metadata(None, false)?.topics;
    let mut known: Vec<(&str, bool)> =
        known.iter().map(|topic| (topic.name.as_deref().unwrap_or_default(), topic.is_internal)).collect();
    known.sort_unstable();
    let mut chosen: Vec<String> = Vec::new();
    for word in words {
        if !is_pattern(word) {
            chosen.push(word.clone());
            continue;
        }
        let matching = known
            .iter()
            .filter(|(name, is_internal)| matches(word, name) && (!is_internal || word.starts_with('_')));
        let matching: Vec<String> = matching.map(|(name, _)| (*name).to_owned()).collect();
        if matching.is_empty() {
            let next = "levada topic list shows all topics";
            return Err(Failure::with_next(format!("no topic matches {word}"), next));
        }
        chosen.extend(matching);
    }
    let mut seen = BTreeSet::new();
    chosen.retain(|name| seen.insert(name.clone()));
    Ok(chosen)
}

fn missing<'a>(
    selection: &Selection,
    partition: Option<i32>,
    all: impl Iterator<Item = &'a TopicPartition> + Clone,
) -> Failure {
    let pattern = &selection.pattern;
    if all.clone().any(|place| matches(pattern, &place.0)) {
        let what = format!("{pattern} has no partition {}", partition.unwrap_or_default());
        return Failure::with_next(what, format!("levada partition list '{pattern}' shows all of them"));
    }
    let what = if is_pattern(pattern) { "no topic matches" } else { "there is no topic" };
    let next = match hints::nearest(pattern, all.map(|place| place.0.as_str())) {
        Some(nearest) => format!("{nearest}; levada topic list shows all topics"),
        None => "levada topic list shows all topics".to_owned(),
    };
    Failure::with_next(format!("{what} {pattern}"), next)
}

pub(crate) fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?'])
}

/// True if the name matches the pattern: `*` matches any characters, `?` one character. Topics have
/// names of ASCII.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut at, mut seen) = (0, 0);
    // The last `*`, and the part of the name that it stands for ends here.
    let mut star: Option<(usize, usize)> = None;
    while seen < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, seen));
                at += 1;
            }
            Some(one) if *one == b'?' || *one == name[seen] => {
                at += 1;
                seen += 1;
            }
            _ => {
                let Some((back, end)) = star else { return false };
                star = Some((back, end + 1));
                (at, seen) = (back + 1, end + 1);
            }
        }
    }
    pattern[at..].iter().all(|one| *one == b'*')
}

#[cfg(test)]
mod tests;
