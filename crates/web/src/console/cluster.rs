//! Requests to the other brokers of a cluster, as a Kafka client of the logged-in user sends them.
//!
//! The broker of the console answers through its desk. A page connects to each other broker that it
//! needs, with the password of the session, and closes the connections at its end. A broker without
//! a response costs a page at most [`PATIENCE`] in all; the page then names the broker and shows
//! the rest. Answers of other brokers never show more than the visitor may see here: entries of
//! access control for a host would otherwise take the visitor for this machine.

use std::collections::BTreeMap;
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use levada_client::login::authenticate;
use levada_client::{Connection, ConnectionError, ConnectionOptions, LoginError};
use levada_config::{BrokerConfig, Protocol};
use levada_security::acl::{CLUSTER_NAME, Operation, ResourceType};
use levada_security::keystore::{ClientTls, SslSettings, TlsError};
use levada_security::login::SaslLogin;
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::RequestResponsePair;
use maud::{Markup, html};
use parking_lot::Mutex;
use tokio::task::JoinHandle;

use super::failure::{Failed, Needing as _, check};
use super::visitor::Visitor;
use super::{ANSWER_BYTES_MAX, Console};

/// Longest time that a page waits for brokers without a response, and the time for each further
/// broker after that.
pub(super) const PATIENCE: Duration = Duration::from_millis(1500);
const HURRY: Duration = Duration::from_millis(300);
/// Time for which the console sends no request to a broker that did not respond to this user.
const RETRY: Duration = Duration::from_secs(5);
/// Time that another broker has to carry out a change.
pub(super) const CHANGE_TIME: Duration = Duration::from_secs(10);
/// Time limits of a connection: to open it, and for one read or write. Those of the page apply
/// first.
const CONNECT_TIME: Duration = Duration::from_secs(2);
const READ_TIME: Duration = Duration::from_secs(15);
/// Name of the console as a client, for quotas and logs.
const CLIENT_ID: &str = "levada-console";

/// Brokers without a response by user and address, with the time and the reason.
pub(super) type Unheard = Arc<Mutex<BTreeMap<(String, String), (Instant, String)>>>;

/// An operation on a named resource.
pub(super) type Permission<'a> = (Operation, ResourceType, &'a str);

/// The other brokers, as one page uses them.
#[derive(Default)]
pub(super) struct Others {
    login: Option<Arc<SaslLogin>>,
    links: Mutex<BTreeMap<i32, Arc<Link>>>,
    /// Brokers without a response, and the reasons.
    unheard: Mutex<BTreeMap<i32, String>>,
    lost: Mutex<Duration>,
}

/// A connection to another broker, made with the first request.
struct Link {
    target: Target,
    login: Option<Arc<SaslLogin>>,
    connection: Mutex<Option<Connection>>,
    /// Handle by which a page ends a request that takes too long.
    socket: Mutex<Option<TcpStream>>,
    is_cut: AtomicBool,
}

/// The listener of another broker at which the visitor can log in.
#[derive(Clone)]
pub(super) struct Target {
    pub(super) address: String,
    listener: String,
    has_tls: bool,
    config: Arc<BrokerConfig>,
}

/// Reason why another broker did not respond.
#[derive(Debug, thiserror::Error)]
enum LinkError {
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    #[error("{0}")]
    Login(#[from] LoginError),
    #[error("its certificate cannot be checked: {0}")]
    Tls(#[from] TlsError),
    #[error("the page has waited too long")]
    Cut,
}

impl Others {
    /// No connection yet. `login` are the credentials of the session, if the visitor has logged in.
    pub(super) fn new(login: Option<Arc<SaslLogin>>) -> Self {
        let (links, unheard, lost) = Default::default();
        Self { login, links, unheard, lost }
    }

    /// Brokers that did not respond to this page, and the reasons.
    pub(super) fn unheard(&self) -> BTreeMap<i32, String> {
        self.unheard.lock().clone()
    }

    /// The notice about brokers that did not respond; empty if all did.
    pub(super) fn notice(&self) -> Markup {
        let unheard = self.unheard();
        html! {
            @if !unheard.is_empty() {
                div.notice.bad role="status" {
                    @for (node, reason) in &unheard {
                        p data-unheard=(node) { "Broker " (node) " did not respond: " (reason) "." }
                    }
                    p { "This page leaves out what only " (if unheard.len() == 1 { "this broker knows" } else { "these brokers know" }) "." }
                }
            }
        }
    }

    fn limit(&self) -> Duration {
        PATIENCE.saturating_sub(*self.lost.lock()).max(HURRY)
    }
}

impl Drop for Others {
    fn drop(&mut self) {
        self.links.get_mut().values().for_each(|link| link.cut());
    }
}

impl Link {
    /// Sends a request in at most this version, and waits for its response. Blocks.
    fn send<R: RequestResponsePair>(&self, newest: i16, request: &R) -> Result<R::Response, LinkError> {
        let mut place = self.connection.lock();
        let connection = match &mut *place {
            Some(connection) => connection,
            none => none.insert(self.connect()?),
        };
        let version = connection.best_version::<R>()?.min(newest);
        let answered = connection.request_at(version, request);
        if answered.is_err() {
            *place = None;
        }
        Ok(answered?)
    }

    fn connect(&self) -> Result<Connection, LinkError> {
        let Target { address, listener, has_tls, config } = &self.target;
        let tls = has_tls.then(|| trust(config, listener)).transpose()?;
        let options = ConnectionOptions {
            client_id: CLIENT_ID.to_owned(),
            timeout: CONNECT_TIME,
            max_frame_bytes: ANSWER_BYTES_MAX,
        };
        let mut connection = Connection::connect_over(address, &options, |host, socket| {
            socket.set_read_timeout(Some(READ_TIME))?;
            *self.socket.lock() = Some(socket.try_clone()?);
            Ok(match &tls {
                None => Box::new(socket),
                Some(tls) => Box::new(tls.connect(host, socket)?),
            })
        })?;
        if self.is_cut.load(Ordering::Acquire) {
            return Err(LinkError::Cut);
        }
        if let Some(login) = &self.login {
            authenticate(login, &mut connection)?;
        }
        Ok(connection)
    }

    /// Ends the present request, and the connection.
    fn cut(&self) {
        self.is_cut.store(true, Ordering::Release);
        if let Some(socket) = self.socket.lock().take() {
            // The peer may have closed it.
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

/// TLS that checks the certificate of a broker, and shows none: that of this broker would make the
/// visitor this broker. Reads files, so that it blocks.
fn trust(config: &BrokerConfig, listener: &str) -> Result<ClientTls, TlsError> {
    let settings = config.settings();
    let text = |key: &str| {
        if key.starts_with("ssl.keystore.") { None } else { settings.listener_text(listener, key) }
    };
    ClientTls::load(&SslSettings::new(format!("listener {listener}"), text))
}

/// Order in which a visitor prefers a listener of another broker; none if the visitor cannot log in
/// there. The listeners of this broker determine the login of a listener with the same name.
fn rank(config: &BrokerConfig, login: Option<&SaslLogin>, name: &str, protocol: i16) -> Option<u8> {
    let same = config.listeners.iter().find(|listener| listener.name.eq_ignore_ascii_case(name));
    match login {
        Some(login) => {
            let sasl = config.security.sasl.get(&same?.name)?;
            let takes = sasl.offers.iter().any(|offer| offer.mechanism == login.mechanism());
            let order = [(Protocol::SaslSsl, 0), (Protocol::SaslPlaintext, 1)];
            order.iter().find(|(one, _)| takes && one.id() == protocol).map(|(_, rank)| *rank)
        }
        None if protocol == Protocol::Plaintext.id() => Some(0),
        None if protocol == Protocol::Ssl.id() => {
            (config.settings().client_auth(same?) != "required").then_some(1)
        }
        None => None,
    }
}

impl Console {
    /// Id of this broker.
    pub(super) fn own(&self) -> i32 {
        self.door.config().node_id
    }

    /// Ids of the brokers that are not fenced, this one among them.
    pub(super) fn live_brokers(&self) -> Vec<i32> {
        let (image, own) = (self.door.image(), self.own());
        let live = image.brokers().iter().filter(|one| !one.fenced || one.broker_id == own);
        let mut ids: Vec<i32> = live.map(|one| one.broker_id).collect();
        if !ids.contains(&own) {
            ids.push(own);
        }
        ids
    }

    /// True if the cluster has other brokers.
    pub(super) fn has_others(&self) -> bool {
        self.live_brokers().len() > 1
    }

    /// The broker that leads a partition; none if the partition has no leader.
    pub(super) fn leader(&self, topic: &str, index: i32) -> Option<i32> {
        let image = self.door.image();
        image.topic(topic)?.partition(index).map(|one| one.leader).filter(|leader| *leader >= 0)
    }

    /// True if access control of this broker permits the operation to the visitor.
    pub(super) fn permits(&self, visitor: &Visitor, wanted: Permission<'_>) -> bool {
        self.door.permits(visitor.caller.session(), wanted)
    }

    /// Fails if this broker would refuse the request, before another broker gets it. This broker
    /// decides by its own rules, with an entry in the audit log.
    pub(super) fn permitted(
        &self,
        visitor: &Visitor,
        node: i32,
        wanted: Permission<'_>,
        doing: impl FnOnce() -> String,
    ) -> Result<(), Failed> {
        if node == self.own() {
            return Ok(());
        }
        let refused = match wanted.1 {
            ResourceType::Topic => ErrorCode::TopicAuthorizationFailed,
            ResourceType::Group => ErrorCode::GroupAuthorizationFailed,
            ResourceType::TransactionalId => ErrorCode::TransactionalIdAuthorizationFailed,
            _ => ErrorCode::ClusterAuthorizationFailed,
        };
        let allowed = self.permits(visitor, wanted);
        check(if allowed { ErrorCode::None } else { refused }.code(), None, doing)
    }

    /// The response of a broker, in at most this version. The broker may wait for `wait` before it
    /// responds.
    ///
    /// # Errors
    /// The broker did not respond; the page names it as well.
    pub(super) async fn ask_broker<R>(
        &self,
        visitor: &Visitor,
        (node, newest): (i32, i16),
        (request, wait): (R, Duration),
    ) -> Result<R::Response, Failed>
    where
        R: RequestResponsePair + Send + 'static,
        R::Response: Send + 'static,
    {
        if node == self.own() {
            return Ok(self.desk.ask_at(&visitor.caller, newest, &request).await?);
        }
        let unheard = || {
            let reason = visitor.others.unheard().remove(&node).unwrap_or_default();
            Failed::Unheard { node, reason }
        };
        let asked = self.send(visitor, (node, newest), (request, wait)).ok_or_else(unheard)?;
        awaited(asked).await.ok_or_else(unheard)
    }

    /// The responses of brokers to one request each, by broker, in at most this version. Each
    /// broker may wait for `wait` before it responds. The page names brokers that did not respond.
    ///
    /// # Errors
    /// The desk of this broker has no response.
    pub(super) async fn ask_brokers<R>(
        &self,
        visitor: &Visitor,
        (newest, wait): (i16, Duration),
        requests: BTreeMap<i32, R>,
    ) -> Result<BTreeMap<i32, R::Response>, Failed>
    where
        R: RequestResponsePair + Send + 'static,
        R::Response: Send + 'static,
    {
        let (mut asked, mut own) = (Vec::new(), None);
        for (node, request) in requests {
            if node == self.own() {
                own = Some(request);
            } else if let Some(sent) = self.send(visitor, (node, newest), (request, wait)) {
                asked.push((node, sent));
            }
        }
        let mut answers = BTreeMap::new();
        if let Some(request) = own {
            answers.insert(self.own(), self.desk.ask_at(&visitor.caller, newest, &request).await?);
        }
        for (node, sent) in asked {
            answers.extend(awaited(sent).await.map(|answer| (node, answer)));
        }
        Ok(answers)
    }

    /// The response of the controller, to which this broker forwards the request. The request needs
    /// *Describe* on the cluster; a controller of Kafka would log a refusal as its own error.
    pub(super) async fn ask_controller<R: RequestResponsePair>(
        &self,
        visitor: &Visitor,
        request: &R,
        doing: &str,
    ) -> Result<R::Response, Failed> {
        let allowed = self.permits(visitor, (Operation::Describe, ResourceType::Cluster, CLUSTER_NAME));
        let refused = if allowed { ErrorCode::None } else { ErrorCode::ClusterAuthorizationFailed };
        check(refused.code(), None, || doing.to_owned()).needing("describe", "--cluster")?;
        match tokio::time::timeout(PATIENCE, self.desk.ask(&visitor.caller, request)).await {
            Ok(answer) => Ok(answer?),
            Err(_) => Err(Failed::ControllersSilent(PATIENCE)),
        }
    }

    /// The listener of another broker at which the visitor can log in.
    fn target(&self, visitor: &Visitor, node: i32) -> Result<Target, String> {
        let (image, config) = (self.door.image(), Arc::clone(&self.door.config()));
        let login = visitor.others.login.as_deref();
        let broker = image.brokers().broker(node).ok_or("it is not registered")?;
        let ranked = broker
            .end_points
            .iter()
            .filter_map(|one| rank(&config, login, &one.name, one.security_protocol).map(|rank| (rank, one)));
        let Some((_, found)) = ranked.min_by_key(|(rank, _)| *rank) else {
            return Err(match login {
                Some(login) => format!(
                    "it has no listener of this broker's where User:{} can log in by {}",
                    login.user(),
                    login.mechanism().name()
                ),
                None => "all its listeners require a login or a certificate, and the console has neither"
                    .to_owned(),
            });
        };
        Ok(Target {
            address: levada_client::cluster::address(&found.host, i32::from(found.port)),
            listener: found.name.clone(),
            has_tls: [Protocol::Ssl.id(), Protocol::SaslSsl.id()].contains(&found.security_protocol),
            config,
        })
    }

    /// The connection of a page to another broker; none if the broker is not available now.
    fn link(&self, visitor: &Visitor, node: i32) -> Option<Arc<Link>> {
        let others = &visitor.others;
        if let Some(link) = others.links.lock().get(&node).filter(|link| !link.is_cut.load(Ordering::Acquire))
        {
            return Some(link.clone());
        }
        let target = self.target(visitor, node).and_then(|target| {
            let key = (visitor.caller.session().user().to_owned(), target.address.clone());
            let mut unheard = self.unheard.lock();
            unheard.retain(|_, (at, _)| at.elapsed() < RETRY);
            match unheard.get(&key) {
                Some((_, reason)) => Err(reason.clone()),
                None => Ok(target),
            }
        });
        match target {
            Ok(target) => {
                let login = others.login.clone();
                let (connection, socket, is_cut) = Default::default();
                let link = Arc::new(Link { target, login, connection, socket, is_cut });
                others.links.lock().insert(node, link.clone());
                others.unheard.lock().remove(&node);
                Some(link)
            }
            Err(reason) => {
                others.unheard.lock().insert(node, reason);
                None
            }
        }
    }

    /// Sends a request to another broker from a thread that may block.
    fn send<R>(
        &self,
        visitor: &Visitor,
        (node, newest): (i32, i16),
        (request, wait): (R, Duration),
    ) -> Option<JoinHandle<Option<R::Response>>>
    where
        R: RequestResponsePair + Send + 'static,
        R::Response: Send + 'static,
    {
        let link = self.link(visitor, node)?;
        let (others, unheard, turns) = (visitor.others.clone(), self.unheard.clone(), self.remote.clone());
        let session = visitor.caller.session();
        let (requester, user) = (session.requester(), session.user().to_owned());
        let limit = others.limit() + wait;
        Some(tokio::spawn(async move {
            let sender = link.clone();
            let began = Instant::now();
            let sent = turns.run(requester, move || sender.send(newest, &request));
            let reason = match tokio::time::timeout(limit, sent).await {
                Ok(Ok(answer)) => return Some(answer),
                Ok(Err(error)) => error.to_string(),
                Err(_) => format!("no response from {} within {} ms", link.target.address, limit.as_millis()),
            };
            link.cut();
            *others.lost.lock() += began.elapsed().saturating_sub(wait);
            unheard.lock().insert((user, link.target.address.clone()), (Instant::now(), reason.clone()));
            others.unheard.lock().insert(node, reason);
            None
        }))
    }
}

/// The response to a request that was sent; none if there is none.
async fn awaited<T>(sent: JoinHandle<Option<T>>) -> Option<T> {
    sent.await.unwrap_or_else(|failed| std::panic::resume_unwind(failed.into_panic()))
}

#[cfg(test)]
mod tests;
