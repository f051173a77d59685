//! The one table of Kafka APIs: key, name, the versions a Kafka 4.4 broker offers clients, and
//! the first version with flexible (compact, tagged) encoding. The requests of a broker to a
//! controller are in [`controller`]. No other code in Levada contains a version range.

pub mod controller;

use std::ops::RangeInclusive;

/// One row of [`APIS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Api {
    /// The key, typed.
    pub key: ApiKey,
    /// Kafka's name, as in its documentation and logs.
    pub name: &'static str,
    /// Lowest version advertised. Old librdkafka derives features from exact minima, so never raise
    /// one.
    pub min: i16,
    /// Highest version advertised.
    pub max: i16,
    /// Lowest version Levada decodes. Only Produce differs from `min`: 0 to 2 are advertised, since
    /// librdkafka before 2.11.1 stops compressing otherwise (KAFKA-18659), and refused.
    pub lowest_decoded: i16,
    /// First request version with flexible encoding; [`NEVER_FLEXIBLE`] if none.
    pub flexible_from: i16,
}

/// `flexible_from` of an API without a flexible version.
pub const NEVER_FLEXIBLE: i16 = i16::MAX;

macro_rules! apis {
    ($($key:literal $name:ident $min:literal ..= $max:literal $(decoded $lowest:literal)? $(flexible $flexible:literal)?;)*) => {
        /// A Kafka API that a broker offers clients.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(i16)]
        pub enum ApiKey {
            $(#[doc = concat!("Key ", stringify!($key), ".")] $name = $key,)*
        }

        /// Every API that a Kafka 4.3 broker can advertise on a client listener, by key, with the
        /// versions of Kafka 4.4, and the APIs that are new there.
        pub const APIS: &[Api] = &[
            $(Api {
                key: ApiKey::$name,
                name: stringify!($name),
                min: $min,
                max: $max,
                lowest_decoded: or!($($lowest)?, $min),
                flexible_from: or!($($flexible)?, NEVER_FLEXIBLE),
            },)*
        ];

        impl ApiKey {
            /// The API with this number on the wire, if a Kafka broker offers it to clients.
            pub const fn from_wire(key: i16) -> Option<ApiKey> {
                match key {
                    $($key => Some(ApiKey::$name),)*
                    _ => None,
                }
            }
        }
    };
}

macro_rules! or {
    (, $default:expr) => {
        $default
    };
    ($value:literal, $default:expr) => {
        $value
    };
}

apis! {
    0 Produce 0..=13 decoded 3 flexible 9;
    1 Fetch 4..=18 flexible 12;
    2 ListOffsets 1..=11 flexible 6;
    3 Metadata 0..=13 flexible 9;
    8 OffsetCommit 2..=10 flexible 8;
    9 OffsetFetch 1..=10 flexible 6;
    10 FindCoordinator 0..=6 flexible 3;
    11 JoinGroup 0..=9 flexible 6;
    12 Heartbeat 0..=4 flexible 4;
    13 LeaveGroup 0..=5 flexible 4;
    14 SyncGroup 0..=5 flexible 4;
    15 DescribeGroups 0..=6 flexible 5;
    16 ListGroups 0..=5 flexible 3;
    17 SaslHandshake 0..=1;
    18 ApiVersions 0..=5 flexible 3;
    19 CreateTopics 2..=7 flexible 5;
    20 DeleteTopics 1..=6 flexible 4;
    21 DeleteRecords 0..=2 flexible 2;
    22 InitProducerId 0..=5 flexible 2;
    23 OffsetForLeaderEpoch 2..=4 flexible 4;
    24 AddPartitionsToTxn 0..=5 flexible 3;
    25 AddOffsetsToTxn 0..=4 flexible 3;
    26 EndTxn 0..=5 flexible 3;
    27 WriteTxnMarkers 1..=2 flexible 1;
    28 TxnOffsetCommit 0..=6 flexible 3;
    29 DescribeAcls 1..=3 flexible 2;
    30 CreateAcls 1..=3 flexible 2;
    31 DeleteAcls 1..=3 flexible 2;
    32 DescribeConfigs 1..=4 flexible 4;
    33 AlterConfigs 0..=2 flexible 2;
    34 AlterReplicaLogDirs 1..=2 flexible 2;
    35 DescribeLogDirs 1..=5 flexible 2;
    36 SaslAuthenticate 0..=2 flexible 2;
    37 CreatePartitions 0..=3 flexible 2;
    38 CreateDelegationToken 1..=3 flexible 2;
    39 RenewDelegationToken 1..=2 flexible 2;
    40 ExpireDelegationToken 1..=2 flexible 2;
    41 DescribeDelegationToken 1..=3 flexible 2;
    42 DeleteGroups 0..=3 flexible 2;
    43 ElectLeaders 0..=2 flexible 2;
    44 IncrementalAlterConfigs 0..=1 flexible 1;
    45 AlterPartitionReassignments 0..=1 flexible 0;
    46 ListPartitionReassignments 0..=0 flexible 0;
    47 OffsetDelete 0..=0;
    48 DescribeClientQuotas 0..=1 flexible 1;
    49 AlterClientQuotas 0..=1 flexible 1;
    50 DescribeUserScramCredentials 0..=0 flexible 0;
    51 AlterUserScramCredentials 0..=0 flexible 0;
    55 DescribeQuorum 0..=2 flexible 0;
    57 UpdateFeatures 0..=2 flexible 0;
    60 DescribeCluster 0..=2 flexible 0;
    61 DescribeProducers 0..=0 flexible 0;
    64 UnregisterBroker 0..=0 flexible 0;
    65 DescribeTransactions 0..=0 flexible 0;
    66 ListTransactions 0..=2 flexible 0;
    68 ConsumerGroupHeartbeat 0..=1 flexible 0;
    69 ConsumerGroupDescribe 0..=1 flexible 0;
    71 GetTelemetrySubscriptions 0..=0 flexible 0;
    72 PushTelemetry 0..=0 flexible 0;
    74 ListConfigResources 0..=1 flexible 0;
    75 DescribeTopicPartitions 0..=0 flexible 0;
    76 ShareGroupHeartbeat 1..=1 flexible 1;
    77 ShareGroupDescribe 1..=1 flexible 1;
    78 ShareFetch 1..=2 flexible 1;
    79 ShareAcknowledge 1..=2 flexible 1;
    80 AddRaftVoter 0..=1 flexible 0;
    81 RemoveRaftVoter 0..=0 flexible 0;
    83 InitializeShareGroupState 0..=0 flexible 0;
    84 ReadShareGroupState 0..=0 flexible 0;
    85 WriteShareGroupState 0..=1 flexible 0;
    86 DeleteShareGroupState 0..=0 flexible 0;
    87 ReadShareGroupStateSummary 0..=1 flexible 0;
    88 StreamsGroupHeartbeat 0..=1 flexible 0;
    89 StreamsGroupDescribe 0..=1 flexible 0;
    90 DescribeShareGroupOffsets 0..=1 flexible 0;
    91 AlterShareGroupOffsets 0..=0 flexible 0;
    92 DeleteShareGroupOffsets 0..=0 flexible 0;
    93 StreamsGroupTopologyDescriptionUpdate 0..=0 flexible 0;
    94 UnregisterController 0..=0 flexible 0;
}

impl ApiKey {
    /// The number on the wire.
    pub const fn wire(self) -> i16 {
        self as i16
    }

    /// This API's row of the table.
    pub const fn api(self) -> &'static Api {
        &APIS[ROWS[self as usize] as usize]
    }

    /// Kafka's name.
    pub const fn name(self) -> &'static str {
        self.api().name
    }

    /// The versions Levada advertises.
    pub const fn versions(self) -> RangeInclusive<i16> {
        self.api().min..=self.api().max
    }

    /// True if a request of `version` can be decoded: the advertised range, except Produce 0 to 2.
    pub const fn serves(self, version: i16) -> bool {
        self.api().lowest_decoded <= version && version <= self.api().max
    }

    /// True if messages of `version` use compact lengths and tagged fields.
    pub const fn is_flexible(self, version: i16) -> bool {
        version >= self.api().flexible_from
    }
}

impl std::fmt::Display for ApiKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// Row in [`APIS`] of each key; unused keys hold 0 and are never looked up.
const ROWS: [u8; 128] = {
    let mut rows = [0; 128];
    let mut row = 0;
    while row < APIS.len() {
        rows[APIS[row].key as usize] = row as u8;
        row += 1;
    }
    rows
};

#[cfg(test)]
mod tests;
