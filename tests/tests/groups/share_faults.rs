//! A share group under faults: members accept, release, renew and hold records at random, brokers
//! and members are killed, and each record has a limited number of deliveries. In the end each
//! committed record must have been accepted, none may have come again after that, and the group has
//! no lag. The plan of faults follows from the seed.
//!
//! Suite: long; 40 s; needs java; share queues
//! Soak: lasts 25 s
//! Soak: controllers 3

use std::path::PathBuf;
use std::time::{Duration, Instant};

use levada_testing::{lasting, seed};
use levada_tests::cluster::Tools;
use levada_tests::share::ledger::Journals;
use levada_tests::share::{self, Members, Workers};
use levada_tests::tool::Conversation;
use levada_tests::{Node, await_some};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

const PARTITIONS: u32 = 3;
/// Number of processes with members.
const PROCESSES: usize = 2;
/// Number of members of a process, one of each kind.
const MEMBERS: usize = 3;
/// Duration of the run at scale 1.
const RUN: Duration = Duration::from_secs(25);
const LIMIT: Duration = Duration::from_secs(120);
/// Number of records accepted before the next fault.
const PROGRESS_RECORDS: u64 = 100;

struct Stage {
    node: Node,
    plan: StdRng,
    seeds: StdRng,
    writer: Conversation,
    workers: Vec<Workers>,
    /// Journals of all workers.
    journals: Vec<PathBuf>,
    /// Number of records accepted in processes that have ended.
    accepted: u64,
}

impl Stage {
    fn set(mut node: Node) -> Self {
        let (plan, mut seeds) = (StdRng::seed_from_u64(seed()), StdRng::seed_from_u64(!seed()));
        node.start();
        let mut members = Members::of(&node.bootstrap());
        members.run(&format!("topic {} {PARTITIONS}", share::TOPIC));
        members.run(&format!("config {} {}", share::GROUP, share::WORK_SETTINGS.join(" ")));
        let journal = node.scratch().join("writer");
        let writer = share::writer(&node.bootstrap(), PARTITIONS, seeds.random(), &journal);
        let mut stage =
            Self { node, plan, seeds, writer, workers: Vec::new(), journals: Vec::new(), accepted: 0 };
        for _ in 0..PROCESSES {
            let workers = stage.spawn();
            stage.workers.push(workers);
        }
        stage
    }

    fn spawn(&mut self) -> Workers {
        let journal = self.node.scratch().join(format!("workers-{}", self.journals.len()));
        self.journals.push(journal.clone());
        Workers::spawn(&self.node.bootstrap(), MEMBERS, self.seeds.random(), &journal)
    }

    fn count(&mut self) -> u64 {
        self.accepted + self.workers.iter_mut().map(Workers::accepted).sum::<u64>()
    }

    fn await_progress(&mut self) {
        let before = self.count();
        await_some("accepted records", LIMIT, || {
            self.node.assert_running("under faults");
            (self.count() >= before + PROGRESS_RECORDS).then_some(())
        });
    }

    fn disturb(&mut self) {
        let drawn = self.plan.random_range(0..10);
        println!("fault {drawn}, {} accepted", self.count());
        match drawn {
            0..4 => {
                self.node.kill();
                self.node.start();
            }
            4..6 => self.node.restart(),
            _ => {
                let which = self.plan.random_range(0..self.workers.len());
                let next = self.spawn();
                self.accepted += std::mem::replace(&mut self.workers[which], next).kill();
            }
        }
    }

    /// Ends all clients, and compares their journals.
    fn judge(mut self) {
        let writer_journal = self.node.scratch().join("writer");
        self.writer.finish(LIMIT);
        let mut tools = Tools::of(&self.node.bootstrap(), self.node.scratch());
        let tend = || self.workers.iter_mut().for_each(Workers::tend);
        share::await_no_lag(&mut tools, PARTITIONS, LIMIT, tend);
        for workers in self.workers {
            workers.finish(LIMIT);
        }
        self.node.kill();
        self.node.start();
        let mut members = Members::of(&self.node.bootstrap());
        members.run(&format!("open last {} {}", share::GROUP, share::TOPIC));
        members.assert_quiet("last");
        members.run(&format!("produce {} 0 last", share::TOPIC));
        assert_eq!(share::values(&members.await_poll("last")), ["last"]);
        let mut journals = Journals::default();
        journals.add_writer(&writer_journal);
        self.journals.iter().for_each(|path| journals.add_workers(path));
        journals.assert_sound(share::LIMIT_OF_WORK, share::MARGIN_US);
        self.node.stop();
    }
}

#[test]
fn share_records_are_accepted_under_faults() {
    let duration = lasting(RUN);
    let node = share::node()
        .option("transaction.abort.timed.out.transaction.cleanup.interval.ms", "500")
        .option("log.segment.bytes", "1048576")
        // Members of killed processes stay until their sessions end.
        .option("group.share.max.size", "1000");
    let mut stage = Stage::set(node);
    let start = Instant::now();
    while start.elapsed() < duration {
        stage.await_progress();
        stage.disturb();
    }
    stage.judge();
}
