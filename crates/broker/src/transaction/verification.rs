//! Requests to transaction coordinators on other brokers: verification that a transaction covers
//! partitions of this broker, and additions of partitions. Verifications that arrive while a node
//! has a request in flight share the next request.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use levada_coordination::txn::destinations::Queues;
use levada_coordination::txn::request::ProducerIdentity;
use levada_coordination::txn::{TopicPartition, TxnError};
use levada_wire::StrBytes;
use levada_wire::api::controller;
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::add_partitions_to_txn_request::{
    AddPartitionsToTxnTopic, AddPartitionsToTxnTransaction,
};
use levada_wire::messages::{AddPartitionsToTxnRequest, AddPartitionsToTxnResponse};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::peers::{Peer, PeerRequests, Subject};

/// A claim of a producer that its transaction covers a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Question {
    pub(super) transactional_id: String,
    pub(super) producer: ProducerIdentity,
    /// True to add the partition to the transaction if it is not part of it.
    pub(super) adds: bool,
    pub(super) partition: TopicPartition,
}

type Asked = (Question, oneshot::Sender<Result<(), TxnError>>);

/// Questions to coordinators on other brokers.
pub(super) struct RemoteVerification {
    peers: Arc<PeerRequests>,
    queues: Mutex<Queues<Asked>>,
}

impl RemoteVerification {
    pub(super) fn new(peers: Arc<PeerRequests>) -> Self {
        Self { peers, queues: Mutex::default() }
    }

    /// Sends the verification to the coordinator on this node.
    ///
    /// # Errors
    /// The transaction does not cover the partition, or the coordinator does not respond.
    pub(super) async fn ask(self: &Arc<Self>, node: i32, question: Question) -> Result<(), TxnError> {
        let (sender, answer) = oneshot::channel();
        self.queues.lock().push(node, (question, sender));
        self.send();
        answer.await.unwrap_or(Err(TxnError::CoordinatorNotAvailable))
    }

    /// Builds the requests whose nodes have no request in flight.
    fn send(self: &Arc<Self>) {
        // The lock is not held for a call: for a node that cannot be reached the response comes at
        // once.
        while let Some((node, asked)) = self.next() {
            let this = self.clone();
            let call = move |peer: Option<Peer<'_>>| {
                this.make(node, asked, peer);
                this.send();
            };
            self.peers.call(node, Subject::Verification, Box::new(call));
        }
    }

    fn next(&self) -> Option<(i32, Vec<Asked>)> {
        self.queues.lock().take_next()
    }

    fn make(&self, node: i32, asked: Vec<Asked>, peer: Option<Peer<'_>>) {
        let _turn = Turn { queues: &self.queues, node };
        let (transactions, asked, later) = combined(asked);
        let mut request = AddPartitionsToTxnRequest::default();
        request.transactions = transactions;
        let answer = peer.and_then(|peer| peer.ask(controller::ADD_PARTITIONS_TO_TXN, |_| request));
        let answers = answers(node, answer.as_ref());
        for (question, sender) in asked {
            let Question { transactional_id, partition, .. } = question;
            let key = (transactional_id.as_str(), partition.topic.as_str(), partition.partition);
            // The connection of the request may have closed.
            let _ = sender.send(answers(key));
        }
        let mut queues = self.queues.lock();
        later.into_iter().for_each(|asked| queues.push(node, asked));
    }
}

/// The request to a node. The next one may be made when it has ended, also by a panic.
struct Turn<'a> {
    queues: &'a Mutex<Queues<Asked>>,
    node: i32,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.queues.lock().done(self.node);
    }
}

/// One transaction for each transactional id, which identifies it in the response, with its
/// verifications; then the verifications that wait for the next request, because they concern
/// another producer of the same id.
fn combined(asked: Vec<Asked>) -> (Vec<AddPartitionsToTxnTransaction>, Vec<Asked>, Vec<Asked>) {
    let mut transactions: Vec<AddPartitionsToTxnTransaction> = Vec::new();
    let mut places = HashMap::<String, usize>::new();
    let mut named = Named::default();
    let (mut now, mut later) = (Vec::new(), Vec::new());
    for (question, sender) in asked {
        let place = *places.entry(question.transactional_id.clone()).or_insert_with(|| {
            let mut transaction = AddPartitionsToTxnTransaction::default();
            transaction.transactional_id = StrBytes::from(question.transactional_id.as_str());
            transaction.producer_id = question.producer.producer_id;
            transaction.producer_epoch = question.producer.producer_epoch;
            transaction.verify_only = !question.adds;
            transactions.push(transaction);
            transactions.len() - 1
        });
        let transaction = &mut transactions[place];
        let is_same = transaction.producer_id == question.producer.producer_id
            && transaction.producer_epoch == question.producer.producer_epoch
            && transaction.verify_only != question.adds;
        if !is_same {
            later.push((question, sender));
            continue;
        }
        named.add(place, transaction, &question.partition);
        now.push((question, sender));
    }
    (transactions, now, later)
}

/// Topics and partitions that a request names: each once.
#[derive(Default)]
struct Named {
    /// Indexes of the topics in their transactions.
    topics: HashMap<(usize, String), usize>,
    partitions: HashSet<(usize, usize, i32)>,
}

impl Named {
    /// Adds a partition to the transaction with this index in the request.
    fn add(
        &mut self,
        at: usize,
        transaction: &mut AddPartitionsToTxnTransaction,
        partition: &TopicPartition,
    ) {
        let topics = &mut transaction.topics;
        let place = *self.topics.entry((at, partition.topic.clone())).or_insert_with(|| {
            let mut topic = AddPartitionsToTxnTopic::default();
            topic.name = StrBytes::from(partition.topic.as_str());
            topics.push(topic);
            topics.len() - 1
        });
        if self.partitions.insert((at, place, partition.partition)) {
            topics[place].partitions.push(partition.partition);
        }
    }
}

/// The result of each verification, identified by transactional id, topic and partition.
fn answers<'a>(
    node: i32,
    answer: Option<&'a AddPartitionsToTxnResponse>,
) -> impl Fn((&str, &str, i32)) -> Result<(), TxnError> + use<'a> {
    let mut codes = HashMap::new();
    for transaction in answer.into_iter().flat_map(|answer| &answer.results_by_transaction) {
        for topic in &transaction.topic_results {
            for partition in &topic.results_by_partition {
                let id = transaction.transactional_id.as_str();
                let key = (id, topic.name.as_str(), partition.partition_index);
                codes.insert(key, partition.partition_error_code);
            }
        }
    }
    let whole = answer.map(|answer| answer.error_code);
    if whole == Some(ErrorCode::ClusterAuthorizationFailed.code()) {
        tracing::warn!(
            node,
            "a transaction coordinator refused AddPartitionsToTxn (CLUSTER_AUTHORIZATION_FAILED): this broker's \
             principal needs CLUSTER_ACTION on the cluster; add it to super.users"
        );
    }
    move |key| match whole {
        None => Err(TxnError::CoordinatorNotAvailable),
        // As in Kafka: the client must not hear of the authorization.
        Some(code) if code == ErrorCode::ClusterAuthorizationFailed.code() => Err(TxnError::InvalidTxnState),
        Some(0) => codes.get(&key).map_or(Err(TxnError::CoordinatorNotAvailable), |code| meaning(*code)),
        Some(code) => meaning(code),
    }
}

/// The error of a coordinator as a partition understands it.
fn meaning(code: i16) -> Result<(), TxnError> {
    Err(match ErrorCode::of_code(code) {
        Some(ErrorCode::None) => return Ok(()),
        Some(ErrorCode::CoordinatorLoadInProgress) => TxnError::CoordinatorLoadInProgress,
        Some(ErrorCode::NotCoordinator) => TxnError::NotCoordinator,
        Some(ErrorCode::InvalidProducerIdMapping) => TxnError::InvalidProducerIdMapping,
        Some(ErrorCode::ProducerFenced) => TxnError::ProducerFenced,
        Some(ErrorCode::InvalidProducerEpoch) => TxnError::InvalidProducerEpoch,
        Some(ErrorCode::ConcurrentTransactions) => TxnError::ConcurrentTransactions,
        Some(ErrorCode::InvalidTxnState) => TxnError::InvalidTxnState,
        Some(ErrorCode::TransactionAbortable) => TxnError::TransactionAbortable,
        Some(ErrorCode::TransactionalIdNotFound) => TxnError::TransactionalIdNotFound,
        // A coordinator that does not know the partition yet is behind in the metadata.
        Some(
            ErrorCode::CoordinatorNotAvailable
            | ErrorCode::UnknownTopicOrPartition
            | ErrorCode::OperationNotAttempted
            | ErrorCode::RequestTimedOut,
        ) => TxnError::CoordinatorNotAvailable,
        _ => TxnError::UnknownServerError,
    })
}

#[cfg(test)]
mod tests;
