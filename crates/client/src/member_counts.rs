//! Numbers of members of many groups: one request for each coordinator and kind of group.

use std::collections::BTreeMap;

use levada_wire::StrBytes;
use levada_wire::messages::{
    ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse, DescribeGroupsRequest,
    DescribeGroupsResponse, ShareGroupDescribeRequest, ShareGroupDescribeResponse,
    StreamsGroupDescribeRequest, StreamsGroupDescribeResponse,
};

/// Requests that describe groups, by the id of the coordinator.
#[derive(Debug, Default)]
pub struct MemberRequests {
    /// Groups without another kind.
    pub classic: BTreeMap<i32, DescribeGroupsRequest>,
    /// Groups of KIP-848.
    pub consumer: BTreeMap<i32, ConsumerGroupDescribeRequest>,
    /// Share groups.
    pub share: BTreeMap<i32, ShareGroupDescribeRequest>,
    /// Streams groups.
    pub streams: BTreeMap<i32, StreamsGroupDescribeRequest>,
}

impl MemberRequests {
    /// Requests for groups: the coordinator, the type as ListGroups names it, and the id of each.
    #[must_use]
    pub fn of<'a>(groups: impl IntoIterator<Item = (i32, &'a str, &'a str)>) -> Self {
        let mut requests = Self::default();
        for (node, kind, id) in groups {
            let ids = match kind.to_ascii_lowercase().as_str() {
                "consumer" => &mut requests.consumer.entry(node).or_default().group_ids,
                "share" => &mut requests.share.entry(node).or_default().group_ids,
                "streams" => &mut requests.streams.entry(node).or_default().group_ids,
                _ => &mut requests.classic.entry(node).or_default().groups,
            };
            ids.push(StrBytes::from(id));
        }
        requests
    }
}

/// A response that describes groups.
pub trait MemberCounts {
    /// Id and number of members of each group that was not refused.
    fn member_counts(&self) -> Vec<(String, u64)>;
}

macro_rules! member_counts {
    ($($response:ty)*) => {$(
        impl MemberCounts for $response {
            fn member_counts(&self) -> Vec<(String, u64)> {
                let described = self.groups.iter().filter(|group| group.error_code == 0);
                described.map(|group| (group.group_id.to_string(), group.members.len() as u64)).collect()
            }
        }
    )*};
}

member_counts!(
    DescribeGroupsResponse ConsumerGroupDescribeResponse ShareGroupDescribeResponse
    StreamsGroupDescribeResponse
);

#[cfg(test)]
mod tests {
    use levada_wire::error_code::ErrorCode;
    use levada_wire::messages::describe_groups_response::{DescribedGroup, DescribedGroupMember};

    use super::*;

    #[test]
    fn each_coordinator_gets_one_request_per_kind() {
        let requests = MemberRequests::of([
            (1, "consumer", "a"),
            (2, "Consumer", "b"),
            (2, "consumer", "c"),
            (2, "classic", "d"),
            (2, "share", "e"),
            (2, "streams", "f"),
        ]);
        let ids = |ids: &[StrBytes]| ids.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(ids(&requests.consumer[&1].group_ids), ["a"]);
        assert_eq!(ids(&requests.consumer[&2].group_ids), ["b", "c"]);
        assert_eq!(ids(&requests.classic[&2].groups), ["d"]);
        assert_eq!(ids(&requests.share[&2].group_ids), ["e"]);
        assert_eq!(ids(&requests.streams[&2].group_ids), ["f"]);
        assert_eq!(requests.classic.len() + requests.share.len() + requests.streams.len(), 3);
    }

    #[test]
    fn refused_groups_have_no_count() {
        let group = |id: &str, code: i16| {
            let mut group = DescribedGroup::default();
            (group.group_id, group.error_code) = (StrBytes::from(id), code);
            group.members = vec![DescribedGroupMember::default(); 2];
            group
        };
        let mut response = DescribeGroupsResponse::default();
        response.groups = vec![group("a", 0), group("b", ErrorCode::GroupAuthorizationFailed.code())];
        assert_eq!(response.member_counts(), [("a".to_owned(), 2)]);
    }
}
