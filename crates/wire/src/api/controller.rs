//! The APIs that a broker requests from a KRaft controller or from another broker, in the versions
//! that Levada sends. No listener of Levada advertises them: [`APIS`](super::APIS) is the table of
//! what a broker serves.

use std::ops::RangeInclusive;

/// One row of [`CONTROLLER_APIS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControllerApi {
    /// The number on the wire.
    pub key: i16,
    /// Kafka's name of the API.
    pub name: &'static str,
    /// Lowest version that Levada sends.
    pub min: i16,
    /// Highest version that Levada sends: the highest of Kafka 4.3.1.
    pub max: i16,
}

macro_rules! controller_apis {
    ($($constant:ident = $key:literal $name:literal $min:literal ..= $max:literal;)*) => {
        $(#[doc = concat!("Row of ", $name, ".")]
        pub const $constant: ControllerApi =
            ControllerApi { key: $key, name: $name, min: $min, max: $max };)*

        /// Every API that a broker requests from a controller or from another broker, by key.
        pub const CONTROLLER_APIS: &[ControllerApi] = &[$($constant,)*];
    };
}

// Below version 13 a controller refuses to serve the metadata log; version 4 of the registration is
// the first in which a feature's lowest level may be 0. AddPartitionsToTxn has version 5 since
// Kafka 3.8; below it a partition cannot be added for a producer that changes its epoch with each
// transaction.
controller_apis! {
    PRODUCE = 0 "Produce" 9..=13;
    FETCH = 1 "Fetch" 13..=18;
    LIST_OFFSETS = 2 "ListOffsets" 7..=11;
    API_VERSIONS = 18 "ApiVersions" 0..=4;
    CREATE_TOPICS = 19 "CreateTopics" 2..=7;
    OFFSET_FOR_LEADER_EPOCH = 23 "OffsetForLeaderEpoch" 3..=4;
    ADD_PARTITIONS_TO_TXN = 24 "AddPartitionsToTxn" 5..=5;
    WRITE_TXN_MARKERS = 27 "WriteTxnMarkers" 1..=2;
    ALTER_PARTITION = 56 "AlterPartition" 2..=3;
    ENVELOPE = 58 "Envelope" 0..=0;
    FETCH_SNAPSHOT = 59 "FetchSnapshot" 0..=1;
    DESCRIBE_CLUSTER = 60 "DescribeCluster" 0..=2;
    BROKER_REGISTRATION = 62 "BrokerRegistration" 4..=4;
    BROKER_HEARTBEAT = 63 "BrokerHeartbeat" 0..=2;
    ALLOCATE_PRODUCER_IDS = 67 "AllocateProducerIds" 0..=0;
    ASSIGN_REPLICAS_TO_DIRS = 73 "AssignReplicasToDirs" 0..=0;
    INITIALIZE_SHARE_GROUP_STATE = 83 "InitializeShareGroupState" 0..=0;
    READ_SHARE_GROUP_STATE = 84 "ReadShareGroupState" 0..=0;
    WRITE_SHARE_GROUP_STATE = 85 "WriteShareGroupState" 0..=1;
    DELETE_SHARE_GROUP_STATE = 86 "DeleteShareGroupState" 0..=0;
    READ_SHARE_GROUP_STATE_SUMMARY = 87 "ReadShareGroupStateSummary" 0..=1;
}

impl ControllerApi {
    /// The versions that Levada sends.
    pub const fn versions(&self) -> RangeInclusive<i16> {
        self.min..=self.max
    }

    /// The highest version that both sides support, given the versions that the controller offers.
    pub fn best(&self, offered: RangeInclusive<i16>) -> Option<i16> {
        let best = self.max.min(*offered.end());
        (best >= self.min.max(*offered.start())).then_some(best)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_lies_within_the_codec() {
        for api in CONTROLLER_APIS {
            let mut descriptors = kafka_wire::API_DESCRIPTORS.iter();
            let codec = descriptors.find(|descriptor| descriptor.api_key.value() == api.key).unwrap();
            let supported = codec.supported_versions;
            assert!(supported.min().value() <= api.min, "{}", api.name);
            assert!(api.min <= api.max && api.max <= supported.max().value(), "{}", api.name);
        }
    }

    #[test]
    fn the_best_version_is_common_to_both() {
        assert_eq!(FETCH.best(4..=17), Some(17));
        assert_eq!(FETCH.best(4..=19), Some(18));
        assert_eq!(FETCH.best(4..=12), None);
        assert_eq!(FETCH.best(19..=20), None);
    }
}
