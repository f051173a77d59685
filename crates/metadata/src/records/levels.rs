//! The records and record versions of each `metadata.version`. A Kafka of that level reads no
//! others.

use super::body::Body;
use super::{BrokerRegistrationChangeRecord, Record};

/// 3.3-IV3: brokers report that they are shutting down.
const LEAVING: i16 = 7;
/// 3.4-IV0: registrations contain the state of a migration from ZooKeeper.
const MIGRATION: i16 = 8;
/// 3.6-IV1: metadata transactions.
pub const TRANSACTIONS: i16 = 13;
/// 3.6-IV2: delegation tokens.
pub const TOKENS: i16 = 14;
/// 3.7-IV0: controllers register.
const CONTROLLERS: i16 = 15;
/// 3.7-IV2: replicas have directories.
const DIRECTORIES: i16 = 17;
/// 4.0-IV1: eligible leaders.
const ELIGIBLE: i16 = 23;
/// 4.3-IV0: directories that take no new partitions.
const CORDONED: i16 = 30;
/// 4.4-IV2: controllers can be removed.
pub const GONE_CONTROLLERS: i16 = 33;

impl Record {
    /// The version in which this record is encoded at that `metadata.version`; none if it is not
    /// written at all.
    pub fn version_at(&self, level: i16) -> Option<u16> {
        match self {
            Self::RegisterBroker(_) => Some(match level {
                CORDONED.. => 4,
                DIRECTORIES.. => 3,
                MIGRATION.. => 2,
                LEAVING.. => 1,
                _ => 0,
            }),
            Self::Partition(_) | Self::PartitionChange(_) => Some(match level {
                ELIGIBLE.. => 2,
                DIRECTORIES.. => 1,
                _ => 0,
            }),
            Self::BrokerRegistrationChange(change) => registration_change(change, level),
            Self::RegisterController(_) => (level >= CONTROLLERS).then_some(0),
            Self::UnregisterController(_) => (level >= GONE_CONTROLLERS).then_some(0),
            Self::DelegationToken(_) | Self::RemoveDelegationToken(_) => (level >= TOKENS).then_some(0),
            Self::BeginTransaction(_) | Self::EndTransaction(_) | Self::AbortTransaction(_) => {
                (level >= TRANSACTIONS).then_some(0)
            }
            _ => Some(self.version()),
        }
    }
}

/// The lowest version that can contain the set fields, if the level has one.
fn registration_change(change: &BrokerRegistrationChangeRecord, level: i16) -> Option<u16> {
    let known = match level {
        CORDONED.. => 3,
        DIRECTORIES.. => 2,
        LEAVING.. => 1,
        _ => 0,
    };
    Some(change.version()).filter(|version| *version <= known)
}
