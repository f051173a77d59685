//! The terms of the coordinators of one topic: for the broker, which has to do with leaderships of
//! partitions, all kinds of coordinators are alike.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use levada_coordination::machine::Machine;
use levada_process::tasks::guarded;

use super::{Host, Load, Slot};
use crate::replica::Partition;

/// The coordinators of one topic, of any kind.
pub(in crate::coordinator) trait Terms {
    /// Creates a coordinator for each of this number of partitions that has none, and returns the
    /// previous number of coordinators. The new ones are not loaded.
    fn provide(&self, partitions: usize) -> usize;

    /// Removes all coordinators, because the topic is deleted. Completes every waiting request.
    fn resign(&self);

    /// Completes every waiting request; nothing is served afterwards.
    fn unload(&self);

    /// Ends the term of the coordinator of partition `index`, if it has one: this broker no longer
    /// leads the partition, or leads it in another epoch. Completes every waiting request.
    fn resign_at(&self, index: i32);

    /// Writes a line of the log about the coordinators that have resigned since the last one, if
    /// any: a broker that stops loses many leaderships together.
    fn tell_resigned(&self);

    /// True if the coordinator of this partition has, or begins, a term in another leader epoch
    /// than the partition's, or has none although this broker leads.
    fn is_outdated(&self, partition: &Partition) -> bool;

    /// Marks the coordinator of partition `index` as loading, until its partition is recovered.
    fn expect(&self, index: i32);

    /// Withdraws the mark of [`Terms::expect`].
    fn give_up(&self, index: i32);

    /// Begins a term of the coordinator in `partition`, which must have been provided: requests are
    /// refused until the returned load has ended. `announce` passes to a new coordinator, by
    /// [`Host::step_at`], the announcements that the former one had. Not at the same time as a
    /// change of leadership.
    fn begin(&self, partition: &Arc<Partition>, announce: &dyn Fn()) -> Option<Load>;
}

impl<M: Machine> Terms for Host<M> {
    fn provide(&self, partitions: usize) -> usize {
        let make = || Slot::new(M::new(&self.settings), self.alarm.clone(), self.jobs.clone());
        self.slots.provide(partitions, make)
    }

    fn resign(&self) {
        let slots = self.slots.take();
        slots.iter().for_each(|slot| {
            slot.resign();
        });
        tracing::info!(
            partitions = slots.len(),
            "{} coordinators resigned: their topic is deleted",
            M::SUBJECT
        );
    }

    fn unload(&self) {
        self.is_unloaded.store(true, Ordering::SeqCst);
        self.slots.all().iter().for_each(|slot| {
            slot.resign();
        });
    }

    fn resign_at(&self, index: i32) {
        if let Some(slot) = self.slots.at(index)
            && slot.resign()
        {
            self.resigned.fetch_add(1, Ordering::Relaxed);
            tracing::debug!(partition = index, "{} coordinator resigned", M::SUBJECT);
        }
    }

    fn tell_resigned(&self) {
        let partitions = self.resigned.swap(0, Ordering::Relaxed);
        if partitions > 0 {
            tracing::info!(partitions, "{} coordinators resigned", M::SUBJECT);
        }
    }

    fn is_outdated(&self, partition: &Partition) -> bool {
        let leadership = partition.leadership();
        let led_in = leadership.is_leader().then(|| leadership.leader_epoch());
        let slot = self.slots.at(partition.index());
        slot.is_some_and(|slot| slot.state.lock().leader_epoch != led_in)
    }

    fn expect(&self, index: i32) {
        if let Some(slot) = self.slots.at(index) {
            slot.state.lock().is_expected = true;
        }
    }

    fn give_up(&self, index: i32) {
        if let Some(slot) = self.slots.at(index) {
            slot.state.lock().expect_no_more();
        }
    }

    fn begin(&self, partition: &Arc<Partition>, announce: &dyn Fn()) -> Option<Load> {
        let Some(slot) = self.slots.at(partition.index()) else {
            tracing::error!(
                partition = partition.name(),
                "no {} coordinator for this partition: restart the broker",
                M::SUBJECT
            );
            return None;
        };
        let begun = slot.begin_term(M::new(&self.settings), partition);
        announce();
        if self.is_unloaded.load(Ordering::SeqCst) {
            return None;
        }
        let (machine, slots, partition) = (M::new(&self.settings), self.slots.all(), partition.clone());
        Some(Box::new(move || {
            // A load that has panicked would panic again: the coordinator is not available.
            let loaded = guarded("load of a coordinator", || slot.load(machine, &partition, begun));
            loaded.map_or_else(|_| drop(slot.state.lock().expect_no_more()), |()| log_if_complete(&slots));
        }))
    }
}

/// Writes a line of the log when the last coordinator of the topic has been loaded.
fn log_if_complete<M: Machine>(slots: &[Arc<Slot<M>>]) {
    if slots.iter().all(|slot| slot.state.lock().partition.is_some()) {
        tracing::info!(partitions = slots.len(), "{} coordinators of all partitions serve", M::SUBJECT);
    }
}
