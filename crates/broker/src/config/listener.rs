//! Listener addresses: `NAME://host:port` lists, which of them are opened, and what clients are told to connect to.

use std::fmt;

use super::key::words;

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
    /// Where to bind.
    pub bind: HostPort,
    /// What clients are told; `None` means the address that was bound.
    pub advertised: Option<HostPort>,
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

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

/// What the keys around listeners say, as texts.
pub(super) struct ListenerKeys<'a> {
    pub(super) listeners: &'a str,
    pub(super) advertised: &'a str,
    pub(super) protocols: &'a str,
    pub(super) controllers: &'a str,
}

/// A problem with one of the listener keys: the key, and what its value must be.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ListenerProblem {
    pub(super) key: &'static str,
    pub(super) must_be: String,
}

/// The listeners to open. Those named in `controller.listener.names` are left out: there is no controller to reach.
pub(super) fn resolve(keys: &ListenerKeys<'_>) -> Result<Vec<Listener>, ListenerProblem> {
    let controllers: Vec<String> = words(keys.controllers).map(str::to_uppercase).collect();
    let advertised = addresses("advertised.listeners", keys.advertised)?;
    let mut listeners: Vec<Listener> = Vec::new();
    for (name, bind) in addresses("listeners", keys.listeners)? {
        if controllers.contains(&name) {
            continue;
        }
        require_plaintext(&name, keys.protocols)?;
        if listeners.iter().any(|other| other.name == name) {
            return Err(problem("listeners", format!("a list with each name once ({name} is there twice)")));
        }
        let told = advertised.iter().find(|(other, _)| *other == name).map(|(_, told)| told.clone());
        listeners.push(Listener { name, bind, advertised: told });
    }
    if listeners.is_empty() {
        return Err(problem("listeners", "a list with at least one listener for clients".to_owned()));
    }
    match advertised.iter().find(|(name, told)| !controllers.contains(name) && told.host.is_empty()) {
        Some((name, _)) => {
            Err(problem("advertised.listeners", format!("addresses with a host ({name} has none)")))
        }
        None => stray_advertised(&advertised, &listeners, &controllers).map_or(Ok(listeners), Err),
    }
}

fn stray_advertised(
    advertised: &[(String, HostPort)],
    listeners: &[Listener],
    controllers: &[String],
) -> Option<ListenerProblem> {
    let served =
        |name: &String| controllers.contains(name) || listeners.iter().any(|other| other.name == *name);
    let (stray, _) = advertised.iter().find(|(name, _)| !served(name))?;
    Some(problem(
        "advertised.listeners",
        format!("addresses of listeners in `listeners` ({stray} is not there)"),
    ))
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

/// A listener whose protocol is not served would otherwise be opened without the protection it promises.
fn require_plaintext(name: &str, protocols: &str) -> Result<(), ListenerProblem> {
    let mapped = words(protocols)
        .filter_map(|entry| entry.split_once(':'))
        .find(|(listener, _)| listener.trim().eq_ignore_ascii_case(name))
        .map(|(_, protocol)| protocol.trim().to_uppercase());
    match mapped.as_deref() {
        Some("PLAINTEXT") => Ok(()),
        Some(other) => Err(problem(
            "listeners",
            format!("listeners with the protocol PLAINTEXT, the only one served ({name} maps to {other})"),
        )),
        None => Err(problem(
            "listeners",
            format!("listeners named in listener.security.protocol.map (add {name}:PLAINTEXT to it)"),
        )),
    }
}

fn problem(key: &'static str, must_be: String) -> ListenerProblem {
    ListenerProblem { key, must_be }
}
