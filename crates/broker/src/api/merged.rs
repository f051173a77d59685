//! Responses about topics whose partitions are refused in part by the API and answered in part by a
//! coordinator. The order is Kafka's: first the refused partitions by topic, in request order; then
//! the coordinator's, appended to their topic if it is already in the response.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;

/// Merges refused and processed topics; `join` adds the partitions of a topic to the topic with the
/// same `key`.
pub(super) fn merge<T, K: Eq + Hash>(
    refused: Vec<T>,
    answered: Vec<T>,
    key: impl Fn(&T) -> K,
    join: impl Fn(&mut T, T),
) -> Vec<T> {
    if refused.is_empty() {
        return answered;
    }
    let (mut merged, mut places) = (Vec::new(), HashMap::new());
    for topic in refused.into_iter().chain(answered) {
        match places.entry(key(&topic)) {
            Entry::Occupied(place) => join(&mut merged[*place.get()], topic),
            Entry::Vacant(place) => {
                place.insert(merged.len());
                merged.push(topic);
            }
        }
    }
    merged
}

#[cfg(test)]
mod tests;
