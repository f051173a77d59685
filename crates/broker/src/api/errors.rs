//! Fields of responses that all APIs have: error codes, for the counts by API and code, and the
//! time for which a quota mutes the client. One line for each API names the fields that hold a
//! code.
//!
//! Codes of entries count one by one. The code of the whole response counts if it is an error, or
//! if there are no entries.
//!
//! Catalogue: one line per API.

use levada_wire::messages::*;
use levada_wire::metadata::MetadataAnswer;

/// Fields that most responses have in common.
pub(super) trait AnswerFields {
    /// Time in milliseconds for which the connection is muted after the response. Responses between
    /// brokers and those before a login have no such field.
    fn throttle_time_ms(&mut self) -> Option<&mut i32>;

    /// Error code of the whole response, if it has one.
    fn whole(&self) -> Option<i16>;

    /// Calls `count` with the code of each entry, 0 included.
    fn entries(&self, count: &mut dyn FnMut(i16));

    /// Number of entries without an error that [`AnswerFields::entries`] leaves out.
    fn uncounted(&self) -> u64 {
        0
    }

    /// Calls `count` with each code, 0 included.
    fn each(&self, mut count: impl FnMut(i16))
    where
        Self: Sized,
    {
        let mut entries = 0_u64;
        self.entries(&mut |code| {
            entries += 1;
            count(code);
        });
        if let Some(code) = self.whole().filter(|code| *code != 0 || entries == 0) {
            count(code);
        }
    }
}

/// Walks lists of entries down to the field with the code.
macro_rules! walk {
    ($message:expr, $count:ident;) => {};
    ($message:expr, $count:ident; $list:ident { $($inner:tt)* } $($rest:tt)*) => {
        for entry in &$message.$list {
            walk!(entry, $count; $($inner)*);
        }
        walk!($message, $count; $($rest)*);
    };
    ($message:expr, $count:ident; $code:ident $($rest:tt)*) => {
        $count($message.$code);
        walk!($message, $count; $($rest)*);
    };
}

macro_rules! whole {
    ($answer:ident) => {
        None
    };
    ($answer:ident $code:ident) => {
        Some($answer.$code)
    };
}

macro_rules! throttle {
    (SaslHandshakeResponse, $answer:ident) => {
        None
    };
    (SaslAuthenticateResponse, $answer:ident) => {
        None
    };
    (WriteTxnMarkersResponse, $answer:ident) => {
        None
    };
    (DescribeQuorumResponse, $answer:ident) => {
        None
    };
    (InitializeShareGroupStateResponse, $answer:ident) => {
        None
    };
    (ReadShareGroupStateResponse, $answer:ident) => {
        None
    };
    (WriteShareGroupStateResponse, $answer:ident) => {
        None
    };
    (DeleteShareGroupStateResponse, $answer:ident) => {
        None
    };
    (ReadShareGroupStateSummaryResponse, $answer:ident) => {
        None
    };
    ($other:ident, $answer:ident) => {
        Some(&mut $answer.throttle_time_ms)
    };
}

macro_rules! answers {
    ($($answer:ident [$($whole:ident)?] { $($entries:tt)* })*) => {
        $(impl AnswerFields for $answer {
            fn throttle_time_ms(&mut self) -> Option<&mut i32> {
                throttle!($answer, self)
            }

            fn whole(&self) -> Option<i16> {
                whole!(self $($whole)?)
            }

            fn entries(&self, _count: &mut dyn FnMut(i16)) {
                walk!(self, _count; $($entries)*);
            }
        })*
    };
}

answers! {
    ListOffsetsResponse [] { topics { partitions { error_code } } }
    OffsetCommitResponse [] { topics { partitions { error_code } } }
    OffsetFetchResponse [error_code] {
        topics { partitions { error_code } }
        groups { error_code topics { partitions { error_code } } }
    }
    FindCoordinatorResponse [error_code] { coordinators { error_code } }
    JoinGroupResponse [error_code] {}
    HeartbeatResponse [error_code] {}
    LeaveGroupResponse [error_code] { members { error_code } }
    SyncGroupResponse [error_code] {}
    DescribeGroupsResponse [] { groups { error_code } }
    ListGroupsResponse [error_code] {}
    SaslHandshakeResponse [error_code] {}
    ApiVersionsResponse [error_code] {}
    CreateTopicsResponse [] { topics { error_code } }
    DeleteTopicsResponse [] { responses { error_code } }
    DeleteRecordsResponse [] { topics { partitions { error_code } } }
    InitProducerIdResponse [error_code] {}
    OffsetForLeaderEpochResponse [] { topics { partitions { error_code } } }
    AddPartitionsToTxnResponse [error_code] {
        results_by_transaction { topic_results { results_by_partition { partition_error_code } } }
        results_by_topic_v3_and_below { results_by_partition { partition_error_code } }
    }
    AddOffsetsToTxnResponse [error_code] {}
    EndTxnResponse [error_code] {}
    WriteTxnMarkersResponse [] { markers { topics { partitions { error_code } } } }
    TxnOffsetCommitResponse [] { topics { partitions { error_code } } }
    DescribeAclsResponse [error_code] {}
    CreateAclsResponse [] { results { error_code } }
    DeleteAclsResponse [] { filter_results { error_code } }
    DescribeConfigsResponse [] { results { error_code } }
    AlterConfigsResponse [] { responses { error_code } }
    AlterReplicaLogDirsResponse [] { results { partitions { error_code } } }
    DescribeLogDirsResponse [error_code] { results { error_code } }
    SaslAuthenticateResponse [error_code] {}
    CreatePartitionsResponse [] { results { error_code } }
    CreateDelegationTokenResponse [error_code] {}
    RenewDelegationTokenResponse [error_code] {}
    ExpireDelegationTokenResponse [error_code] {}
    DescribeDelegationTokenResponse [error_code] {}
    DeleteGroupsResponse [] { results { error_code } }
    ElectLeadersResponse [error_code] { replica_election_results { partition_result { error_code } } }
    IncrementalAlterConfigsResponse [] { responses { error_code } }
    AlterPartitionReassignmentsResponse [error_code] { responses { partitions { error_code } } }
    ListPartitionReassignmentsResponse [error_code] {}
    OffsetDeleteResponse [error_code] { topics { partitions { error_code } } }
    DescribeClientQuotasResponse [error_code] {}
    AlterClientQuotasResponse [] { entries { error_code } }
    DescribeUserScramCredentialsResponse [error_code] { results { error_code } }
    AlterUserScramCredentialsResponse [] { results { error_code } }
    DescribeQuorumResponse [error_code] { topics { partitions { error_code } } }
    UpdateFeaturesResponse [error_code] { results { error_code } }
    DescribeClusterResponse [error_code] {}
    DescribeProducersResponse [] { topics { partitions { error_code } } }
    UnregisterBrokerResponse [error_code] {}
    DescribeTransactionsResponse [] { transaction_states { error_code } }
    ListTransactionsResponse [error_code] {}
    ConsumerGroupHeartbeatResponse [error_code] {}
    ConsumerGroupDescribeResponse [] { groups { error_code } }
    ListConfigResourcesResponse [error_code] {}
    DescribeTopicPartitionsResponse [] { topics { error_code partitions { error_code } } }
    ShareGroupHeartbeatResponse [error_code] {}
    GetTelemetrySubscriptionsResponse [error_code] {}
    PushTelemetryResponse [error_code] {}
    ShareGroupDescribeResponse [] { groups { error_code } }
    InitializeShareGroupStateResponse [] { results { partitions { error_code } } }
    ReadShareGroupStateResponse [] { results { partitions { error_code } } }
    WriteShareGroupStateResponse [] { results { partitions { error_code } } }
    DeleteShareGroupStateResponse [] { results { partitions { error_code } } }
    ReadShareGroupStateSummaryResponse [] { results { partitions { error_code } } }
    ShareAcknowledgeResponse [error_code] { responses { partitions { error_code } } }
    AddRaftVoterResponse [error_code] {}
    RemoveRaftVoterResponse [error_code] {}
    StreamsGroupHeartbeatResponse [error_code] {}
    StreamsGroupDescribeResponse [] { groups { error_code } }
    DescribeShareGroupOffsetsResponse [] { groups { error_code topics { partitions { error_code } } } }
    AlterShareGroupOffsetsResponse [error_code] { responses { partitions { error_code } } }
    DeleteShareGroupOffsetsResponse [error_code] { responses { error_code } }
    StreamsGroupTopologyDescriptionUpdateResponse [error_code] {}
    UnregisterControllerResponse [error_code] {}
}

impl AnswerFields for MetadataAnswer {
    fn throttle_time_ms(&mut self) -> Option<&mut i32> {
        Some(&mut self.response.throttle_time_ms)
    }

    fn whole(&self) -> Option<i16> {
        Some(self.response.error_code)
    }

    fn entries(&self, count: &mut dyn FnMut(i16)) {
        walk!(self.response, count; topics { error_code partitions { error_code } });
        self.encoded.iter().for_each(|topic| count(topic.error_code()));
    }

    fn uncounted(&self) -> u64 {
        self.encoded.iter().map(|topic| topic.partitions() as u64).sum()
    }
}

/// Kafka's sentence for `UNKNOWN_TOPIC_OR_PARTITION`.
pub(super) const NOT_HOSTED: &str = "This server does not host this topic-partition.";

/// Error messages of a response that refuses many entries: at most a megabyte. Later entries have
/// only the code.
pub(super) struct Sentences {
    left: usize,
}

impl Default for Sentences {
    fn default() -> Self {
        Self { left: 1 << 20 }
    }
}

impl Sentences {
    /// Returns `sentence` if it fits into the rest of the megabyte.
    pub(super) fn tell(&mut self, sentence: Option<&StrBytes>) -> Option<StrBytes> {
        let sentence = sentence?;
        self.left = self.left.checked_sub(sentence.len())?;
        Some(sentence.clone())
    }
}
