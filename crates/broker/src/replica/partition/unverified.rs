//! Batches of transactions that the partition has refused because their coordinator could not
//! verify the transaction yet. Their producers send them again, and later batches as well: a later
//! batch must not enter the log before them, because a log without records of a producer accepts
//! any first sequence number. The producer could then never complete the transaction.

use std::collections::HashMap;

use parking_lot::Mutex;

/// Id and epoch of a producer.
type ProducerEpoch = (i64, i16);

/// Most producers. At this number all are forgotten.
const PRODUCERS_MAX: usize = 1000;

/// The lowest sequence number of each producer that was refused, with the producer's epoch.
#[derive(Debug, Default)]
pub(crate) struct Unverified(Mutex<HashMap<i64, (i16, i32)>>);

impl Unverified {
    /// Notes a batch that the producer sends again.
    pub(crate) fn refused(&self, (producer_id, producer_epoch): ProducerEpoch, sequence: i32) {
        let mut noted = self.0.lock();
        if noted.len() >= PRODUCERS_MAX && !noted.contains_key(&producer_id) {
            noted.clear();
        }
        let (epoch, lowest) = noted.entry(producer_id).or_insert((producer_epoch, sequence));
        if *epoch != producer_epoch || is_after(*lowest, sequence) {
            (*epoch, *lowest) = (producer_epoch, sequence);
        }
    }

    /// Admits a batch of a verified transaction.
    ///
    /// # Errors
    /// The sequence number of an earlier batch, which has to come first.
    pub(crate) fn admit(
        &self,
        (producer_id, producer_epoch): ProducerEpoch,
        sequence: i32,
    ) -> Result<(), i32> {
        let mut noted = self.0.lock();
        match noted.get(&producer_id) {
            Some((epoch, lowest)) if *epoch == producer_epoch && is_after(sequence, *lowest) => Err(*lowest),
            Some(_) => {
                noted.remove(&producer_id);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Forgets a producer, whose transaction ends.
    pub(crate) fn forget(&self, producer_id: i64) {
        self.0.lock().remove(&producer_id);
    }

    /// Forgets all producers: another node may take their batches.
    pub(super) fn clear(&self) {
        self.0.lock().clear();
    }
}

/// True if one sequence number comes after the other: they wrap from the largest `i32` to 0.
fn is_after(one: i32, other: i32) -> bool {
    (1..=i32::MAX / 2).contains(&(one.wrapping_sub(other) & i32::MAX))
}

#[cfg(test)]
mod tests;
