//! The controller of a cluster, another process: clients' requests are forwarded to it without
//! decoding, and topics that clients need are created by requests of the broker's own. Few requests
//! are in flight at a time; clients take turns.

use std::collections::HashSet;
use std::future::Future;
use std::ops::RangeInclusive;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use levada_base::Requester;
use levada_base::log_pace::LogPace;
use levada_cluster::channel::{FORWARD_MS, RequestClass};
use levada_cluster::envelope::ForwardedPrincipal;
use levada_process::clock::steady_ms;
use levada_process::turns::Turns;
use levada_security::Session;
use levada_wire::ApiKey;
use levada_wire::api::controller;
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::{CreateTopicsRequest, CreateTopicsResponse, create_topics_request};
use parking_lot::Mutex;

use crate::cluster::{ClusterMembership, Forwarded};

#[cfg(test)]
mod tests;

/// A future response.
pub(crate) type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Maximum number of topic names whose creation is in progress. Clients repeat the request for
/// further ones.
const CREATING_MAX: usize = 10_000;

/// Maximum number of requests of one client that wait for their turn.
const WAITING_MAX: usize = 250;

/// Time that a controller gets for a request with a shorter timeout, ms.
const FORWARD_MS_MIN: i32 = 1_000;

/// Longest time of a request, the wait for its turn included. It is a part of the request's own
/// timeout, because the client often waits no longer for the response.
fn forward_time(timeout_ms: Option<i32>) -> Duration {
    let ms = timeout_ms.map_or(FORWARD_MS, |ms| (ms - ms / 4).clamp(FORWARD_MS_MIN, FORWARD_MS));
    Duration::from_millis(ms.unsigned_abs().into())
}

/// Connection to the active controller of a cluster. It finds the controller again after an
/// election, and repeats requests without a response.
pub(crate) trait ActiveController: Send + Sync {
    /// Forwards a client's request in an Envelope.
    fn forward(&self, request: ClientRequest) -> Pending<'_, Forwarded>;

    /// Creates topics with the rights of this broker.
    fn create_topics(
        &self,
        request: CreateTopicsRequest,
    ) -> Pending<'_, Result<CreateTopicsResponse, ErrorCode>>;

    /// Returns a producer id that no broker has used before.
    fn producer_id(&self) -> Pending<'_, Result<i64, ErrorCode>>;

    /// The versions of an API that the active controller supports: `None` if no controller has
    /// reported its versions yet, empty if the controller does not have the API.
    fn versions(&self, api: ApiKey) -> Option<RangeInclusive<i16>>;
}

/// A request of a client, and the client.
#[derive(Clone, Debug)]
pub(crate) struct ClientRequest {
    /// Header and body, without the size.
    pub(crate) frame: Bytes,
    pub(crate) correlation_id: i32,
    pub(crate) session: Session,
}

impl ActiveController for ClusterMembership {
    fn forward(&self, request: ClientRequest) -> Pending<'_, Forwarded> {
        let ClientRequest { frame, correlation_id, session } = request;
        Box::pin(
            async move { self.forward(frame, correlation_id, &principal(&session), session.address()).await },
        )
    }

    fn create_topics(
        &self,
        request: CreateTopicsRequest,
    ) -> Pending<'_, Result<CreateTopicsResponse, ErrorCode>> {
        Box::pin(self.request(RequestClass::Forwarded, controller::CREATE_TOPICS, request))
    }

    fn producer_id(&self) -> Pending<'_, Result<i64, ErrorCode>> {
        Box::pin(self.producer_id())
    }

    fn versions(&self, api: ApiKey) -> Option<RangeInclusive<i16>> {
        self.versions(api.wire())
    }
}

/// The client as the controller sees it.
fn principal(session: &Session) -> ForwardedPrincipal {
    ForwardedPrincipal {
        kind: "User".to_owned(),
        name: session.user().to_owned(),
        token_authenticated: session.is_by_token(),
    }
}

/// The handle on the controller of a cluster.
pub(crate) struct Remote {
    active: Arc<dyn ActiveController>,
    /// Requests that the broker's own entries of access control may permit.
    permitted: Turns,
    /// The others: the controller, which may have newer entries, decides one at a time.
    unpermitted: Turns,
    /// Names of topics that are being created.
    creating: Arc<Mutex<HashSet<String>>>,
    /// Rate limit of log lines about topics that were not created: a client that waits for one
    /// sends many requests a second.
    failures: Arc<LogPace>,
}

/// A topic that is created because a client needs it.
pub(super) type CreatableTopic = create_topics_request::CreatableTopic;

impl Remote {
    pub(super) fn new(active: Arc<dyn ActiveController>) -> Self {
        Self {
            active,
            permitted: Turns::of(RequestClass::Forwarded.in_flight_max()),
            unpermitted: Turns::of(1),
            creating: Arc::default(),
            failures: Arc::default(),
        }
    }

    /// Forwards a client's request, which may have a timeout in ms, after a wait for its turn.
    /// `is_permitted` is false if the broker's own entries of access control permit no such
    /// request.
    pub(crate) async fn forward(
        &self,
        request: ClientRequest,
        timeout_ms: Option<i32>,
        is_permitted: bool,
    ) -> Forwarded {
        let turns = if is_permitted { &self.permitted } else { &self.unpermitted };
        let forwarded = async {
            let Ok(_turn) = turns.take_if_few(request.session.requester(), WAITING_MAX).await else {
                return Forwarded::Failed(ErrorCode::RequestTimedOut);
            };
            self.active.forward(request).await
        };
        let forwarded = tokio::time::timeout(forward_time(timeout_ms), forwarded).await;
        forwarded.unwrap_or(Forwarded::Failed(ErrorCode::RequestTimedOut))
    }

    /// The connection to the controller.
    pub(crate) fn active(&self) -> &dyn ActiveController {
        &*self.active
    }

    /// Begins to create topics, with the rights of `client` if there is one, otherwise with those
    /// of the broker. Does not wait for the response: created topics arrive with an image. Topics
    /// that are already being created, or exceed [`CREATING_MAX`], are omitted.
    pub(super) fn begin_creation(
        &self,
        topics: Vec<CreatableTopic>,
        timeout_ms: i32,
        client: Option<Creator>,
    ) {
        self.begin_reported_creation(topics, timeout_ms, client, |_| {});
    }

    /// Like [`Remote::begin_creation`]; `ended` receives the response.
    pub(super) fn begin_reported_creation(
        &self,
        mut topics: Vec<CreatableTopic>,
        timeout_ms: i32,
        client: Option<Creator>,
        ended: impl FnOnce(&Result<CreateTopicsResponse, ErrorCode>) + Send + 'static,
    ) {
        let mut creating = self.creating.lock();
        topics
            .retain(|topic| creating.len() < CREATING_MAX && creating.insert(topic.name.as_str().to_owned()));
        drop(creating);
        if topics.is_empty() {
            return ended(&Ok(CreateTopicsResponse::default()));
        }
        let names: Vec<String> = topics.iter().map(|topic| topic.name.as_str().to_owned()).collect();
        let (creating, failures) = (self.creating.clone(), self.failures.clone());
        let under_way = UnderWay { creating, names, failures };
        let mut request = CreateTopicsRequest::default();
        request.topics = topics;
        request.timeout_ms = timeout_ms;
        let (active, turns) = (self.active.clone(), self.permitted.clone());
        let requester = client.as_ref().map_or(Requester::Broker, |creator| creator.session.requester());
        tokio::spawn(async move {
            let _turn = turns.take(requester).await;
            let answer = match client {
                None => active.create_topics(request).await,
                Some(creator) => creator.create(&*active, &request).await,
            };
            ended(&answer);
            under_way.log(answer);
        });
    }
}

/// Topics that count as being created until this value is dropped.
struct UnderWay {
    creating: Arc<Mutex<HashSet<String>>>,
    names: Vec<String>,
    failures: Arc<LogPace>,
}

impl UnderWay {
    /// Writes a line of the log for topics that were created, and one for the first failure.
    fn log(&self, answer: Result<CreateTopicsResponse, ErrorCode>) {
        let response = match answer {
            Ok(response) => response,
            Err(error) => {
                let Some(left_out) = self.failures.admit(steady_ms()) else { return };
                let (topic, others) = (&self.names[0], self.names.len() - 1);
                tracing::warn!(
                    topic,
                    others,
                    left_out,
                    error = error.name(),
                    "the controller did not respond to the creation of a topic; the broker repeats the request when a client requests the topic again"
                );
                return;
            }
        };
        let is_there = |code: i16| code == 0 || code == ErrorCode::TopicAlreadyExists.code();
        let mut failed = 0_usize;
        for topic in response.topics {
            let (name, code) = (topic.name.as_str(), topic.error_code);
            if code == 0 {
                tracing::info!(topic = name, partitions = topic.num_partitions, "topic created");
            } else if !is_there(code) {
                failed += 1;
                if failed == 1
                    && let Some(left_out) = self.failures.admit(steady_ms())
                {
                    let error = ErrorCode::of_code(code).map_or("unknown", ErrorCode::name);
                    let reason = topic.error_message.as_deref();
                    tracing::warn!(
                        topic = name,
                        error,
                        reason,
                        left_out,
                        "the controller refuses to create a topic automatically"
                    );
                }
            }
        }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut creating = self.creating.lock();
        for name in &self.names {
            creating.remove(name);
        }
    }
}

/// A client that needs a topic, and the identity of its request: the controller sees the creation
/// under the same client id and correlation id.
#[derive(Clone, Debug)]
pub(crate) struct Creator {
    pub(crate) client_id: Option<String>,
    pub(crate) correlation_id: i32,
    pub(crate) session: Session,
}

impl Creator {
    async fn create(
        self,
        active: &dyn ActiveController,
        request: &CreateTopicsRequest,
    ) -> Result<CreateTopicsResponse, ErrorCode> {
        let own = ApiKey::CreateTopics.versions();
        let version =
            active.versions(ApiKey::CreateTopics).map_or(*own.end(), |theirs| *theirs.end().min(own.end()));
        let (correlation_id, client_id) = (self.correlation_id, self.client_id.as_deref());
        let encoded = levada_wire::encode_request(correlation_id, client_id, version, request);
        // A version that the controller does not have at all cannot carry the request.
        let mut frame = encoded.map_err(|_| ErrorCode::UnsupportedVersion)?;
        let forwarded =
            ClientRequest { frame: frame.split_off(SIZE_BYTES), correlation_id, session: self.session };
        match active.forward(forwarded).await {
            Forwarded::Answer(answer) => levada_wire::decode_response(answer, version)
                .map(|(_, response)| response)
                .map_err(|_| ErrorCode::UnknownServerError),
            Forwarded::CloseConnection => Err(ErrorCode::UnsupportedVersion),
            Forwarded::Failed(error) => Err(error),
        }
    }
}

/// The size before an encoded request.
const SIZE_BYTES: usize = 4;
