//! The situations of Kafka's integration tests of tiered storage, each under a leader of either
//! kind: one Java broker and two of Levada share a store, and each case runs with the Java broker
//! as the first replica and one of Levada as the second, and again the other way round. Each read
//! goes through the leader, and returns the batches that were acknowledged, byte for byte; the
//! store has the same batches. At the end of a case the replicas lead in turn, and serve what the
//! other kind has copied.
//!
//! | Kafka's class (4.3.1) | Case |
//! |---|---|
//! | AlterLogDirTest | `log_dir` |
//! | BaseDeleteSegmentsTest, DeleteSegmentsByRetentionSizeTest | `retention_bytes` |
//! | DeleteSegmentsByRetentionTimeTest | `retention_ms` |
//! | DeleteSegmentsDueToLogStartOffsetBreachTest | `deleted_records` |
//! | DeleteTopicTest | `deleted_topic` |
//! | DisableRemoteLogOnTopicTest | `disabled` |
//! | EnableRemoteLogOnTopicTest | `enabled` |
//! | FetchFromLeaderWithCorruptedCheckpointTest | `lost_checkpoints` |
//! | ListOffsetsTest | `offsets` |
//! | OffloadAndConsumeFromLeaderTest | `restart` |
//! | OffloadAndTxnConsumeFromLeaderTest | `committed_reads` |
//! | PartitionsExpandTest | `more_partitions` |
//! | BaseReassignReplicaTest, ReassignReplicaExpandTest | `more_replicas` |
//! | ReassignReplicaMoveTest | `moved_replica` |
//! | ReassignReplicaShrinkTest | `fewer_replicas` |
//! | RollAndOffloadActiveSegmentTest | `rolled_segment` |
//! | TransactionsWithTieredStoreTest | `transactions` |
//!
//! The suite `tiered_cluster` has segments of 1 MiB, a third replica that begins after the store's
//! part, and unclean elections. Of the last class, the tests of time-outs and producer epochs while
//! brokers are down are left out: their clients fail before the store is involved.
//!
//! Suite: soak; 600 s; needs java, kcat, tiers
//! Soak: scale 1

mod cases;
mod ledger;
mod stage;
mod steps;
mod transactions;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use levada_tests::cluster::{KAFKA, LEVADA};

use cases::CASES;
use stage::Stage;
use steps::Run;

/// First and second replica of the two runs of a case. Both brokers of Levada take part.
const ORDERS: [[i32; 2]; 2] = [[KAFKA, LEVADA], [LEVADA + 1, KAFKA]];

/// A case by its name: its run with these brokers as first and second replica.
type Case<'a> = (&'a str, &'a dyn Fn(&mut Stage, [i32; 2]));

/// Runs cases on one cluster, each under both orders, and fails with the names of all that failed.
fn run_all(stage: &mut Stage, cases: &[Case<'_>]) {
    let mut failed = Vec::new();
    for (name, run) in cases {
        for order in ORDERS {
            println!("---- {name}: {} leads first", order[0]);
            let start = Instant::now();
            // A case has topics of its own.
            let outcome = catch_unwind(AssertUnwindSafe(|| run(stage, order)));
            println!("---- {name}: {:.1} s", start.elapsed().as_secs_f64());
            if outcome.is_err() {
                failed.push(format!("{name} under {}", order[0]));
                stage.start_all();
            }
        }
    }
    assert!(failed.is_empty(), "{} cases failed: {failed:?}", failed.len());
    stage.cluster.assert_no_errors();
}

#[test]
fn tiered_cases_pass_with_kafka_and_levada_leaders() {
    let Some(mut stage) = Stage::start(&[]) else { return };
    let table: Vec<_> = CASES
        .iter()
        .map(|case| {
            let run = move |stage: &mut Stage, order| Run::new(stage, case.name, order).run(case.steps);
            (case.name, run)
        })
        .collect();
    let all: Vec<Case<'_>> = table.iter().map(|(name, run)| (*name, run as _)).collect();
    run_all(&mut stage, &all);
}

#[test]
fn tiered_transactions_work_with_kafka_and_levada_leaders() {
    // The cache of Kafka's broker holds the indexes of one segment.
    let small = [("remote.log.index.file.cache.total.size.bytes", "1")];
    let Some(mut stage) = Stage::start(&small) else { return };
    run_all(&mut stage, &transactions::CASES);
}
