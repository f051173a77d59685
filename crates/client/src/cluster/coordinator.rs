//! Finding the broker that coordinates a group or a transactional id.

use levada_wire::StrBytes;
use levada_wire::messages::{FindCoordinatorRequest, FindCoordinatorResponse, RequestResponsePair};

use super::{Cluster, address, until_settled};
use crate::error::ClientError;
use crate::refusal::{Coordinated, Operation, Refusal, is_passing};

impl Cluster {
    /// The broker that coordinates `key`; waits up to 10 s for one that is starting.
    ///
    /// # Errors
    /// The request gets no response, or the broker names no coordinator.
    pub fn coordinator(&mut self, kind: Coordinated, key: &str) -> Result<i32, ClientError> {
        let mut request = FindCoordinatorRequest::default();
        request.key_type = kind as i8;
        request.coordinator_keys = vec![StrBytes::from(key)];
        let code = |response: &FindCoordinatorResponse| {
            response.coordinators.first().map_or(0, |found| found.error_code)
        };
        let response = self.ask_until_ready(&request, code)?;
        let missing = || ClientError::NoCoordinator { key: key.to_owned() };
        let found = response.coordinators.into_iter().next().ok_or_else(missing)?;
        Refusal::check(found.error_code, found.error_message.as_deref(), || Operation::FindCoordinator {
            kind,
            key: key.to_owned(),
        })?;
        self.addresses.insert(found.node_id, address(&found.host, found.port));
        Ok(found.node_id)
    }

    /// Sends the request to the first broker until `code` finds no temporary error in the response,
    /// for up to 10 s.
    ///
    /// # Errors
    /// The request gets no response. A temporary error that lasts is in the response.
    pub fn ask_until_ready<R: RequestResponsePair>(
        &mut self,
        request: &R,
        code: impl Fn(&R::Response) -> i16,
    ) -> Result<R::Response, ClientError> {
        until_settled(|response| is_passing(code(response)), || Ok(self.ask(request)?))
    }

    /// Sends the request to the coordinator of `key`, in a version up to `newest`, until `code`
    /// finds no temporary error in the response, for up to 10 s: the coordinator may still be
    /// loading its state.
    ///
    /// # Errors
    /// There is no coordinator, or the request gets no response. A temporary error that lasts is in
    /// the response.
    pub fn ask_coordinator<R: RequestResponsePair>(
        &mut self,
        kind: Coordinated,
        key: &str,
        (request, newest): (&R, i16),
        code: impl Fn(&R::Response) -> i16,
    ) -> Result<R::Response, ClientError> {
        until_settled(
            |response| is_passing(code(response)),
            || {
                let node = self.coordinator(kind, key)?;
                let connection = self.broker(node)?;
                let version = connection.best_version::<R>()?.min(newest);
                Ok(connection.request_at(version, request)?)
            },
        )
    }
}
