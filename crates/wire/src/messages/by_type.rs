//! Calls of generic functions with the request type of an API.

/// Calls a generic function with the type of an API's requests: `by_request_type!(key, f(a, b))`
/// calls `f::<ProduceRequest>(a, b)` for the key of Produce. The list has every row of the table of
/// APIs: it does not compile without one.
#[macro_export]
macro_rules! by_request_type {
    ($key:expr, $function:ident $arguments:tt) => {
        $crate::by_request_type! { @ $key, $function $arguments,
            Produce ProduceRequest
            Fetch FetchRequest
            ListOffsets ListOffsetsRequest
            Metadata MetadataRequest
            OffsetCommit OffsetCommitRequest
            OffsetFetch OffsetFetchRequest
            FindCoordinator FindCoordinatorRequest
            JoinGroup JoinGroupRequest
            Heartbeat HeartbeatRequest
            LeaveGroup LeaveGroupRequest
            SyncGroup SyncGroupRequest
            DescribeGroups DescribeGroupsRequest
            ListGroups ListGroupsRequest
            SaslHandshake SaslHandshakeRequest
            ApiVersions ApiVersionsRequest
            CreateTopics CreateTopicsRequest
            DeleteTopics DeleteTopicsRequest
            DeleteRecords DeleteRecordsRequest
            InitProducerId InitProducerIdRequest
            OffsetForLeaderEpoch OffsetForLeaderEpochRequest
            AddPartitionsToTxn AddPartitionsToTxnRequest
            AddOffsetsToTxn AddOffsetsToTxnRequest
            EndTxn EndTxnRequest
            WriteTxnMarkers WriteTxnMarkersRequest
            TxnOffsetCommit TxnOffsetCommitRequest
            DescribeAcls DescribeAclsRequest
            CreateAcls CreateAclsRequest
            DeleteAcls DeleteAclsRequest
            DescribeConfigs DescribeConfigsRequest
            AlterConfigs AlterConfigsRequest
            AlterReplicaLogDirs AlterReplicaLogDirsRequest
            DescribeLogDirs DescribeLogDirsRequest
            SaslAuthenticate SaslAuthenticateRequest
            CreatePartitions CreatePartitionsRequest
            CreateDelegationToken CreateDelegationTokenRequest
            RenewDelegationToken RenewDelegationTokenRequest
            ExpireDelegationToken ExpireDelegationTokenRequest
            DescribeDelegationToken DescribeDelegationTokenRequest
            DeleteGroups DeleteGroupsRequest
            ElectLeaders ElectLeadersRequest
            IncrementalAlterConfigs IncrementalAlterConfigsRequest
            AlterPartitionReassignments AlterPartitionReassignmentsRequest
            ListPartitionReassignments ListPartitionReassignmentsRequest
            OffsetDelete OffsetDeleteRequest
            DescribeClientQuotas DescribeClientQuotasRequest
            AlterClientQuotas AlterClientQuotasRequest
            DescribeUserScramCredentials DescribeUserScramCredentialsRequest
            AlterUserScramCredentials AlterUserScramCredentialsRequest
            DescribeQuorum DescribeQuorumRequest
            UpdateFeatures UpdateFeaturesRequest
            DescribeCluster DescribeClusterRequest
            DescribeProducers DescribeProducersRequest
            UnregisterBroker UnregisterBrokerRequest
            DescribeTransactions DescribeTransactionsRequest
            ListTransactions ListTransactionsRequest
            ConsumerGroupHeartbeat ConsumerGroupHeartbeatRequest
            ConsumerGroupDescribe ConsumerGroupDescribeRequest
            GetTelemetrySubscriptions GetTelemetrySubscriptionsRequest
            PushTelemetry PushTelemetryRequest
            ListConfigResources ListConfigResourcesRequest
            DescribeTopicPartitions DescribeTopicPartitionsRequest
            ShareGroupHeartbeat ShareGroupHeartbeatRequest
            ShareGroupDescribe ShareGroupDescribeRequest
            ShareFetch ShareFetchRequest
            ShareAcknowledge ShareAcknowledgeRequest
            AddRaftVoter AddRaftVoterRequest
            RemoveRaftVoter RemoveRaftVoterRequest
            InitializeShareGroupState InitializeShareGroupStateRequest
            ReadShareGroupState ReadShareGroupStateRequest
            WriteShareGroupState WriteShareGroupStateRequest
            DeleteShareGroupState DeleteShareGroupStateRequest
            ReadShareGroupStateSummary ReadShareGroupStateSummaryRequest
            StreamsGroupHeartbeat StreamsGroupHeartbeatRequest
            StreamsGroupDescribe StreamsGroupDescribeRequest
            DescribeShareGroupOffsets DescribeShareGroupOffsetsRequest
            AlterShareGroupOffsets AlterShareGroupOffsetsRequest
            DeleteShareGroupOffsets DeleteShareGroupOffsetsRequest
            StreamsGroupTopologyDescriptionUpdate StreamsGroupTopologyDescriptionUpdateRequest
            UnregisterController UnregisterControllerRequest
        }
    };
    (@ $key:expr, $function:ident $arguments:tt, $($api:ident $request:ident)*) => {
        match $key {
            $($crate::ApiKey::$api => $function::<$crate::messages::$request> $arguments,)*
        }
    };
}
