//! Time of a record from its producer to the member of a share group that acquires it: with many
//! members in one group, and with many groups.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use levada_base::batch::{BatchView, Builder};
use levada_wire::messages::share_fetch_response::PartitionData;

use crate::error::LabError;
use crate::experiments::broker::Systems;
use crate::experiments::broker::harness::connection::Connection;
use crate::experiments::broker::harness::frames::{self, TopicPartition};
use crate::experiments::broker::harness::node::Node;
use crate::experiments::broker::harness::share::{self, FetchLimits, Member};
use crate::experiments::broker::harness::topic;
use crate::harness::bench::Bench;
use crate::harness::pace::{self, FixedRate, Latencies, joined};
use crate::harness::process::Spent;
use crate::harness::program::allow_descriptors;
use crate::method::experiment::{Case, Experiment, Metrics, Outcome, Pass};
use crate::record::{Metric, Verdict};

const RECORD_LEN: usize = 1024;

/// Limits of a fetch, as in Kafka's consumer by default.
const LIMITS: FetchLimits = FetchLimits { max_bytes: 50 << 20, max_records: 500, max_wait_ms: 500 };

/// Time to wait for records that are late.
const PATIENCE: Duration = Duration::from_secs(20);

/// Share of the records at the beginning that does not count, from 0 to 1.
const WARM_UP: f64 = 0.1;

/// Number of groups and members, and the rate of the records that every group receives.
#[derive(Debug, Clone, Copy)]
struct Crowd {
    groups: usize,
    /// Number of members of each group.
    members: usize,
    partitions: i32,
    /// Records per second.
    per_second: f64,
}

impl Crowd {
    fn all(bench: &Bench) -> [Self; 2] {
        let scale = bench.scale();
        let members = scale.choose(20, 1_000, 1_000, 1_000);
        let groups = scale.choose(5, 100, 100, 100);
        [
            Self { groups: 1, members, partitions: 10, per_second: 200.0 },
            Self { groups, members: 1, partitions: 1, per_second: 10.0 },
        ]
    }

    fn topic(&self) -> &'static str {
        if self.groups == 1 { "share-members" } else { "share-groups" }
    }

    fn name(&self) -> String {
        match self.groups {
            1 => format!("{} members of one group, {} partitions", self.members, self.partitions),
            groups => format!("{groups} groups of one member, one partition"),
        }
    }
}

/// A broker and the members of each crowd.
#[derive(Debug)]
struct Subject {
    node: Node,
    crowds: Vec<(Crowd, Vec<Member>)>,
}

/// The experiment, with its brokers.
#[derive(Debug)]
pub struct ShareMembers<'b> {
    bench: &'b Bench,
    subjects: Vec<Subject>,
}

impl<'b> ShareMembers<'b> {
    /// Starts the brokers and lets all members join.
    ///
    /// # Errors
    /// A broker does not start or refuses a request, or this process may not open a connection for
    /// each member.
    pub fn new(bench: &'b Bench, systems: &Systems) -> Result<Self, LabError> {
        let crowds = Crowd::all(bench);
        let members: usize = crowds.iter().map(|crowd| crowd.groups * crowd.members).sum();
        allow_descriptors((members * systems.all().len()) as u64 + 200)?;
        let subject = |node: Node| {
            let crowd = |crowd: Crowd| {
                topic::create(&node, crowd.topic(), crowd.partitions, &[])?;
                let join = |number| {
                    share::join(&node, &format!("{}-{number}", crowd.topic()), crowd.topic(), crowd.members)
                };
                let groups = (0..crowd.groups).map(join).collect::<Result<Vec<_>, LabError>>()?;
                Ok((crowd, groups.into_iter().flatten().collect()))
            };
            let crowds = crowds.into_iter().map(crowd).collect::<Result<_, LabError>>()?;
            Ok(Subject { node, crowds })
        };
        let nodes = super::started_with(bench, systems, &share::SETTINGS)?;
        let subjects = nodes.into_iter().map(subject).collect::<Result<_, LabError>>()?;
        Ok(Self { bench, subjects })
    }

    /// Index of the subject of a case, and index of its crowd.
    fn find(&self, case: &Case) -> Option<(usize, usize)> {
        let at = self.subjects.iter().position(|subject| subject.node.system().label() == case.name)?;
        let crowds = self.subjects[at].crowds.iter();
        Some((at, crowds.map(|(crowd, _)| crowd.name()).position(|name| name == case.group)?))
    }
}

/// A load of records for one crowd.
struct Flow<'a> {
    crowd: Crowd,
    pace: FixedRate,
    /// Number of records.
    count: u64,
    /// Number of deliveries so far; `is_over` is true once the members need not wait for more.
    delivered: &'a AtomicU64,
    is_over: &'a AtomicBool,
}

impl Flow<'_> {
    /// Sends each record at its due time. Waits until every group has received all records, or
    /// until [`PATIENCE`] is over, and then sets `is_over`.
    fn produce(&self, node: &Node) -> Result<(), LabError> {
        let sent = self.send(node);
        let (start, all) = (Instant::now(), self.count * self.crowd.groups as u64);
        while sent.is_ok() && self.delivered.load(Ordering::Acquire) < all && start.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.is_over.store(true, Ordering::Release);
        sent
    }

    fn send(&self, node: &Node) -> Result<(), LabError> {
        let mut connection = Connection::open(node.address())?;
        let place = |number: u64| {
            let partition = i32::try_from(number % u64::from(self.crowd.partitions.unsigned_abs()));
            TopicPartition { topic: self.crowd.topic().to_owned(), partition: partition.unwrap_or_default() }
        };
        for number in 0..self.count {
            let mut value = [0; RECORD_LEN];
            value[RECORD_LEN - 8..].copy_from_slice(&number.to_be_bytes());
            let mut builder = Builder::new();
            builder.push(1_700_000_000_000, None, Some(&value));
            let batch = builder.build().map_err(LabError::step("cannot make a batch"))?;
            self.pace.wait(number);
            connection.send(&frames::produce(&place(number), batch.freeze(), 1)?)?;
        }
        (0..self.count)
            .try_for_each(|number| frames::produced(connection.receive(4)?, &place(number)).map(drop))
    }

    /// Fetches records until `is_over`. Each fetch acknowledges the records of the previous one.
    fn consume(&self, member: &mut Member) -> Result<Latencies, LabError> {
        let mut latencies = Latencies::new()?;
        while !self.is_over.load(Ordering::Acquire) {
            let response =
                member.fetch(LIMITS).inspect_err(|_| self.is_over.store(true, Ordering::Release))?;
            for data in response.responses.into_iter().flat_map(|topic| topic.partitions) {
                for number in acquired(&data) {
                    if number >= (self.count as f64 * WARM_UP) as u64 {
                        latencies.done(self.pace.due(number));
                    }
                    self.delivered.fetch_add(1, Ordering::AcqRel);
                }
            }
        }
        member.settle()?;
        Ok(latencies)
    }
}

/// Numbers of the acquired records in the response of a partition.
fn acquired(data: &PartitionData) -> Vec<u64> {
    let (mut numbers, mut records): (_, &[u8]) = (Vec::new(), &data.records);
    while let Ok(view) = BatchView::parse(records) {
        let is_acquired = data
            .acquired_records
            .iter()
            .any(|one| (one.first_offset..=one.last_offset).contains(&view.base_offset()));
        // The last byte of a batch is the number of headers; the value ends before it.
        let end = view.size_bytes() - 1;
        let number = records[..end].last_chunk().copied().map(u64::from_be_bytes);
        numbers.extend(number.filter(|_| is_acquired));
        records = &records[view.size_bytes()..];
    }
    numbers
}

impl Subject {
    /// Runs the load for `time`. Returns the latencies, and the actual and the expected number of
    /// deliveries.
    fn run(
        &mut self,
        bench: &Bench,
        (at, time): (usize, Duration),
    ) -> Result<(Latencies, u64, u64), LabError> {
        let (crowd, members) = &mut self.crowds[at];
        let (delivered, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
        let pace = FixedRate::new(Instant::now() + Duration::from_millis(100), crowd.per_second);
        let count = pace.count(time).max(1);
        let flow = Flow { crowd: *crowd, pace, count, delivered: &delivered, is_over: &is_over };
        let mut all = Latencies::new()?;
        let (node, flow) = (&self.node, &flow);
        std::thread::scope(|scope| {
            let consumes = |member| {
                scope.spawn(move || {
                    pace::settle(bench);
                    flow.consume(member)
                })
            };
            let consumers: Vec<_> = members.iter_mut().map(consumes).collect();
            let produces = scope.spawn(move || {
                pace::settle(bench);
                flow.produce(node)
            });
            for consumer in consumers {
                all.add(&joined(consumer.join())?)?;
            }
            joined(produces.join())
        })?;
        Ok((all, delivered.load(Ordering::Acquire), count * crowd.groups as u64))
    }
}

impl Experiment for ShareMembers<'_> {
    fn name(&self) -> &'static str {
        "broker-share-members"
    }

    fn shows(&self) -> String {
        format!(
            "time of a record of {RECORD_LEN} bytes from its due time to the member of a share group that acquires it, while all members \
             wait in fetches; records are acknowledged with the next fetch; and cost of the broker for each delivery"
        )
    }

    fn metrics(&self) -> Vec<Metric> {
        let own = [Metric::less("cpu_us_per_delivery", "broker CPU a delivery", "µs")];
        pace::metrics("acquire").chain(own).collect()
    }

    fn cases(&self) -> Vec<Case> {
        let case = |crowd: Crowd| {
            let of = move |subject: &Subject| {
                Case::new(crowd.name(), subject.node.system().label()).with("per_second", crowd.per_second)
            };
            self.subjects.iter().map(of).collect::<Vec<_>>()
        };
        Crowd::all(self.bench).into_iter().flat_map(case).collect()
    }

    fn run(&mut self, case: &Case, pass: Pass) -> Result<Outcome, LabError> {
        let Some((at, crowd)) = self.find(case) else {
            return Ok(Outcome::Skipped("no such broker".to_owned()));
        };
        let time = Duration::from_millis(self.bench.scale().choose(500, 2_000, 5_000, 20_000));
        let system = self.subjects[at].node.system();
        let _others = super::alone(self.subjects.iter().map(|subject| &subject.node), system);
        let subject = &mut self.subjects[at];
        let before = Spent::of(subject.node.pid());
        let (latencies, delivered, expected) = subject.run(self.bench, (crowd, time))?;
        let spent = Spent::since(subject.node.pid(), &before);
        if pass == Pass::Integrity {
            let what = format!("{delivered} of {expected} deliveries");
            return Ok(Outcome::Checked(Verdict { sound: delivered == expected, what }));
        }
        let mut metrics = Metrics::new();
        latencies.put("acquire", &mut metrics);
        metrics.insert("cpu_us_per_delivery".to_owned(), spent.as_secs_f64() * 1e6 / delivered.max(1) as f64);
        Ok(Outcome::Measured(metrics))
    }
}
