//! Progress of moves until they end: partitions and bytes that are left, rate and remaining time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::IsTerminal as _;
use std::thread;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use levada_client::{Cluster, Outage, TopicPartition};
use levada_terminal::failure::Failure;
use levada_terminal::output::counted;

use super::{Move, Ongoing, ongoing};
use crate::layout::{Directories, Layout, listed};
use crate::notices::Reporter;
use crate::{interrupt, sizes, time};

/// Intervals between two checks: the first and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Longest time without a response of any broker.
const OUTAGE_LIMIT: Duration = Duration::from_secs(120);

/// Time after the end of a move until a broker shows the new replicas.
const SHOWN_LIMIT: Duration = Duration::from_secs(5);

/// Time between two lines if stderr is not a terminal.
const LINES: Duration = Duration::from_secs(10);

/// Time over which the rate is an average.
const WINDOW: Duration = Duration::from_secs(15);

/// State of the moves at one time.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Sample {
    /// Number of partitions whose move has not ended.
    left: usize,
    /// Bytes that new replicas lack; `None` if a size is not known.
    left_bytes: Option<u64>,
}

/// Waits until these moves have ended; a loss of the connection and a change of the controller are
/// borne. Prints the progress on stderr.
///
/// # Errors
/// A partition has other replicas than its move wants, because another operator has
/// cancelled or replaced it; or a signal has come.
pub(crate) fn watch(cluster: &mut Cluster, moves: &[Move]) -> Result<(), Failure> {
    let mut told = Told::new(moves.len());
    let mut outage = Outage::none(Some(OUTAGE_LIMIT));
    let mut pause = FIRST_PAUSE;
    let mut ended: Option<Instant> = None;
    loop {
        let state = match look(cluster, moves) {
            Ok(state) => state,
            Err(failure) => {
                outage.bear(cluster, failure, &Reporter)?;
                continue;
            }
        };
        outage.over::<Failure>(&Reporter);
        let (layout, present, sample) = state;
        refuse_replaced(moves, &present)?;
        if sample.left == 0 {
            let waits = *ended.get_or_insert_with(Instant::now);
            let Err(failures) = arrived(moves, &layout) else {
                told.end();
                return Ok(());
            };
            if waits.elapsed() >= SHOWN_LIMIT {
                return Failure::all(failures);
            }
        } else {
            ended = None;
            told.tell(&sample, Instant::now());
        }
        if interrupt::is_asked() {
            return Err(Failure::Interrupted);
        }
        thread::sleep(pause);
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Bytes that the new replicas of these moves lack; `None` if a size is not known.
pub(crate) fn left_bytes(cluster: &mut Cluster, moves: &[Move]) -> Result<Option<u64>, Failure> {
    Ok(look(cluster, moves)?.2.left_bytes)
}

type State = (Layout, BTreeMap<TopicPartition, Ongoing>, Sample);

fn look(cluster: &mut Cluster, moves: &[Move]) -> Result<State, Failure> {
    let mut present = ongoing::ongoing(cluster)?;
    let wanted: BTreeSet<TopicPartition> = moves.iter().map(Move::place).collect();
    present.retain(|place, _| wanted.contains(place));
    let layout = Layout::ask(cluster)?;
    let asked: Vec<&TopicPartition> = present.keys().collect();
    let copies = present.iter().flat_map(|(place, one)| {
        let leader = layout.partitions.get(place).and_then(|placed| placed.leader);
        one.adding.iter().copied().chain(leader)
    });
    let serving = layout.serving();
    let brokers: BTreeSet<i32> = copies.filter(|id| serving.contains(id)).collect();
    let directories = Directories::ask(cluster, brokers, Some(&asked));
    let sample = Sample::of(&layout, &present, &directories.sizes());
    Ok((layout, present, sample))
}

impl Sample {
    pub(super) fn of(
        layout: &Layout,
        present: &BTreeMap<TopicPartition, Ongoing>,
        sizes: &BTreeMap<(TopicPartition, i32), u64>,
    ) -> Self {
        let lacks = present.iter().flat_map(|(place, one)| {
            let leader = layout.partitions.get(place).and_then(|placed| placed.leader);
            let in_sync =
                layout.partitions.get(place).map(|placed| placed.in_sync.clone()).unwrap_or_default();
            let size = |id: i32| sizes.get(&(place.clone(), id)).copied();
            let whole = leader.and_then(size);
            one.adding.iter().filter(move |id| !in_sync.contains(id)).map(move |id| {
                // A broker that has not created the replica yet does not list it.
                Some(whole?.saturating_sub(size(*id).unwrap_or(0)))
            })
        });
        Self { left: present.len(), left_bytes: lacks.sum() }
    }
}

/// Fails if the controller moves a partition to other brokers than the move wants.
fn refuse_replaced(moves: &[Move], present: &BTreeMap<TopicPartition, Ongoing>) -> Result<(), Failure> {
    for one in moves {
        let Some(ongoing) = present.get(&one.place()) else { continue };
        let target: BTreeSet<i32> = ongoing.target().into_iter().collect();
        if target != one.to.iter().copied().collect() {
            let Move { topic, partition, to, .. } = one;
            let (other, wanted) = (listed(target), listed(to.iter().copied()));
            return Err(Failure::with_next(
                format!(
                    "{topic}/{partition} moves to {other} and not to {wanted}: another operator has changed the move"
                ),
                "levada partition move --follow waits for all moves; ask the other operator",
            ));
        }
    }
    Ok(())
}

/// Failures of moves that have ended with other replicas.
pub(super) fn arrived(moves: &[Move], layout: &Layout) -> Result<(), Vec<Failure>> {
    let mut failures = Vec::new();
    for Move { topic, partition, to, .. } in moves {
        let present = layout.partitions.get(&(topic.clone(), *partition)).map(|placed| &placed.replicas);
        if present == Some(to) {
            continue;
        }
        let wanted = listed(to.iter().copied());
        let what = match present {
            None => format!("{topic}/{partition} was deleted during its move"),
            Some(other) => {
                let other = listed(other.iter().copied());
                format!("{topic}/{partition} has replicas {other} and not {wanted}: its move was cancelled")
            }
        };
        failures.push(Failure::with_next(
            what,
            "the other moves of the plan are not undone; the plan of --undo undoes them: levada partition move --plan",
        ));
    }
    if failures.is_empty() { Ok(()) } else { Err(failures) }
}

/// Lines about the progress, or a line on a terminal that changes.
struct Told {
    all: usize,
    bar: ProgressBar,
    samples: VecDeque<(Instant, u64)>,
    last_line: Option<Instant>,
}

impl Told {
    fn new(all: usize) -> Self {
        let bar = if std::io::stderr().is_terminal() {
            let style = ProgressStyle::with_template("{spinner} {msg}");
            ProgressBar::new_spinner().with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()))
        } else {
            ProgressBar::hidden()
        };
        Self { all, bar, samples: VecDeque::new(), last_line: None }
    }

    fn tell(&mut self, sample: &Sample, now: Instant) {
        if let Some(bytes) = sample.left_bytes {
            self.samples.push_back((now, bytes));
        }
        while self.samples.front().is_some_and(|(at, _)| now.duration_since(*at) > WINDOW) {
            self.samples.pop_front();
        }
        let line = line(self.all, sample, rate(&self.samples));
        if !self.bar.is_hidden() {
            self.bar.set_message(line);
            self.bar.tick();
        } else if self.last_line.is_none_or(|last| now.duration_since(last) >= LINES) {
            self.last_line = Some(now);
            tell!("{line}");
        }
    }

    fn end(&self) {
        self.bar.finish_and_clear();
    }
}

/// Bytes per second over the samples.
pub(super) fn rate(samples: &VecDeque<(Instant, u64)>) -> Option<u64> {
    let ((first, before), (last, after)) = (samples.front()?, samples.back()?);
    let seconds = last.duration_since(*first).as_secs_f64();
    let rate = before.saturating_sub(*after) as f64 / seconds;
    (seconds > 0.0 && rate >= 1.0).then_some(rate as u64)
}

/// The progress in a line.
pub(super) fn line(all: usize, sample: &Sample, rate: Option<u64>) -> String {
    let done = all.saturating_sub(sample.left);
    let mut line =
        format!("{done} of {}", counted(all as u64, "partition has moved", "partitions have moved"));
    if let Some(bytes) = sample.left_bytes {
        line = format!("{line}; {} left", sizes::shown(Some(bytes)));
        if let Some(rate) = rate {
            let left_ms = i64::try_from(bytes.saturating_mul(1000) / rate).unwrap_or(i64::MAX);
            line = format!("{line}, {}/s, about {}", sizes::shown(Some(rate)), time::shown_duration(left_ms));
        }
    }
    line
}
