//! Members and lag of many groups, by a few requests to each coordinator and one to each leader.

use std::collections::{BTreeMap, BTreeSet};

use levada_client::member_counts::{MemberCounts, MemberRequests};
use levada_client::{ClientError, Cluster, TopicPartition, committed, share_offsets};
use levada_terminal::failure::Failure;
use levada_wire::messages::RequestResponsePair;
use serde::Serialize;

use super::ListedGroup;
use crate::group::share::SHARE;

/// Number of groups of one request.
const PER_REQUEST: usize = 500;

/// Members of a group and the number of records that they have to read; `None` if a broker refuses
/// or does not know the number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Load {
    pub(super) members: Option<u64>,
    /// Sum over the partitions with a committed offset whose end is known; `None` without one.
    pub(super) lag: Option<i64>,
}

/// The load of each group, by id.
pub(super) fn ask(cluster: &mut Cluster, groups: &[ListedGroup]) -> Result<BTreeMap<String, Load>, Failure> {
    let mut counts = members(cluster, groups)?;
    let mut lags = lags(cluster, groups)?;
    let load = |group: &ListedGroup| {
        let load = Load { members: counts.remove(&group.group), lag: lags.remove(&group.group) };
        (group.group.clone(), load)
    };
    Ok(groups.iter().map(load).collect())
}

fn members(cluster: &mut Cluster, groups: &[ListedGroup]) -> Result<BTreeMap<String, u64>, Failure> {
    let mut counts = BTreeMap::new();
    for groups in groups.chunks(PER_REQUEST) {
        let asked = groups.iter().map(|one| (one.coordinator, one.kind.as_str(), one.group.as_str()));
        let requests = MemberRequests::of(asked);
        counted(cluster, requests.classic, &mut counts)?;
        counted(cluster, requests.consumer, &mut counts)?;
        counted(cluster, requests.share, &mut counts)?;
        counted(cluster, requests.streams, &mut counts)?;
    }
    Ok(counts)
}

fn counted<R: RequestResponsePair>(
    cluster: &mut Cluster,
    requests: BTreeMap<i32, R>,
    counts: &mut BTreeMap<String, u64>,
) -> Result<(), ClientError>
where
    R::Response: MemberCounts,
{
    for (node, request) in requests {
        counts.extend(cluster.broker(node)?.request(&request)?.member_counts());
    }
    Ok(())
}

fn lags(cluster: &mut Cluster, groups: &[ListedGroup]) -> Result<BTreeMap<String, i64>, Failure> {
    let (mut committing, mut sharing): (BTreeMap<_, Vec<&str>>, BTreeMap<_, Vec<&str>>) = Default::default();
    for one in groups {
        let is_shared = one.kind.eq_ignore_ascii_case(SHARE);
        let groups = if is_shared { &mut sharing } else { &mut committing };
        groups.entry(one.coordinator).or_default().push(&one.group);
    }
    let mut offsets: BTreeMap<String, BTreeMap<TopicPartition, i64>> = BTreeMap::new();
    for (node, groups) in committing {
        offsets.extend(committed::fetch_many(cluster, node, &groups)?);
    }
    let places: BTreeSet<&TopicPartition> = offsets.values().flat_map(BTreeMap::keys).collect();
    let ends = if places.is_empty() { BTreeMap::new() } else { cluster.known_ends(places)? };
    let mut lags = BTreeMap::new();
    for (group, offsets) in offsets {
        // A log that was cut below the committed offset has nothing left to read.
        let lag = |(place, offset): (&TopicPartition, &i64)| Some((ends.get(place)? - offset).max(0));
        if let Some(sum) = offsets.iter().filter_map(lag).reduce(i64::saturating_add) {
            lags.insert(group, sum);
        }
    }
    for (node, groups) in sharing {
        lags.extend(share_offsets::lags(cluster, node, &groups)?);
    }
    Ok(lags)
}
