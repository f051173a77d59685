//! Acknowledgements of acquired records, and the end of sessions.

use levada_wire::StrBytes;
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::share_acknowledge_response::PartitionData;
use levada_wire::messages::{ShareAcknowledgeRequest, ShareAcknowledgeResponse};

use super::session::{CLOSING, Place};
use super::{AcquiredRecord, JOINING, LEAVING, ShareMember, WITH_LIMITS, send};
use crate::cluster::Cluster;
use crate::error::ClientError;
use crate::refusal::{Operation, Refusal};

/// Acknowledgement that renews a lock.
const RENEW: i8 = 4;

/// The decision about an acquired record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acknowledgement {
    /// The record is processed: it is not delivered again.
    Accept = 1,
    /// Makes the record available again, for any member.
    Release = 2,
    /// The record cannot be processed: it is not delivered again.
    Reject = 3,
}

/// Acknowledgements of a partition without effect: the locks had expired, so that the records are
/// delivered again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostAcknowledgement {
    /// The topic's name.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// Kafka's error code, never 0.
    pub code: i16,
}

impl ShareMember {
    /// Notes the decision about a record. The next fetch sends it, or [`ShareMember::flush`].
    /// Without effect if the session that acquired the record is over: the leader has released it.
    pub fn acknowledge(&mut self, record: &AcquiredRecord, decision: Acknowledgement) {
        let topic = self.topics.iter().find(|(_, name)| **name == record.topic).map(|(id, _)| *id);
        let (node, number) = record.session;
        let session = self.sessions.get_mut(&node).filter(|session| session.number == number);
        if let (Some(topic), Some(session)) = (topic, session) {
            session.acknowledge((topic, record.partition), record.offset, decision as i8);
        } else {
            let (topic, partition) = (record.topic.clone(), record.partition);
            let code = ErrorCode::InvalidRecordState.code();
            self.lost.push(LostAcknowledgement { topic, partition, code });
        }
    }

    /// Renews the lock of a record, if the leader's version can do so.
    ///
    /// # Errors
    /// The leader does not respond, or refuses.
    pub fn renew(&mut self, cluster: &mut Cluster, record: &AcquiredRecord) -> Result<(), ClientError> {
        let (node, number) = record.session;
        let topic = self.topics.iter().find(|(_, name)| **name == record.topic).map(|(id, _)| *id);
        let session = self.sessions.get_mut(&node).filter(|session| session.number == number);
        let (Some(topic), Some(session)) = (topic, session) else { return Ok(()) };
        if cluster.broker(node)?.best_version::<ShareAcknowledgeRequest>()? < WITH_LIMITS {
            return Ok(());
        }
        session.acknowledge((topic, record.partition), record.offset, RENEW);
        self.send_acknowledgements(cluster, node, (None, true))
    }

    /// Sends the acknowledgements that are due, and waits until they have taken effect.
    ///
    /// # Errors
    /// A leader does not respond, or refuses the member. Refused acknowledgements are in
    /// [`ShareMember::take_lost`].
    pub fn flush(&mut self, cluster: &mut Cluster) -> Result<(), ClientError> {
        let due = self.sessions.iter().filter(|(_, session)| session.has_due() && !session.is_opening());
        let nodes: Vec<i32> = due.map(|(node, _)| *node).collect();
        nodes.into_iter().try_for_each(|node| self.send_acknowledgements(cluster, node, (None, false)))
    }

    /// Sends all that is due, and leaves the group: records that the member has not acknowledged
    /// are released.
    ///
    /// # Errors
    /// Same as [`ShareMember::flush`].
    pub fn leave(&mut self, cluster: &mut Cluster) -> Result<(), ClientError> {
        let open = self.sessions.iter().filter(|(_, session)| !session.is_opening());
        let nodes: Vec<i32> = open.map(|(node, _)| *node).collect();
        let mut closed = Ok(());
        for node in nodes {
            closed = closed.and(self.send_acknowledgements(cluster, node, (Some(CLOSING), false)));
        }
        self.sessions.clear();
        if self.epoch > JOINING {
            // Without a response, the session's end does the same.
            let _ = self.heartbeat(cluster, LEAVING);
        }
        closed
    }

    pub(super) fn send_acknowledgements(
        &mut self,
        cluster: &mut Cluster,
        node: i32,
        (epoch, renews): (Option<i32>, bool),
    ) -> Result<(), ClientError> {
        let Some(session) = self.sessions.get(&node) else { return Ok(()) };
        let mut request = ShareAcknowledgeRequest::default();
        request.group_id = Some(StrBytes::from(self.group.as_str()));
        request.member_id = Some(StrBytes::from(self.id.as_str()));
        request.share_session_epoch = epoch.unwrap_or(session.epoch());
        request.is_renew_ack = renews;
        request.topics = session.acknowledged();
        let sent = send(cluster, node, |_| request);
        let response: ShareAcknowledgeResponse = sent.inspect_err(|_| drop(self.sessions.remove(&node)))?;
        self.check_session(node, response.error_code, response.error_message.as_deref())?;
        if let Some(session) = self.sessions.get_mut(&node).filter(|_| response.error_code == 0) {
            session.sent();
        }
        for topic in response.responses {
            for PartitionData { partition_index, error_code, .. } in topic.partitions {
                self.note_lost((topic.topic_id, partition_index), error_code);
            }
        }
        Ok(())
    }

    /// Fails for the error code of a whole response. If the leader does not know the session, the
    /// next fetch opens a new one.
    pub(super) fn check_session(
        &mut self,
        node: i32,
        code: i16,
        message: Option<&str>,
    ) -> Result<(), ClientError> {
        const OVER: [ErrorCode; 2] = [ErrorCode::ShareSessionNotFound, ErrorCode::InvalidShareSessionEpoch];
        if code == 0 {
            return Ok(());
        }
        let session = self.sessions.remove(&node);
        if ErrorCode::of_code(code).is_some_and(|code| OVER.contains(&code)) {
            let due = session.map(|session| session.acknowledged()).unwrap_or_default();
            let topics =
                due.iter().flat_map(|topic| topic.partitions.iter().map(|one| (topic.topic_id, one)));
            topics.for_each(|(topic, one)| self.note_lost((topic, one.partition_index), code));
            return Ok(());
        }
        let operation = || Operation::Share { group: self.group.clone() };
        let refused = Refusal::check(code, message, operation).map_err(ClientError::from);
        self.heed(refused)
    }

    /// Acknowledgements without effect since the last call.
    pub fn take_lost(&mut self) -> Vec<LostAcknowledgement> {
        std::mem::take(&mut self.lost)
    }

    pub(super) fn note_lost(&mut self, place: Place, code: i16) {
        if code != 0 {
            let (topic, partition) = (self.name(place.0), place.1);
            self.lost.push(LostAcknowledgement { topic, partition, code });
        }
    }
}
