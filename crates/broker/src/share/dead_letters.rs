//! Dead letter queues (KIP-1191): records that a consumer has rejected, or that were delivered too
//! often, get a record in the topic that their group names. Then they are archived.
//!
//! A task for each entry writes its dead letters in rounds, a batch at a time. A batch that is not
//! written is repeated, each time after a longer pause; after the last attempt, or immediately if
//! another attempt would not help, the dead letters of the round are given up, and their records
//! archived without them. A leader that ends before has its successor write them again, so that a
//! record may have more than one dead letter.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use levada_base::Requester;
use levada_base::log_pace::LogPace;
use levada_coordination::share_partition::DeadLetter;
use levada_process::blocking::off_shard;
use levada_process::clock::{now_ms, steady_ms};
use levada_process::tasks::finished;

use crate::broker::Broker;
use crate::share::partitions::follow;
use crate::share_partitions::ShareEntry;

mod destination;
mod draft;
mod fault;
mod originals;
mod own;
mod sending;

use self::destination::Destination;
use self::draft::{Place, Source};
use self::fault::Fault;

/// Attempts for a batch.
const ATTEMPTS: u32 = 5;

/// Pause after the first attempt; each further one is twice as long.
const PAUSE: Duration = Duration::from_millis(if cfg!(test) { 1 } else { 2_000 });

/// Rate limit of log lines about dead letters that were abandoned.
static REFUSALS: LazyLock<LogPace> = LazyLock::new(LogPace::default);

/// Dead letters of an entry that are written together.
struct Round {
    letters: Arc<[DeadLetter]>,
    /// The next dead letter and offset to write.
    place: Place,
    /// Number of dead letters whose records can now be archived.
    done: usize,
}

impl Round {
    fn new(letters: Vec<DeadLetter>) -> Self {
        let place = Place::begin(&letters);
        Self { letters: letters.into(), place, done: 0 }
    }

    fn is_over(&self) -> bool {
        self.place.letter >= self.letters.len()
    }

    /// Skips the dead letters that are not written. Returns the number of their records.
    fn give_up(&mut self) -> u64 {
        let rest = &self.letters[self.place.letter..];
        let count = |letter: &DeadLetter| letter.last.abs_diff(letter.first.max(self.place.offset)) + 1;
        let records = rest.iter().map(count).sum();
        self.place.letter = self.letters.len();
        records
    }

    /// Offsets of the dead letters that were written or abandoned since the last call.
    fn take_done(&mut self) -> Vec<(i64, i64)> {
        let done = &self.letters[self.done..self.place.letter];
        self.done = self.place.letter;
        done.iter().map(|letter| (letter.first, letter.last)).collect()
    }
}

/// Writes the dead letters of an entry until none waits.
pub(super) async fn write(broker: Arc<Broker>, entry: Arc<ShareEntry>) {
    loop {
        let letters = match entry.next_letters() {
            Ok(letters) => letters,
            Err(is_retired) => {
                if is_retired {
                    broker.share_partitions().end_retired(&entry);
                }
                return;
            }
        };
        let (own, writing) = (broker.clone(), entry.clone());
        let round = async move { write_round(&own, &writing, Round::new(letters)).await };
        match finished("dead letters of a shared partition", round).await {
            Ok(Some(())) => {}
            // The thread ends.
            Ok(None) => return,
            Err(_) => {
                // The next entry loads the records that wait for their dead letters.
                broker.share_partitions().end(&entry);
                return;
            }
        }
    }
}

async fn write_round(broker: &Arc<Broker>, entry: &Arc<ShareEntry>, mut round: Round) {
    let mut failures = 0;
    while !round.is_over() {
        if entry.is_over() || broker.is_stopping() {
            return;
        }
        match write_batch(broker, entry, &mut round).await {
            Ok(()) => failures = 0,
            Err(fault) => {
                failures += 1;
                if fault.is_transient() && failures < ATTEMPTS {
                    tokio::time::sleep(PAUSE * 2_u32.pow(failures - 1)).await;
                    continue;
                }
                let records = round.give_up();
                entry.letter_counts().given_up(records);
                warn(entry, records, &fault);
            }
        }
        let done = round.take_done();
        if !done.is_empty() {
            follow(broker, entry, entry.letters_done(&done));
        }
    }
}

/// Builds and sends the next batch of a round.
async fn write_batch(broker: &Arc<Broker>, entry: &ShareEntry, round: &mut Round) -> Result<(), Fault> {
    let destination = Destination::find(broker, entry).await?;
    let requester = Requester::ShareGroup(entry.group().clone());
    let _turn = broker.turns().dead_letters.take(requester).await;
    let source = Source::of(entry, destination.copies);
    let (letters, place, max_bytes) = (round.letters.clone(), round.place, destination.max_bytes);
    let draft = off_shard(move || draft::compose(&source, (&letters, place), max_bytes, now_ms())).await?;
    entry.letter_counts().sent();
    sending::send(broker, &destination, draft.records).await?;
    entry.letter_counts().written(draft.count);
    round.place = draft.next;
    Ok(())
}

fn warn(entry: &ShareEntry, records: u64, fault: &Fault) {
    if let Some(left_out) = REFUSALS.admit(steady_ms()) {
        tracing::warn!(
            group = &**entry.group(),
            partition = entry.partition().name(),
            records,
            error = %fault,
            left_out,
            "cannot write the dead letters of records; archived the records without them"
        );
    }
}

#[cfg(test)]
mod tests;
