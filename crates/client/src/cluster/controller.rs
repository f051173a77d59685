//! Changes that only the controller can make.

use std::thread;
use std::time::Instant;

use levada_wire::error_code::ErrorCode;
use levada_wire::messages::RequestResponsePair;

use super::{COMING_POLL, COMING_WAIT, Cluster};
use crate::error::ClientError;

impl Cluster {
    /// Sends a change to the first broker and, if that is not the controller, to the controller:
    /// brokers of a cluster with ZooKeeper do not forward changes. `code` finds the first error
    /// code of the response; a broker that answers NOT_CONTROLLER has changed nothing.
    ///
    /// # Errors
    /// One of the requests gets no response.
    pub fn ask_controller<R: RequestResponsePair>(
        &mut self,
        request: &R,
        code: impl Fn(&R::Response) -> i16,
    ) -> Result<R::Response, ClientError> {
        let started = Instant::now();
        let mut response = self.ask(request)?;
        while code(&response) == ErrorCode::NotController.code() && started.elapsed() < COMING_WAIT {
            thread::sleep(COMING_POLL);
            let controller = self.metadata(Some(&[]), false)?.controller_id;
            // -1 during an election.
            let controller = Some(controller).filter(|node| *node >= 0);
            response = self.client(controller)?.request(request)?;
        }
        Ok(response)
    }
}
