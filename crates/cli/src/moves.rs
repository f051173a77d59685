//! Moves of replicas between brokers: a plan, its checks, the requests, the throttle, and the
//! progress until the replicas are where the plan says.

mod checks;
mod elections;
mod ongoing;
mod plan;
mod progress;
#[cfg(test)]
mod tests;
mod throttle;

use std::io::Write;
use std::path::PathBuf;

use levada_client::{Cluster, TopicPartition};
use levada_terminal::failure::Failure;
use levada_terminal::output::{self, Format, FormatArgs, counted};
use serde::Serialize;

pub(crate) use self::checks::least_in_sync;
pub(crate) use self::elections::{Election, elect};
pub(crate) use self::ongoing::{Ongoing, cancel, ongoing};
pub(crate) use self::plan::{of_ongoing, read_plan};
pub(crate) use self::progress::{left_bytes, watch};
pub(crate) use self::throttle::remove_leftovers;
use crate::layout::{Layout, listed};
use crate::{interrupt, sizes};

/// New replicas of a partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Move {
    pub(crate) topic: String,
    pub(crate) partition: i32,
    /// Replicas before the move, broker ids.
    pub(crate) from: Vec<i32>,
    /// New replicas, the preferred leader first.
    pub(crate) to: Vec<i32>,
    /// Bytes of one replica; `None` if they are not known.
    pub(crate) bytes: Option<u64>,
}

/// Options of commands that move replicas.
#[derive(Debug, clap::Args)]
pub(crate) struct MoveArgs {
    /// Carry out the plan
    #[arg(long)]
    execute: bool,
    /// Maximum bytes per second that each broker sends and receives for the moves, such as 50MiB
    #[arg(long, value_name = "SIZE", value_parser = sizes::bytes)]
    throttle: Option<u64>,
    /// Do not wait for the end of the moves; levada partition move --follow waits for it
    #[arg(long)]
    no_wait: bool,
    /// Write a plan that undoes the moves to a new file
    #[arg(long, value_name = "FILE")]
    undo: Option<PathBuf>,
    /// Also change partitions that move already, such as those of another operator
    #[arg(long)]
    overwrite: bool,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

/// A plan in the JSON output.
#[derive(Debug, Serialize)]
struct Report<'a> {
    executed: bool,
    /// True if all replicas are where the plan says; `None` if the command did not wait.
    complete: Option<bool>,
    moves: &'a [Move],
}

impl Move {
    pub(crate) fn place(&self) -> TopicPartition {
        (self.topic.clone(), self.partition)
    }

    /// Brokers that get a replica.
    pub(crate) fn adding(&self) -> impl Iterator<Item = i32> {
        self.to.iter().copied().filter(|id| !self.from.contains(id))
    }

    /// Number of bytes to copy.
    fn copied(&self) -> u64 {
        self.bytes.unwrap_or(0).saturating_mul(self.adding().count() as u64)
    }

    fn cells(&self) -> Vec<String> {
        let copied = self.bytes.map(|_| self.copied());
        vec![
            self.topic.clone(),
            self.partition.to_string(),
            listed(self.from.iter().copied()),
            listed(self.to.iter().copied()),
            sizes::shown(copied),
        ]
    }
}

impl MoveArgs {
    /// Handles signals from now on, if the command waits for moves: the first signal ends the wait.
    pub(crate) fn catch_signals(&self) -> Result<(), Failure> {
        if self.execute && !self.no_wait { interrupt::catch() } else { Ok(()) }
    }

    /// Prints the plan, and carries it out with `--execute`.
    pub(crate) fn carry_out(
        &self,
        cluster: &mut Cluster,
        (layout, moves): (&Layout, &[Move]),
        out: &mut dyn Write,
    ) -> Result<(), Failure> {
        checks::check(cluster, layout, moves)?;
        if self.execute && !moves.is_empty() {
            plan::check_way_back(self.undo.as_deref())?;
        }
        if self.format.format == Format::Table && !moves.is_empty() {
            output::table(out, &HEADER, moves.iter().map(Move::cells).collect())?;
            out.flush()?;
        }
        tell!("{}", summary(moves));
        if !self.execute || moves.is_empty() {
            if !moves.is_empty() {
                tell!("note: --execute carries out the plan");
            }
            return self.report(Some(moves.is_empty()).filter(|_| moves.is_empty()), moves, out);
        }
        self.refuse_overlap(cluster, moves)?;
        plan::keep_way_back(self.undo.as_deref(), moves)?;
        let throttle = match self.throttle {
            Some(rate) => Some(throttle::set(cluster, moves, rate)?),
            None => None,
        };
        let (started, mut failures) = ongoing::start(cluster, moves);
        let complete = if self.no_wait && !started.is_empty() {
            if throttle.is_some() {
                tell!("note: levada partition move --follow waits for the moves, and removes the throttle");
            }
            None
        } else {
            failures.extend(self.await_end(cluster, &started, throttle)?);
            Some(failures.is_empty())
        };
        let printed = self.report(complete, moves, out).and_then(|()| Ok(out.flush()?));
        // A closed pipe does not hide a failure.
        Failure::all(failures).and(printed)
    }

    /// Waits for the end of the moves, removes the throttle, and lets the first replicas lead.
    /// Fails if a signal has come; returns the failures of moves.
    fn await_end(
        &self,
        cluster: &mut Cluster,
        started: &[Move],
        throttle: Option<throttle::Throttle>,
    ) -> Result<Vec<Failure>, Failure> {
        let ended = if started.is_empty() { Ok(()) } else { progress::watch(cluster, started) };
        if matches!(ended, Err(Failure::Interrupted)) {
            tell!("the moves continue; levada partition move --follow shows them, --cancel cancels them");
            return Err(Failure::Interrupted);
        }
        let mut failures: Vec<Failure> = ended.err().into_iter().collect();
        if let Some(throttle) = throttle {
            failures.extend(throttle.remove(cluster).err());
        }
        if failures.is_empty() {
            elections::prefer(cluster, started)?;
        }
        Ok(failures)
    }

    /// Fails if a partition of the plan moves already.
    fn refuse_overlap(&self, cluster: &mut Cluster, moves: &[Move]) -> Result<(), Failure> {
        if self.overwrite {
            return Ok(());
        }
        let present = ongoing::ongoing(cluster)?;
        let Some((place, ongoing)) = moves.iter().find_map(|one| present.get_key_value(&one.place())) else {
            return Ok(());
        };
        Err(Failure::with_next(
            format!(
                "{}/{} is already moving to {}; nothing was changed",
                place.0,
                place.1,
                listed(ongoing.target())
            ),
            "levada partition move --follow waits for its end; --overwrite replaces its target",
        ))
    }

    fn report(&self, complete: Option<bool>, moves: &[Move], out: &mut dyn Write) -> Result<(), Failure> {
        match self.format.format {
            Format::Json => output::json(out, &Report { executed: self.execute, complete, moves }),
            Format::Table => {
                if complete == Some(true) && self.execute && !moves.is_empty() {
                    tell!("all replicas have moved");
                }
                Ok(())
            }
        }
    }
}

const HEADER: [&str; 5] = ["TOPIC", "PARTITION", "FROM", "TO", "TO COPY"];

/// The plan in a sentence.
fn summary(moves: &[Move]) -> String {
    if moves.is_empty() {
        return "nothing to move".to_owned();
    }
    let (copies, orders): (Vec<&Move>, Vec<&Move>) = moves.iter().partition(|one| one.adding().count() > 0);
    let bytes = copies.iter().map(|one| one.copied()).fold(0, u64::saturating_add);
    let known = if copies.iter().any(|one| one.bytes.is_none()) { "at least " } else { "" };
    format!(
        "{} to move, {known}{} to copy; {} without a copy",
        counted(copies.len() as u64, "partition", "partitions"),
        sizes::shown(Some(bytes)),
        counted(orders.len() as u64, "change", "changes"),
    )
}
