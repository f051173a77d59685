//! One request to the active controller, from its submission to its response. The worker that sends
//! it and the queue that may abandon it share it.

use levada_cluster::Target;
use levada_wire::api::controller::ControllerApi;
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::{
    AllocateProducerIdsResponse, AlterPartitionResponse, AssignReplicasToDirsResponse, CreateTopicsResponse,
    EnvelopeResponse, RequestResponsePair,
};
use parking_lot::Mutex;

use super::connection::Connection;

/// A response that shows if another node is the active controller.
pub(crate) trait ControllerAnswer {
    /// True if the responding node is not the active controller.
    fn is_not_controller(&self) -> bool;
}

macro_rules! top_level {
    ($($response:ty),*) => {
        $(impl ControllerAnswer for $response {
            fn is_not_controller(&self) -> bool {
                self.error_code == ErrorCode::NotController.code()
            }
        })*
    };
}

top_level!(
    AllocateProducerIdsResponse,
    AlterPartitionResponse,
    AssignReplicasToDirsResponse,
    EnvelopeResponse
);

impl ControllerAnswer for CreateTopicsResponse {
    fn is_not_controller(&self) -> bool {
        self.topics.iter().any(|topic| topic.error_code == ErrorCode::NotController.code())
    }
}

/// Outcome of sending a request once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Called {
    /// The controller has responded.
    Answered,
    /// Another node is the active controller.
    NotController,
    /// There was no connection, or the connection ended before the response.
    Lost,
}

/// A request whose type is not visible to the queue.
pub(super) trait Job: Send + Sync {
    /// Sends the request and keeps the response. Blocks.
    fn call(&self, connection: &mut Connection, to: &Target) -> Called;

    /// Delivers the kept response, or this failure. Later outcomes are dropped.
    fn finish(&self, outcome: Result<(), ErrorCode>);
}

type Reply<T> = Box<dyn FnOnce(Result<T, ErrorCode>) + Send>;

/// A request of one type.
pub(super) struct TypedJob<R: RequestResponsePair> {
    api: ControllerApi,
    request: R,
    answer: Mutex<Option<R::Response>>,
    reply: Mutex<Option<Reply<R::Response>>>,
}

impl<R: RequestResponsePair> TypedJob<R> {
    pub(super) fn new(
        api: ControllerApi,
        request: R,
        reply: impl FnOnce(Result<R::Response, ErrorCode>) + Send + 'static,
    ) -> Self {
        Self { api, request, answer: Mutex::new(None), reply: Mutex::new(Some(Box::new(reply))) }
    }
}

impl<R> Job for TypedJob<R>
where
    R: RequestResponsePair + Send + Sync,
    R::Response: ControllerAnswer + Send,
{
    fn call(&self, connection: &mut Connection, to: &Target) -> Called {
        match connection.request(to, self.api, &self.request) {
            None => Called::Lost,
            Some(answer) if answer.is_not_controller() => Called::NotController,
            Some(answer) => {
                *self.answer.lock() = Some(answer);
                Called::Answered
            }
        }
    }

    fn finish(&self, outcome: Result<(), ErrorCode>) {
        let Some(reply) = self.reply.lock().take() else { return };
        let answer = outcome.and_then(|()| self.answer.lock().take().ok_or(ErrorCode::RequestTimedOut));
        reply(answer);
    }
}
