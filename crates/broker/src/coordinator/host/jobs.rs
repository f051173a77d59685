//! Work of a coordinator for the admin thread.

use std::sync::Arc;

use levada_coordination::machine::Machine;

use super::Slot;
use crate::replica::Partition;

/// Work outside the coordinator, and the coordinator that gets its result.
pub(crate) struct Job<M: Machine> {
    pub(super) slot: Arc<Slot<M>>,
    pub(super) term: u64,
    pub(super) work: M::Work,
}

impl<M: Machine> Job<M> {
    /// The work.
    pub(crate) fn work(&self) -> &M::Work {
        &self.work
    }

    /// A check that is true once the coordinator's term has ended: the work is then no longer
    /// needed.
    pub(crate) fn is_over(&self) -> impl Fn() -> bool + Send + Sync + use<M> {
        let (slot, term) = (self.slot.clone(), self.term);
        move || slot.state.lock().term != term
    }

    /// The coordinator's partition; none once its term has ended.
    pub(crate) fn partition(&self) -> Option<Arc<Partition>> {
        let state = self.slot.state.lock();
        let partition = state.partition.as_ref().filter(|_| state.term == self.term);
        partition.map(|(partition, _)| partition.clone())
    }

    /// Reports the result of the work to the coordinator.
    pub(crate) fn done(&self, event: M::Event) {
        self.slot.step_in(self.term, event);
    }
}
