//! The fetching side of a fetch session (KIP-227): a full request opens one, and later requests
//! contain only changed and removed partitions.

use std::collections::BTreeMap;

use levada_wire::error_code::ErrorCode;
use levada_wire::fetch::FetchPartition;

use super::PartitionKey;

#[cfg(test)]
mod tests;

/// The epoch of a request that opens a session.
const FULL: i32 = 0;

/// A session with one leader.
#[derive(Debug, Default)]
pub struct Session {
    id: i32,
    epoch: i32,
    asked: BTreeMap<PartitionKey, FetchPartition>,
}

/// The session part of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRequest {
    /// The session, 0 for none.
    pub id: i32,
    /// The number of the request in the session; 0 opens a session.
    pub epoch: i32,
    /// Partitions that the request names, in the order of the caller.
    pub send: Vec<(PartitionKey, FetchPartition)>,
    /// Partitions to remove from the session.
    pub forget: Vec<PartitionKey>,
}

/// The session fields of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionAnswer {
    /// The error of the whole request.
    pub error_code: i16,
    /// The session, 0 for none.
    pub id: i32,
}

/// Reason to discard a fetch response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionFault {
    /// The leader has refused the request with this error code.
    Refused(i16),
    /// The response contains partitions that were not requested, or omits some.
    Partitions,
}

impl Session {
    /// The request for exactly these partitions.
    pub fn request(&mut self, wanted: Vec<(PartitionKey, FetchPartition)>) -> SessionRequest {
        let (id, epoch) = (self.id, self.epoch);
        let mut before = std::mem::take(&mut self.asked);
        let mut send = Vec::with_capacity(wanted.len());
        for (key, partition) in wanted {
            let is_known = before.remove(&key).is_some_and(|asked| asked == partition);
            if epoch == FULL || !is_known {
                send.push((key, partition.clone()));
            }
            self.asked.insert(key, partition);
        }
        let forget = if epoch == FULL { Vec::new() } else { before.into_keys().collect() };
        SessionRequest { id, epoch, send, forget }
    }

    /// The last request for a partition.
    pub fn asked(&self, key: &PartitionKey) -> Option<&FetchPartition> {
        self.asked.get(key)
    }

    /// Processes a response that contains these partitions.
    ///
    /// # Errors
    /// The response does not count; the next request opens a session.
    pub fn answered<'a>(
        &mut self,
        answer: SessionAnswer,
        partitions: impl ExactSizeIterator<Item = &'a PartitionKey>,
    ) -> Result<(), SessionFault> {
        if answer.error_code != ErrorCode::None.code() {
            if answer.error_code == ErrorCode::FetchSessionIdNotFound.code() {
                self.id = 0;
            }
            self.epoch = FULL;
            return Err(SessionFault::Refused(answer.error_code));
        }
        let (count, mut partitions) = (partitions.len(), partitions);
        let is_complete = self.epoch != FULL || count == self.asked.len();
        if !is_complete || !partitions.all(|key| self.asked.contains_key(key)) {
            self.epoch = FULL;
            return Err(SessionFault::Partitions);
        }
        // Session 0: the leader has no room for one, or the session was closed.
        self.id = answer.id;
        self.epoch = match answer.id {
            0 => FULL,
            _ => self.epoch.checked_add(1).unwrap_or(1),
        };
        Ok(())
    }

    /// Records that a response did not arrive. The next request opens a session, and ends this one
    /// if the leader still has it.
    pub fn lost(&mut self) {
        self.epoch = FULL;
    }
}
