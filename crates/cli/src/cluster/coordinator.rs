//! Finding the broker that coordinates a group or a transactional id.

use std::thread;
use std::time::Instant;

use levada_wire::StrBytes;
use levada_wire::messages::{FindCoordinatorRequest, RequestResponsePair};

use super::{COMING_POLL, COMING_WAIT, Cluster, address};
use crate::kafka_error;
use levada_terminal::failure::Failure;

/// Kinds of coordinators, numbered as in FindCoordinator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coordinated {
    /// A consumer group.
    Group = 0,
    /// A transactional id.
    Transaction = 1,
}

impl Coordinated {
    /// The option of `levada acl` that names the resource.
    fn option(self, key: &str) -> String {
        match self {
            Self::Group => format!("--group {key}"),
            Self::Transaction => format!("--transactional-id {key}"),
        }
    }
}

impl Cluster {
    /// The broker that coordinates `key`; waits for one that is starting.
    pub(crate) fn coordinator(&mut self, kind: Coordinated, key: &str) -> Result<i32, Failure> {
        let mut request = FindCoordinatorRequest::default();
        request.key_type = kind as i8;
        request.coordinator_keys = vec![StrBytes::from(key)];
        let started = Instant::now();
        loop {
            let response = self.ask(&request)?;
            let missing = || Failure::new(format!("the broker names no coordinator of {key}"));
            let found = response.coordinators.into_iter().next().ok_or_else(missing)?;
            if kafka_error::is_passing(found.error_code) && started.elapsed() < COMING_WAIT {
                thread::sleep(COMING_POLL);
                continue;
            }
            let doing = format!("find the coordinator of {key}");
            let checked = kafka_error::check(found.error_code, &doing, found.error_message.as_deref());
            kafka_error::needing(checked, "describe", &kind.option(key))?;
            self.addresses.insert(found.node_id, address(&found.host, found.port));
            return Ok(found.node_id);
        }
    }

    /// Sends the request to the first broker until `code` finds no temporary error in the answer.
    pub(crate) fn ask_until_ready<R: RequestResponsePair>(
        &mut self,
        request: &R,
        code: impl Fn(&R::Response) -> i16,
    ) -> Result<R::Response, Failure> {
        let started = Instant::now();
        loop {
            let response = self.ask(request)?;
            if kafka_error::is_passing(code(&response)) && started.elapsed() < COMING_WAIT {
                thread::sleep(COMING_POLL);
                continue;
            }
            return Ok(response);
        }
    }

    /// Sends the request to the coordinator of `key` until `code` finds no temporary error in the
    /// answer: the coordinator may still be loading its state.
    pub(crate) fn ask_coordinator<R: RequestResponsePair>(
        &mut self,
        kind: Coordinated,
        key: &str,
        (request, newest): (&R, i16),
        code: impl Fn(&R::Response) -> i16,
    ) -> Result<R::Response, Failure> {
        let started = Instant::now();
        loop {
            let node = self.coordinator(kind, key)?;
            let client = self.broker(node)?;
            let version = client.best_version::<R>()?.min(newest);
            let response = client.request_at(version, request)?;
            if kafka_error::is_passing(code(&response)) && started.elapsed() < COMING_WAIT {
                thread::sleep(COMING_POLL);
                continue;
            }
            return Ok(response);
        }
    }
}
