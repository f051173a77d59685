//! A blocking connection to a controller or to another broker: TLS and SASL by the configuration in
//! force, versions, and one request at a time. The connection is made again for another node, and
//! after a failure.

use std::collections::BTreeSet;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use levada_client::login::authenticate;
use levada_client::{ConnectionError, ConnectionOptions, LoginError, OfferedVersions};
use levada_cluster::lifecycle::FinalizedFeature;
use levada_cluster::{Address, Target};
use levada_config::{BrokerConfig, ClusterConfig, PeerListener};
use levada_metadata::image::Image;
use levada_security::keystore::TlsError;
use levada_security::login::LoginFault;
use levada_wire::api::controller::{self, ControllerApi};
use levada_wire::fetch::{FetchRequest, FetchResponse};
use levada_wire::messages::{BrokerHeartbeatRequest, BrokerHeartbeatResponse, RequestResponsePair};
use levada_wire::{DecodeError, EncodeError, ErrorCode};
use parking_lot::Mutex;
use socket2::SockRef;

use crate::live_config::LiveConfig;

#[cfg(test)]
mod tests;

/// Part of a SASL session's lifetime, in percent, after which the connection is made again. As in
/// Kafka's clients, this is before the controller ends the session.
const SESSION_PERCENT: u32 = 85;

/// The first version of a heartbeat with cordoned directories.
const CORDONS: i16 = 2;

/// Maximum number of different faults that are logged between two successes.
const FAULTS_MAX: usize = 32;

/// Bytes of a response in addition to its records.
const ANSWER_HEAD_BYTES: u32 = 16 << 20;

/// Kind of the nodes of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peers {
    Controllers,
    Brokers,
}

impl Peers {
    fn listener(self, cluster: &ClusterConfig) -> &PeerListener {
        match self {
            Self::Controllers => &cluster.controllers,
            Self::Brokers => &cluster.brokers,
        }
    }

    /// Largest response in bytes. A batch that is larger than the limits of a fetch is sent whole.
    fn max_frame_bytes(self, cluster: &ClusterConfig) -> u32 {
        let default = ConnectionOptions::default().max_frame_bytes;
        let fetched = u32::try_from(cluster.replication.max_bytes).unwrap_or(0);
        match self {
            Self::Controllers => default,
            Self::Brokers => default.max(fetched.saturating_add(ANSWER_HEAD_BYTES)),
        }
    }
}

/// A connection to one node after the other.
pub(crate) struct Connection {
    config: Arc<LiveConfig>,
    peers: Peers,
    purpose: String,
    timeout: Duration,
    cutoff: Cutoff,
    open: Option<Open>,
    /// The faults that were logged since the last success.
    told: BTreeSet<String>,
    last_correlation_id: i32,
}

struct Open {
    to: Address,
    client_id: String,
    client: levada_client::Connection,
    finalized: Vec<FinalizedFeature>,
    /// The time at which the SASL session must be renewed.
    renew_at: Option<Instant>,
}

/// Reason for which a request got no response.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectionFault {
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    #[error("cannot connect: {0}")]
    Tls(#[from] TlsError),
    #[error("the {peer} refuses SASL mechanism {mechanism}; it offers {offered}: set {key}")]
    Mechanism { peer: &'static str, mechanism: &'static str, offered: String, key: &'static str },
    #[error(
        "the {peer} refuses user {user} (error {code}, {}): check the credentials in sasl.jaas.config of the {peer} listener",
        ErrorCode::of_code(*code).map_or("unknown", ErrorCode::name)
    )]
    Login { peer: &'static str, user: String, code: i16 },
    #[error("cannot authenticate: {0}")]
    Fault(#[from] LoginFault),
    #[error("{0}")]
    Superseded(String),
    #[error("the node offers {api} {}, and Levada sends versions {} to {}", offer(*.offered), .sent.0, .sent.1)]
    Version { api: &'static str, sent: (i16, i16), offered: Option<OfferedVersions> },
    #[error(transparent)]
    Request(#[from] EncodeError),
    #[error(transparent)]
    Answer(#[from] DecodeError),
}

/// The node's versions of an API as text.
fn offer(offered: Option<OfferedVersions>) -> String {
    offered.map_or_else(
        || "in no version".to_owned(),
        |offered| format!("in versions {} to {}", offered.min, offered.max),
    )
}

impl Connection {
    /// A connection that is made with the first request. No read, write or connect lasts longer
    /// than `timeout`.
    pub(crate) fn new(
        config: Arc<LiveConfig>,
        peers: Peers,
        purpose: String,
        (timeout, cutoff): (Duration, Cutoff),
    ) -> Self {
        let (open, told) = (None, BTreeSet::new());
        Self { config, peers, purpose, timeout, cutoff, open, told, last_correlation_id: 0 }
    }

    /// Sends a request to the node and waits for its response. Logs a failure. Blocks.
    pub(crate) fn request<R: RequestResponsePair>(
        &mut self,
        to: &Target,
        api: ControllerApi,
        request: &R,
    ) -> Option<R::Response> {
        self.call(to, |open, _| Ok(open.client.request_at(open.best(api)?, request)?))
    }

    /// Sends a request whose content depends on the version in which it is sent, and waits for its
    /// response. Logs a failure. Blocks.
    pub(crate) fn request_in<R: RequestResponsePair>(
        &mut self,
        to: &Target,
        api: ControllerApi,
        request: impl FnOnce(i16) -> R,
    ) -> Option<R::Response> {
        self.call(to, |open, _| {
            let version = open.best(api)?;
            Ok(open.client.request_at(version, &request(version))?)
        })
    }

    /// Sends a heartbeat and waits for its response. Blocks. Omits cordoned directories for a
    /// controller before Kafka 4.3, which does not support them.
    pub(crate) fn heartbeat(
        &mut self,
        to: &Target,
        request: &BrokerHeartbeatRequest,
    ) -> Option<BrokerHeartbeatResponse> {
        self.request_in(to, controller::BROKER_HEARTBEAT, |version| {
            let mut request = request.clone();
            request.cordoned_log_dirs.take_if(|_| version < CORDONS);
            request
        })
    }

    /// Sends a Fetch and waits for its response. Blocks.
    pub(crate) fn fetch(&mut self, to: &Target, request: &FetchRequest) -> Option<FetchResponse<Bytes>> {
        self.call(to, |open, sent| {
            let version = open.best(controller::FETCH)?;
            open.client.send(&request.encode(sent, &open.client_id, version)?)?;
            let (received, response) = FetchResponse::decode(open.client.receive()?, version)?;
            if received == sent {
                Ok(response)
            } else {
                Err(open.client.wrong_correlation(sent, received).into())
            }
        })
    }

    /// The versions that the node of the last request offers; empty without a connection.
    pub(crate) fn versions(&self) -> &[OfferedVersions] {
        self.open.as_ref().map_or(&[], |open| open.client.versions())
    }

    /// The feature levels that the cluster had finalized when the connection was opened.
    pub(crate) fn finalized(&self) -> &[FinalizedFeature] {
        self.open.as_ref().map_or(&[], |open| &open.finalized)
    }

    fn call<T>(
        &mut self,
        to: &Target,
        call: impl FnOnce(&mut Open, i32) -> Result<T, ConnectionFault>,
    ) -> Option<T> {
        let is_usable = |open: &Open| {
            open.to == to.address && open.renew_at.is_none_or(|renew_at| Instant::now() < renew_at)
        };
        let kept = self.open.take().filter(is_usable);
        let is_kept = kept.is_some();
        let open = kept.map_or_else(|| self.connect(to), Ok);
        self.last_correlation_id = self.last_correlation_id.wrapping_add(1);
        let sent = self.last_correlation_id;
        let called = open.and_then(|mut open| Ok((call(&mut open, sent)?, open)));
        match called {
            Ok((answer, open)) => {
                self.open = Some(open);
                self.told.clear();
                Some(answer)
            }
            // Nodes close idle connections. In case of another fault the new connection fails too.
            Err(ConnectionFault::Connection(
                ConnectionError::Lost { .. } | ConnectionError::Closed { .. },
            )) if is_kept => {
                tracing::debug!(address = %to.address, purpose = self.purpose, "a kept connection has ended");
                None
            }
            Err(fault) => {
                self.tell(to, &fault);
                None
            }
        }
    }

    fn connect(&self, to: &Target) -> Result<Open, ConnectionFault> {
        if let Some(reason) = self.cutoff.refusal(&to.address) {
            return Err(ConnectionFault::Superseded(reason));
        }
        let config = self.config.load();
        let cluster = config.cluster.as_ref().expect("only a broker in a cluster has these connections");
        let listener = self.peers.listener(cluster);
        let tls = listener.tls()?;
        let client_id = format!("broker-{}-{}", config.node_id, self.purpose);
        let options = ConnectionOptions {
            client_id: client_id.clone(),
            timeout: self.timeout,
            max_frame_bytes: self.peers.max_frame_bytes(cluster),
        };
        let mut client = levada_client::Connection::connect_over_unnegotiated(
            &to.address.to_string(),
            &options,
            |host, socket| {
                self.cutoff.hold(&socket, &to.address)?;
                if self.peers == Peers::Controllers {
                    // The kernel does not deliver a request after its repetition on another
                    // connection: closing resets this one.
                    SockRef::from(&socket).set_linger(Some(Duration::ZERO))?;
                }
                Ok(match tls {
                    None => Box::new(socket),
                    Some(tls) => Box::new(tls.connect(host, socket)?),
                })
            },
        )?;
        let offered = client.negotiate()?;
        let finalized = offered.finalized_features.iter().map(|feature| FinalizedFeature {
            name: feature.name.to_string(),
            level: feature.max_version_level,
        });
        let finalized = finalized.collect();
        let renew_at = login(listener, &mut client)?;
        Ok(Open { to: to.address.clone(), client_id, client, finalized, renew_at })
    }

    /// Logs a fault, unless the same was logged since the last success: requests are repeated
    /// several times a second. The end of a connection to a node that is no longer needed is not a
    /// fault.
    fn tell(&mut self, to: &Target, fault: &ConnectionFault) {
        let (address, purpose) = (&to.address, &*self.purpose);
        let is_new = self.told.len() < FAULTS_MAX && self.told.insert(format!("{address} {fault}"));
        if is_new && self.cutoff.permits(address) {
            tracing::warn!(%address, purpose, %fault, "a request to another node failed; the broker repeats it");
        } else {
            tracing::debug!(%address, purpose, %fault, "a request to another node failed");
        }
    }
}

/// Address of another broker: its endpoint of the brokers' listener. None while the metadata has no
/// such broker.
pub(crate) fn broker_target(config: &BrokerConfig, image: &Image, node: i32) -> Option<Target> {
    let name = &config.cluster.as_ref()?.brokers.name;
    let broker = image.brokers().broker(node)?;
    let found = broker.end_points.iter().find(|endpoint| endpoint.name.eq_ignore_ascii_case(name));
    if found.is_none() {
        tracing::debug!(node, listener = name, "the broker has no listener of this name");
    }
    let (host, port) = found.map(|endpoint| (endpoint.host.clone(), endpoint.port))?;
    Some(Target { node: Some(node), address: Address { host, port } })
}

impl Open {
    fn best(&self, api: ControllerApi) -> Result<i16, ConnectionFault> {
        let offered = self.client.versions().iter().find(|offered| offered.key == api.key);
        let best = offered.and_then(|offered| api.best(offered.min..=offered.max));
        let sent = (api.min, api.max);
        best.ok_or(ConnectionFault::Version { api: api.name, sent, offered: offered.copied() })
    }
}

/// Authenticates, if the listener has SASL, and returns the time at which to do so again.
fn login(
    listener: &PeerListener,
    client: &mut levada_client::Connection,
) -> Result<Option<Instant>, ConnectionFault> {
    let Some(login) = &listener.login else { return Ok(None) };
    let begun = Instant::now();
    let lifetime = authenticate(login, client).map_err(|error| refused(listener, error))?;
    Ok(lifetime.and_then(|lifetime| begun.checked_add(lifetime / 100 * SESSION_PERCENT)))
}

/// The fault of a failed login, which names the key to change.
fn refused(listener: &PeerListener, error: LoginError) -> ConnectionFault {
    let peer = listener.peer;
    match error {
        LoginError::Connection(error) => error.into(),
        LoginError::Mechanism { mechanism, offered, .. } => {
            let (offered, key) = (offered.join(", "), listener.mechanism_key);
            ConnectionFault::Mechanism { peer, mechanism, offered, key }
        }
        LoginError::Refused { user, code, .. } => ConnectionFault::Login { peer, user, code },
        LoginError::Fault(fault) => fault.into(),
    }
}

/// Ends a connection from another thread, so that a thread which waits for a response stops
/// waiting.
#[derive(Clone, Default)]
pub(crate) struct Cutoff(Arc<Mutex<Held>>);

#[derive(Default)]
struct Held {
    socket: Option<(TcpStream, Address)>,
    /// The only permitted address; any, if none is set.
    only: Option<Address>,
    is_closed: bool,
}

impl Held {
    fn permits(&self, to: &Address) -> bool {
        !self.is_closed && self.only.as_ref().is_none_or(|only| only == to)
    }

    /// The reason why no connection to the address is permitted, if none is.
    fn refusal(&self, to: &Address) -> Option<String> {
        let only = self.only.as_ref().filter(|only| *only != to);
        match only {
            _ if self.is_closed => Some("the broker stops".to_owned()),
            Some(only) => Some(format!("the requests go to {only} alone")),
            None => None,
        }
    }
}

impl Cutoff {
    /// The reason why no connection to the address is permitted, if none is.
    fn refusal(&self, to: &Address) -> Option<String> {
        self.0.lock().refusal(to)
    }

    fn hold(&self, socket: &TcpStream, to: &Address) -> io::Result<()> {
        let mut held = self.0.lock();
        if let Some(reason) = held.refusal(to) {
            return Err(io::Error::new(io::ErrorKind::ConnectionAborted, reason));
        }
        held.socket = Some((socket.try_clone()?, to.clone()));
        Ok(())
    }

    /// Ends the connection unless it is one to this address, and permits no other one from now on:
    /// another node is the controller.
    pub(crate) fn keep_only(&self, to: &Address) {
        let mut held = self.0.lock();
        if held.only.as_ref() == Some(to) {
            // Nothing else was permitted since.
            return;
        }
        held.only = Some(to.clone());
        if let Some((socket, _)) = held.socket.take_if(|(_, address)| address != to) {
            // The socket may already be closed.
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    /// Ends this connection and all later ones.
    pub(crate) fn close(&self) {
        let mut held = self.0.lock();
        held.is_closed = true;
        if let Some((socket, _)) = held.socket.take() {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    fn permits(&self, to: &Address) -> bool {
        self.0.lock().permits(to)
    }
}
