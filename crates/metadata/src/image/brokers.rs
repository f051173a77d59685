//! Registered nodes of an image.

use std::collections::BTreeMap;
use std::sync::Arc;

use levada_wire::primitives::Uuid;

use super::ApplyError;
use crate::records::{
    BrokerRegistrationChangeRecord, RegisterBrokerRecord, RegisterControllerRecord, UnregisterBrokerRecord,
};

/// Brokers and controllers, by node id.
#[derive(Clone, Debug, Default)]
pub struct Brokers {
    brokers: Arc<BTreeMap<i32, BrokerRegistration>>,
    controllers: Arc<BTreeMap<i32, RegisterControllerRecord>>,
}

/// Registration of a broker, with all later changes applied.
pub type BrokerRegistration = RegisterBrokerRecord;

impl Brokers {
    /// The broker of that node id.
    pub fn broker(&self, node_id: i32) -> Option<&BrokerRegistration> {
        self.brokers.get(&node_id)
    }

    /// All brokers in the order of their node ids.
    pub fn iter(&self) -> impl Iterator<Item = &BrokerRegistration> {
        self.brokers.values()
    }

    /// Number of brokers that are registered.
    pub fn len(&self) -> usize {
        self.brokers.len()
    }

    /// True if none is registered.
    pub fn is_empty(&self) -> bool {
        self.brokers.is_empty()
    }

    /// True if a broker is registered, not fenced and not shutting down.
    pub fn is_active(&self, node_id: i32) -> bool {
        self.broker(node_id).is_some_and(|broker| !broker.fenced && !broker.in_controlled_shutdown)
    }

    /// All controllers in the order of their node ids.
    pub fn controllers(&self) -> impl Iterator<Item = &RegisterControllerRecord> {
        self.controllers.values()
    }

    /// Directory for a new replica on that broker: its only directory, otherwise "not decided".
    pub fn directory(&self, node_id: i32) -> Uuid {
        match self.broker(node_id).map(|broker| &*broker.log_dirs) {
            Some([directory]) => *directory,
            _ => Uuid::ZERO,
        }
    }

    pub(super) fn register(&mut self, record: &RegisterBrokerRecord) {
        Arc::make_mut(&mut self.brokers).insert(record.broker_id, record.clone());
    }

    pub(super) fn register_controller(&mut self, record: &RegisterControllerRecord) {
        Arc::make_mut(&mut self.controllers).insert(record.controller_id, record.clone());
    }

    pub(super) fn unregister_controller(&mut self, controller_id: i32) {
        Arc::make_mut(&mut self.controllers).remove(&controller_id);
    }

    pub(super) fn unregister(&mut self, record: &UnregisterBrokerRecord) -> Result<(), ApplyError> {
        self.broker_mut(record.broker_id, record.broker_epoch)?;
        Arc::make_mut(&mut self.brokers).remove(&record.broker_id);
        Ok(())
    }

    pub(super) fn change(&mut self, change: &BrokerRegistrationChangeRecord) -> Result<(), ApplyError> {
        let broker = self.broker_mut(change.broker_id, change.broker_epoch)?;
        if change.fenced != 0 {
            broker.fenced = change.fenced > 0;
        }
        if change.in_controlled_shutdown != 0 {
            broker.in_controlled_shutdown = true;
        }
        if !change.log_dirs.is_empty() {
            broker.log_dirs.clone_from(&change.log_dirs);
        }
        if change.cordoned_log_dirs.is_some() {
            broker.cordoned_log_dirs.clone_from(&change.cordoned_log_dirs);
        }
        Ok(())
    }

    pub(super) fn set_fenced(
        &mut self,
        broker_id: i32,
        broker_epoch: i64,
        fenced: bool,
    ) -> Result<(), ApplyError> {
        self.broker_mut(broker_id, broker_epoch)?.fenced = fenced;
        Ok(())
    }

    fn broker_mut(
        &mut self,
        broker_id: i32,
        broker_epoch: i64,
    ) -> Result<&mut BrokerRegistration, ApplyError> {
        Arc::make_mut(&mut self.brokers)
            .get_mut(&broker_id)
            .filter(|broker| broker.broker_epoch == broker_epoch)
            .ok_or(ApplyError::NoBroker { broker_id, broker_epoch })
    }
}
