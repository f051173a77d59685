//! Listeners: lists of `NAME://host:port`, the selection of the listeners to open, their security
//! protocols, and the addresses that clients get.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use super::Settings;
use super::words::words;

/// A host and a port, not yet resolved. An empty host means every interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPort {
    /// Name or address; IPv6 addresses without brackets.
    pub host: String,
    /// Port; 0 lets the system choose.
    pub port: u16,
}

/// An address on which Kafka clients are served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// The listener's name, in capitals.
    pub name: String,
    /// The address to bind.
    pub bind: HostPort,
    /// Advertised address as configured, perhaps with port 0; `None` means the address that the
    /// client connected to. See [`Listener::told`].
    pub advertised: Option<HostPort>,
    /// Security protocol of its connections.
    pub protocol: Protocol,
}

impl Listener {
    /// The advertised host and port. Port 0 stands for the port that was bound, as in Kafka.
    pub fn told(&self, bound_port: u16) -> Option<(String, u16)> {
        let HostPort { host, port } = self.advertised.as_ref()?;
        Some((host.clone(), if *port == 0 { bound_port } else { *port }))
    }
}

/// Limits of one listener's connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenerLimits {
    /// `listener.name.NAME.max.connections`.
    pub connections: u32,
    /// `listener.name.NAME.max.connection.creation.rate`.
    pub creation_rate: u32,
    /// True for the listener between brokers where there are others: limits of all listeners
    /// together do not keep it from clients of the others.
    pub is_protected: bool,
}

impl Default for ListenerLimits {
    fn default() -> Self {
        let unlimited = i32::MAX.unsigned_abs();
        Self { connections: unlimited, creation_rate: unlimited, is_protected: false }
    }
}

/// Security protocol of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// Plaintext, without authentication by SASL.
    Plaintext,
    /// TLS, without authentication by SASL.
    Ssl,
    /// Clients authenticate by SASL.
    SaslPlaintext,
    /// TLS, and clients authenticate by SASL.
    SaslSsl,
}

impl Protocol {
    /// Every protocol, in the order of Kafka's numbers.
    pub const ALL: [Self; 4] = [Self::Plaintext, Self::Ssl, Self::SaslPlaintext, Self::SaslSsl];

    /// The protocol of this name, in upper or lower case.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|protocol| protocol.name().eq_ignore_ascii_case(name))
    }

    /// Kafka's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plaintext => "PLAINTEXT",
            Self::Ssl => "SSL",
            Self::SaslPlaintext => "SASL_PLAINTEXT",
            Self::SaslSsl => "SASL_SSL",
        }
    }

    /// Kafka's number, as metadata records have it.
    pub fn id(self) -> i16 {
        match self {
            Self::Plaintext => 0,
            Self::Ssl => 1,
            Self::SaslPlaintext => 2,
            Self::SaslSsl => 3,
        }
    }

    /// True if connections are encrypted.
    pub fn has_tls(self) -> bool {
        matches!(self, Self::Ssl | Self::SaslSsl)
    }

    /// True if clients authenticate by SASL.
    pub fn has_sasl(self) -> bool {
        matches!(self, Self::SaslPlaintext | Self::SaslSsl)
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl HostPort {
    /// Reads `host:port`, `[v6]:port` or `:port`.
    pub fn parse(text: &str) -> Option<Self> {
        let (host, port) = text.trim().rsplit_once(':')?;
        let host = match host.strip_prefix('[') {
            Some(rest) => rest.strip_suffix(']')?,
            None if host.contains(':') => return None,
            None => host,
        };
        if host.contains(|c: char| c.is_whitespace() || "/[]".contains(c)) {
            return None;
        }
        Some(Self { host: host.to_owned(), port: port.parse().ok()? })
    }
}

impl HostPort {
    /// True for an IPv4 address, false for one of IPv6; none for a name.
    pub(crate) fn is_v4(&self) -> Option<bool> {
        self.host.parse::<IpAddr>().ok().map(|ip| ip.is_ipv4())
    }

    /// True if only this machine can connect to it.
    pub fn is_own_machine(&self) -> bool {
        let address = self.host.parse::<IpAddr>();
        self.host == "localhost" || address.is_ok_and(|address| address.to_canonical().is_loopback())
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// Values of the keys around listeners, as texts.
pub(super) struct ListenerKeys<'a> {
    pub(super) listeners: &'a str,
    pub(super) advertised: &'a str,
    pub(super) protocols: &'a str,
    pub(super) controllers: &'a str,
    pub(super) inter_broker_name: &'a str,
    pub(super) inter_broker_protocol: &'a str,
}

/// A problem with one of the listener keys: the key, and its valid values.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ListenerProblem {
    pub(super) key: &'static str,
    pub(super) must_be: String,
}

/// The listeners to open. Listeners of `controller.listener.names` are omitted: there is no
/// controller to reach.
pub(super) fn resolve(keys: &ListenerKeys<'_>) -> Result<Vec<Listener>, ListenerProblem> {
    let controllers: Vec<String> = words(keys.controllers).map(str::to_uppercase).collect();
    let protocols = protocols(keys.protocols)?;
    let advertised = addresses("advertised.listeners", keys.advertised)?;
    let mut listeners: Vec<Listener> = Vec::new();
    for (name, bind) in addresses("listeners", keys.listeners)? {
        if controllers.contains(&name) {
            continue;
        }
        let protocol = protocol_of(&name, &protocols)?;
        if listeners.iter().any(|other| other.name == name) {
            return Err(problem("listeners", format!("a list with each name once ({name} occurs twice)")));
        }
        if let Some(other) = listeners.iter().find(|other| collide(&other.bind, &bind)) {
            return Err(problem(
                "listeners",
                format!(
                    "a list with each port once, or once for each IP family ({} and {name} share one)",
                    other.name
                ),
            ));
        }
        let told = advertised.iter().find(|(other, _)| *other == name).map(|(_, told)| told.clone());
        listeners.push(Listener { name, bind, advertised: told, protocol });
    }
    if listeners.is_empty() {
        return Err(problem("listeners", "a list with at least one listener for clients".to_owned()));
    }
    check_advertised(&advertised, &listeners, &controllers)?;
    check_inter_broker(keys, &listeners)?;
    Ok(listeners)
}

/// True if two listeners cannot both be bound. One port may serve IPv4 by one listener and IPv6 by
/// another, as in Kafka.
fn collide(one: &HostPort, other: &HostPort) -> bool {
    let apart = matches!((one.is_v4(), other.is_v4()), (Some(one), Some(other)) if one != other);
    one.port == other.port && one.port != 0 && !apart
}

fn check_advertised(
    advertised: &[(String, HostPort)],
    listeners: &[Listener],
    controllers: &[String],
) -> Result<(), ListenerProblem> {
    for (name, told) in advertised {
        if controllers.contains(name) {
            continue;
        }
        let must_be = if told.host.is_empty() {
            format!("addresses with a host ({name} has none)")
        } else if told.host.parse::<IpAddr>().is_ok_and(|ip| ip.is_unspecified()) {
            format!(
                "addresses that clients can connect to ({} of {name} is every address of a machine)",
                told.host
            )
        } else if !listeners.iter().any(|other| other.name == *name) {
            format!("addresses of listeners in `listeners` ({name} is not one of them)")
        } else {
            continue;
        };
        return Err(problem("advertised.listeners", must_be));
    }
    Ok(())
}

/// There is no second broker, but a name that is not a listener is a mistake, as in Kafka.
fn check_inter_broker(keys: &ListenerKeys<'_>, listeners: &[Listener]) -> Result<(), ListenerProblem> {
    const NAME: &str = "inter.broker.listener.name";
    const PROTOCOL: &str = "security.inter.broker.protocol";
    let name = keys.inter_broker_name;
    match (name, keys.inter_broker_protocol) {
        ("", "") => Ok(()),
        ("", protocol) if Protocol::parse(protocol).is_some() => Ok(()),
        ("", _) => Err(problem(PROTOCOL, "PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL".to_owned())),
        (_, "") if listeners.iter().any(|listener| listener.name.eq_ignore_ascii_case(name)) => Ok(()),
        (_, "") => Err(problem(NAME, "the name of a listener for clients in `listeners`".to_owned())),
        _ => Err(problem(NAME, format!("unset where {PROTOCOL} is set: either names the listener"))),
    }
}

fn addresses(key: &'static str, text: &str) -> Result<Vec<(String, HostPort)>, ListenerProblem> {
    words(text)
        .map(|word| {
            let (name, address) = word.split_once("://")?;
            (!name.is_empty()).then_some((name.to_uppercase(), HostPort::parse(address)?))
        })
        .collect::<Option<_>>()
        .ok_or_else(|| {
            problem(key, "a list of NAME://host:port, such as PLAINTEXT://127.0.0.1:9092".to_owned())
        })
}

/// The pairs of `listener.security.protocol.map`.
fn protocols(text: &str) -> Result<Vec<(String, Protocol)>, ListenerProblem> {
    let pair = |entry: &str| {
        let (name, protocol) = entry.split_once(':')?;
        Some((name.trim().to_uppercase(), Protocol::parse(protocol.trim())?))
    };
    words(text).map(pair).collect::<Option<_>>().ok_or_else(|| {
        let must_be = "a list of NAME:PROTOCOL, each protocol PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL";
        problem("listener.security.protocol.map", must_be.to_owned())
    })
}

/// The protocol of a listener. One without would otherwise be opened without the protection it
/// promises.
fn protocol_of(name: &str, protocols: &[(String, Protocol)]) -> Result<Protocol, ListenerProblem> {
    let mapped = protocols.iter().find(|(listener, _)| listener == name).map(|(_, protocol)| *protocol);
    mapped.ok_or_else(|| {
        problem(
            "listeners",
            format!("listeners named in listener.security.protocol.map (add {name}:PLAINTEXT to it)"),
        )
    })
}

/// Limits of each listener's connections. As in Kafka, the listener between brokers is the named
/// listener, or the listener of the protocol.
pub(super) fn limits(settings: &Settings, listeners: &[Listener]) -> BTreeMap<String, ListenerLimits> {
    let names = ["inter.broker.listener.name", "security.inter.broker.protocol"];
    let inner = names.into_iter().filter_map(|key| settings.text(key)).find(|name| !name.is_empty());
    let inner = inner.unwrap_or("PLAINTEXT");
    let limits = |listener: &Listener| {
        let own = |key: &str| settings.own_listener_text(&listener.name, key)?.parse().ok();
        let unlimited = ListenerLimits::default();
        ListenerLimits {
            connections: own("max.connections").unwrap_or(unlimited.connections),
            creation_rate: own("max.connection.creation.rate").unwrap_or(unlimited.creation_rate),
            is_protected: listeners.len() > 1 && listener.name.eq_ignore_ascii_case(inner),
        }
    };
    listeners.iter().map(|listener| (listener.name.clone(), limits(listener))).collect()
}

fn problem(key: &'static str, must_be: String) -> ListenerProblem {
    ListenerProblem { key, must_be }
}
