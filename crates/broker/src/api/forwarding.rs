//! Requests that the controller of a cluster decides: the broker sends them in an Envelope without
//! decoding, with the client's principal and address, and returns the responses unchanged. The
//! controller authorizes the requests. AlterConfigs and IncrementalAlterConfigs are decoded,
//! because some of their resources are this broker's own: see `configurable`. Requests for
//! delegation tokens are decoded, because this broker authorizes them: see `tokens`.
//!
//! The requests of a client that this broker's entries of access control do not permit have a queue
//! of their own: the controller, which may have newer entries, processes them one at a time.
//!
//! A mute that the controller requests applies to the client's connection, as in Kafka. Each
//! entry of a request to which no controller responds in time gets REQUEST_TIMED_OUT. This time is
//! a part of the request's timeout, if it has one: small requests are decoded to read it.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use levada_io::Piece;
use levada_wire::error_code::{ErrorCode, Failure};
use levada_wire::messages::{self, KafkaRequest, KafkaResponse, StrBytes};
use levada_wire::{ApiKey, DecodeError, EncodeError};

use crate::api::changes::{Before, log_change};
use crate::api::errors::AnswerFields;
use crate::api::{Context, LARGE_BYTES, Reply, RequestError, encode};
use crate::cluster::Forwarded;
use crate::controller::{ClientRequest, Creator};

mod audit;
pub(super) mod configs;
mod refusals;
#[cfg(test)]
mod tests;

use self::audit::Audited;

/// Bytes of the size before an encoded request.
const SIZE_BYTES: usize = 4;

/// A request that can be refused without a controller: each entry fails in the same way.
pub(super) trait Refusable: KafkaRequest {
    /// Kind of the response.
    type Answer: KafkaResponse + AnswerFields + Send + 'static;

    /// Timeout of the request in ms, in APIs that have one.
    const TIMEOUT_MS: Option<fn(&Self) -> i32> = None;

    /// The response of a version that refuses all entries.
    fn refuse(self, version: i16, failure: &Failure) -> Self::Answer;

    /// Response to a request with an expired timeout, as of Kafka's controllers: nothing is
    /// changed.
    fn refuse_late(self, version: i16) -> Self::Answer
    where
        Self: Sized,
    {
        self.refuse(version, &ErrorCode::RequestTimedOut.into())
    }
}

/// Declares the forwarded APIs, which a broker without a cluster processes itself. The forms of
/// their requests are named as in the codec.
macro_rules! forward {
    ($($key:ident $request:ident,)*) => {
        /// True if a broker of a cluster forwards requests of this API without decoding them.
        pub(super) fn is_forwarded(api: ApiKey) -> bool {
            matches!(api, $(ApiKey::$key)|*)
        }

        /// Timeout of a request in ms, in APIs that have one.
        fn timeout_ms(api: ApiKey, version: i16, body: &Bytes) -> Option<i32> {
            match api {
                $(ApiKey::$key => timeout_of::<messages::$request>(version, body),)*
                _ => None,
            }
        }

        /// Returns the controller's response to a forwarded request, or a refusal.
        pub(super) async fn reply(
            context: &Context,
            decided: Decided,
        ) -> Result<Reply, RequestError> {
            match context.header.api {
                $(ApiKey::$key => reply_as::<messages::$request>(context, decided).await,)*
                api => Err(RequestError::NotServed { api }),
            }
        }
    };
}

forward! {
    CreateTopics CreateTopicsRequest,
    DeleteTopics DeleteTopicsRequest,
    CreateAcls CreateAclsRequest,
    DeleteAcls DeleteAclsRequest,
    CreatePartitions CreatePartitionsRequest,
    ElectLeaders ElectLeadersRequest,
    AlterPartitionReassignments AlterPartitionReassignmentsRequest,
    ListPartitionReassignments ListPartitionReassignmentsRequest,
    AlterClientQuotas AlterClientQuotasRequest,
    AlterUserScramCredentials AlterUserScramCredentialsRequest,
    DescribeQuorum DescribeQuorumRequest,
    UpdateFeatures UpdateFeaturesRequest,
    UnregisterBroker UnregisterBrokerRequest,
    AddRaftVoter AddRaftVoterRequest,
    RemoveRaftVoter RemoveRaftVoterRequest,
    UnregisterController UnregisterControllerRequest,
}

/// True if the broker reports only versions of this API that the controller has, too.
pub(super) fn depends_on_controller(api: ApiKey) -> bool {
    use ApiKey::{
        AlterConfigs, CreateDelegationToken, ExpireDelegationToken, IncrementalAlterConfigs,
        RenewDelegationToken,
    };
    let is_decoded = matches!(
        api,
        AlterConfigs
            | IncrementalAlterConfigs
            | CreateDelegationToken
            | RenewDelegationToken
            | ExpireDelegationToken
    );
    is_decoded || is_forwarded(api)
}

impl Context {
    /// The client, for topics that are created because it needs them.
    pub(super) fn creator(&self) -> Creator {
        Creator {
            client_id: self.header.client_id.as_ref().map(|id| id.as_str().to_owned()),
            correlation_id: self.header.correlation_id,
            session: self.session().clone(),
        }
    }
}

/// A forwarded request, and its fate.
pub(crate) struct Decided {
    /// The request without its header.
    body: Bytes,
    fate: Forwarded,
    before: Before,
}

impl Decided {
    /// Decoded size of the request in bytes, an upper bound.
    pub(super) fn size(&self) -> usize {
        match &self.fate {
            Forwarded::Answer(answer) => self.body.len().max(answer.len()),
            Forwarded::Failed(_) | Forwarded::CloseConnection => self.body.len(),
        }
    }
}

/// Forwards a request, whose header has been removed from `body`, and waits for the controller.
pub(super) async fn forward(context: &Context, body: BytesMut) -> Result<Decided, RequestError> {
    let frame = context.header.in_front_of(&body)?;
    let size = body.len();
    drop(body);
    let body = frame.slice(frame.len() - size..);
    let timeout_ms = timeout_ms(context.header.api, context.version(), &body);
    let before = Before::of(context);
    Ok(Decided { body, fate: send(context, frame, timeout_ms).await, before })
}

/// Timeout of a small request, in ms; the time for a large one does not depend on its timeout.
fn timeout_of<R: Refusable>(version: i16, body: &Bytes) -> Option<i32> {
    let timeout_ms = R::TIMEOUT_MS.filter(|_| body.len() < LARGE_BYTES)?;
    // The controller refuses a malformed request.
    levada_wire::decode::<R>(body.clone(), version).ok().map(|request| timeout_ms(&request))
}

/// Sends a request, header and body, with the identity of the client.
pub(super) async fn send(context: &Context, frame: Bytes, timeout_ms: Option<i32>) -> Forwarded {
    let Some(remote) = context.broker().controller().remote() else {
        return Forwarded::Failed(ErrorCode::NotController);
    };
    let request = ClientRequest {
        frame,
        correlation_id: context.header.correlation_id,
        session: context.session().clone(),
    };
    remote.forward(request, timeout_ms, context.is_permitted_some()).await
}

/// The bytes of a request as the client would send it, without the size.
fn frame<R: KafkaRequest>(context: &Context, request: &R) -> Result<Bytes, EncodeError> {
    let header = &context.header;
    let client_id = header.client_id.as_ref().map(StrBytes::as_str);
    let encoded = levada_wire::encode_request(header.correlation_id, client_id, header.version, request)?;
    Ok(encoded.slice(SIZE_BYTES..))
}

/// Sends a request that this broker has decoded to the controller. Refuses the request if no
/// controller responds.
pub(super) async fn decide<R: Refusable>(context: &Context, request: R) -> R::Answer {
    let version = context.version();
    context.give_turn_back();
    let fate = match frame(context, &request) {
        Ok(frame) => send(context, frame, R::TIMEOUT_MS.map(|timeout_ms| timeout_ms(&request))).await,
        Err(_) => Forwarded::Failed(ErrorCode::UnknownServerError),
    };
    let error = match fate {
        Forwarded::Answer(answer) => match levada_wire::decode_response::<R::Answer>(answer, version) {
            Ok((_, mut decoded)) => {
                mute(context, &mut decoded);
                return decoded;
            }
            Err(error) => unreadable(context, &error),
        },
        Forwarded::CloseConnection => ErrorCode::UnsupportedVersion,
        Forwarded::Failed(error) => error,
    };
    request.refuse(version, &failure(error))
}

/// Logs a response that cannot be decoded, and returns the error for the client.
fn unreadable(context: &Context, error: &DecodeError) -> ErrorCode {
    tracing::warn!(api = context.header.api.name(), %error, "the controller's response cannot be decoded");
    ErrorCode::UnknownServerError
}

async fn reply_as<R: Audited>(
    context: &Context,
    Decided { body, fate, before }: Decided,
) -> Result<Reply, RequestError> {
    let version = context.version();
    let answer = match fate {
        Forwarded::CloseConnection => {
            return Err(RequestError::NotRead { api: context.header.api, version });
        }
        Forwarded::Answer(answer) => answer,
        Forwarded::Failed(error) => {
            let refused = levada_wire::decode::<R>(body, version)?.refuse(version, &failure(error));
            return encode(context, refused, false).await;
        }
    };
    let (_, mut decoded) = match levada_wire::decode_response::<R::Answer>(answer.clone(), version) {
        Ok(decoded) => decoded,
        Err(error) => {
            let unknown = failure(unreadable(context, &error));
            let refused = levada_wire::decode::<R>(body, version)?.refuse(version, &unknown);
            return encode(context, refused, false).await;
        }
    };
    mute(context, &mut decoded);
    let (mut is_done, mut is_refused) = (false, false);
    decoded.each(|code| {
        context.count_error(code);
        is_done |= code == ErrorCode::None.code();
        is_refused |= code == ErrorCode::ClusterAuthorizationFailed.code();
    });
    audit::audit_right(context, (is_done, is_refused));
    let api = context.header.api;
    if R::IS_AUDITED {
        levada_wire::decode::<R>(body, version)?.audit(context, &before, &decoded);
    } else if is_done && !matches!(api, ApiKey::ListPartitionReassignments | ApiKey::DescribeQuorum) {
        log_change!(context, "change made by the controller", api = api.name(),);
    }
    let size = u32::try_from(answer.len()).unwrap_or(u32::MAX).to_be_bytes();
    Ok(Reply::Send(vec![Piece::Bytes(Bytes::copy_from_slice(&size)), Piece::Bytes(answer)]))
}

/// Mutes the client's connection for the time that the controller requests.
pub(super) fn mute(context: &Context, answer: &mut impl AnswerFields) {
    let throttle_time_ms = answer.throttle_time_ms().map_or(0, |time| *time);
    context.mute_for(Duration::from_millis(u64::try_from(throttle_time_ms).unwrap_or(0)));
}

/// The failure of each entry of a request to which no controller has responded.
pub(super) fn failure(error: ErrorCode) -> Failure {
    let sentence = match error {
        ErrorCode::RequestTimedOut => {
            "No controller of the cluster has responded in time; it may still process the request."
        }
        ErrorCode::UnsupportedVersion => "The controller of the cluster cannot read the request.",
        _ => {
            "The controller does not respond to requests that this broker forwards; see the log of the broker."
        }
    };
    Failure::new(error, sentence)
}
