//! Requests about offsets beyond commit and lookup: commits inside transactions, the end of a
//! transaction, removal.

use super::{CommitTopic, CommittedTopic};
use crate::group::error::GroupError;
use crate::group::event::Producer;

/// TxnOffsetCommit. The caller has removed missing topics and topics without permission, and has
/// verified that the transaction is open and covers the group's partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TxnCommitRequest {
    /// The request's version, which decides between some error codes.
    pub api_version: i16,
    /// Id of the group.
    pub group_id: String,
    /// The member; empty below version 3.
    pub member_id: String,
    /// Name of a static member.
    pub group_instance_id: Option<String>,
    /// The generation or epoch in the request; -1 below version 3.
    pub generation: i32,
    /// Producer of the transaction that contains the commit.
    pub producer: Producer,
    /// Offsets to store if the transaction commits.
    pub topics: Vec<CommitTopic>,
}

impl TxnCommitRequest {
    /// True if the request names the member. Old versions, and producers without a consumer, do
    /// not.
    pub fn names_member(&self) -> bool {
        self.generation >= 0 || !self.member_id.is_empty() || self.group_instance_id.is_some()
    }
}

/// The end of a transaction in one partition: its marker is to be written. In a group coordinator's
/// partition, pending commits become valid or are dropped with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndTxnRequest {
    /// Producer of the ending transaction; the marker has this epoch.
    pub producer: Producer,
    /// The epoch of the transaction coordinator that decided.
    pub coordinator_epoch: i32,
    /// True to commit, false to abort.
    pub commit: bool,
    /// The version of the transaction protocol: from 2 on the marker raises the producer's epoch.
    pub transaction_version: u8,
}

/// Response to [`EndTxnRequest`]: the marker is in the log.
pub type EndTxnOutcome = Result<(), GroupError>;

/// OffsetDelete. The caller has already removed topics that do not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetDeleteRequest {
    /// Id of the group.
    pub group_id: String,
    /// Topics and partitions whose offsets are to be removed.
    pub topics: Vec<(String, Vec<i32>)>,
}

/// Response to [`OffsetDeleteRequest`]; a partition without an offset is not an error.
pub type OffsetDeleteOutcome = Result<Vec<CommittedTopic>, GroupError>;
