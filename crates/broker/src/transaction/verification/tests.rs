//! Requests and answers, without a connection.

use levada_coordination::txn::request::ProducerIdentity;
use levada_coordination::txn::{TopicPartition, TxnError};
use levada_testing::growth;
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::AddPartitionsToTxnResponse;
use levada_wire::messages::add_partitions_to_txn_response::{
    AddPartitionsToTxnPartitionResult, AddPartitionsToTxnResult, AddPartitionsToTxnTopicResult,
};
use tokio::sync::oneshot;

use super::{Question, answers, combined, meaning};

fn question(id: &str, producer_epoch: i16, partition: i32) -> Question {
    Question {
        transactional_id: id.to_owned(),
        producer: ProducerIdentity { producer_id: 7, producer_epoch },
        adds: false,
        partition: TopicPartition { topic: "t".to_owned(), partition },
    }
}

#[test]
fn verification_request_has_one_transaction_per_id() {
    let adding = Question { adds: true, ..question("a", 0, 3) };
    let questions =
        [question("a", 0, 1), question("b", 5, 1), question("a", 0, 2), question("a", 1, 1), adding.clone()];
    let asked = questions.map(|question| (question, oneshot::channel().0));
    let (transactions, now, later) = combined(asked.into());
    let summary: Vec<_> = transactions
        .iter()
        .map(|one| (one.transactional_id.as_str(), one.producer_epoch, one.topics[0].partitions.clone()))
        .collect();
    assert_eq!(summary, [("a", 0, vec![1, 2]), ("b", 5, vec![1])]);
    assert!(transactions.iter().all(|one| one.verify_only));
    assert_eq!(now.len(), 3);
    let later: Vec<_> = later.into_iter().map(|(question, _)| question).collect();
    assert_eq!(later, [question("a", 1, 1), adding]);
}

#[test]
fn verification_response_may_lack_the_partition() {
    let mut partition = AddPartitionsToTxnPartitionResult::default();
    (partition.partition_index, partition.partition_error_code) = (1, 0);
    let mut topic = AddPartitionsToTxnTopicResult::default();
    (topic.name, topic.results_by_partition) = ("t".into(), vec![partition]);
    let mut result = AddPartitionsToTxnResult::default();
    (result.transactional_id, result.topic_results) = ("a".into(), vec![topic]);
    let mut answer = AddPartitionsToTxnResponse::default();
    answer.results_by_transaction = vec![result];
    assert_eq!(answers(7, Some(&answer))(("a", "t", 1)), Ok(()));
    for key in [("a", "t", 2), ("b", "t", 1), ("a", "u", 1)] {
        assert_eq!(answers(7, Some(&answer))(key), Err(TxnError::CoordinatorNotAvailable));
    }
    assert_eq!(answers(7, None)(("a", "t", 1)), Err(TxnError::CoordinatorNotAvailable));
    answer.error_code = ErrorCode::ClusterAuthorizationFailed.code();
    assert_eq!(answers(7, Some(&answer))(("a", "t", 1)), Err(TxnError::InvalidTxnState));
}

#[test]
fn verification_error_codes_map_to_transaction_errors() {
    for code in [ErrorCode::CoordinatorNotAvailable, ErrorCode::UnknownTopicOrPartition] {
        assert_eq!(meaning(code.code()), Err(TxnError::CoordinatorNotAvailable));
    }
    assert_eq!(meaning(ErrorCode::NotCoordinator.code()), Err(TxnError::NotCoordinator));
    assert_eq!(meaning(ErrorCode::ProducerFenced.code()), Err(TxnError::ProducerFenced));
    assert_eq!(meaning(ErrorCode::TransactionAbortable.code()), Err(TxnError::TransactionAbortable));
    assert_eq!(meaning(0), Ok(()));
}

#[test]
fn verification_request_cost_is_linear() {
    let growth = growth(2_000, |questions| {
        let asked = (0..questions as i32).map(|at| {
            let partition = TopicPartition { topic: format!("t{}", at / 2), partition: at };
            (Question { partition, ..question("a", 0, 0) }, oneshot::channel().0)
        });
        let asked = asked.collect();
        move || {
            let (transactions, now, _) = combined(asked);
            assert_eq!((transactions[0].topics.len(), now.len()), (questions / 2, questions));
        }
    });
    assert!(growth < 24.0, "{growth}");
}
