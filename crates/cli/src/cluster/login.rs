//! Authentication of the command line: `--command-config` with Kafka's client properties, TLS and
//! SASL.

use std::net::TcpStream;
use std::path::Path;
use std::sync::Once;
use std::{env, fs};

use levada_client::{Connection, ConnectionOptions};
use levada_config::{Property, parse_properties};
use levada_security::jaas::Jaas;
use levada_security::keystore::{ClientTls, SslSettings};
use levada_security::login::{LoginFault, SaslLogin};
use levada_security::sasl::Mechanism;
use levada_terminal::failure::Failure;
use levada_wire::StrBytes;
use levada_wire::messages::{SaslAuthenticateRequest, SaslHandshakeRequest};

use crate::{client_properties, kafka_error};

/// Credentials of the command line, and its trusted authorities.
#[derive(Clone, Debug, Default)]
pub(crate) struct Login {
    tls: Option<ClientTls>,
    credentials: Option<SaslLogin>,
}

/// Environment variable of a token, an alternative to a file.
const TOKEN: &str = "LEVADA_OAUTHBEARER_TOKEN";

impl Login {
    /// Reads a file with Kafka's client properties. Names that have no effect cause a warning, once
    /// a process.
    pub(crate) fn load(path: &Path) -> Result<Self, Failure> {
        static WARNING: Once = Once::new();
        let properties = properties(path)?;
        let names = properties.iter().map(|property| property.key.as_str());
        let warning = client_properties::check_names(&format!("--command-config {}", path.display()), names);
        if let Some(warning) = warning.map_err(Failure::Usage)? {
            WARNING.call_once(|| tell!("warning: {warning}"));
        }
        let value = |key: &str| {
            properties.iter().rev().find(|property| property.key == key).map(|property| property.value.trim())
        };
        Self::of(&format!("--command-config {}", path.display()), value)
    }

    /// The login that these client properties describe. `source` is their place, for errors.
    pub(crate) fn of<'a>(
        source: &str,
        value: impl Fn(&str) -> Option<&'a str> + Copy + 'a,
    ) -> Result<Self, Failure> {
        let wrong = |what: &str| Failure::Usage(format!("{source}: {what}"));
        let (has_tls, has_sasl) = client_properties::protocol(value("security.protocol")).map_err(wrong)?;
        let tls = || {
            ClientTls::load(&SslSettings::new(source.to_owned(), value))
                .map_err(|error| Failure::Usage(error.to_string()))
        };
        let credentials = has_sasl.then(|| credentials(value, wrong)).transpose()?;
        kafka_error::ask_as(match &credentials {
            Some(credentials) => Some(credentials.user().to_owned()).filter(|user| !user.is_empty()),
            // With TLS, a certificate may name the user.
            None => (!has_tls).then(|| "ANONYMOUS".to_owned()),
        });
        Ok(Self { tls: has_tls.then(tls).transpose()?, credentials })
    }

    /// An authenticated connection.
    pub(crate) fn connect(&self, address: &str, options: &ConnectionOptions) -> Result<Connection, Failure> {
        self.connect_with_socket(address, options).map(|(client, _)| client)
    }

    /// The same, with another handle of its socket, to wait for answers.
    pub(crate) fn connect_with_socket(
        &self,
        address: &str,
        options: &ConnectionOptions,
    ) -> Result<(Connection, TcpStream), Failure> {
        let mut handle = None;
        let mut client = Connection::connect_over(address, options, |host, socket| {
            handle = Some(socket.try_clone()?);
            Ok(match &self.tls {
                None => Box::new(socket),
                Some(tls) => Box::new(tls.connect(host, socket)?),
            })
        })?;
        if let Some(credentials) = &self.credentials {
            authenticate(credentials, &mut client)?;
        }
        let socket = handle.expect("the client has asked for a channel over its socket");
        Ok((client, socket))
    }
}

/// The client properties of a file.
pub(crate) fn properties(path: &Path) -> Result<Vec<Property>, Failure> {
    let shown = path.display();
    let text = fs::read(path)
        .map_err(|error| Failure::Usage(format!("cannot read --command-config {shown}: {error}")))?;
    parse_properties(&text).map_err(|error| {
        Failure::Usage(format!("--command-config {shown}: line {}: {}", error.line, error.reason))
    })
}

fn credentials<'a>(
    value: impl Fn(&str) -> Option<&'a str>,
    wrong: impl Fn(&str) -> Failure,
) -> Result<SaslLogin, Failure> {
    let mechanism = client_properties::mechanism(value("sasl.mechanism")).map_err(&wrong)?;
    if mechanism == Mechanism::OauthBearer {
        let secret = token(value, env::var(TOKEN).ok()).map_err(|error| wrong(&error))?;
        return Ok(SaslLogin::new(mechanism, String::new(), secret));
    }
    let jaas = Jaas::parse(value("sasl.jaas.config").unwrap_or_default())
        .map_err(|error| wrong(&format!("sasl.jaas.config: {error}")))?;
    let option = |name: &str| {
        let found = jaas.options.get(name).cloned();
        found.ok_or_else(|| wrong(&format!("sasl.jaas.config has no {name}=\"…\"")))
    };
    Ok(SaslLogin::new(mechanism, option("username")?, option("password")?))
}

/// Shows the credentials to the broker behind `client`.
fn authenticate(credentials: &SaslLogin, client: &mut Connection) -> Result<(), Failure> {
    let mechanism = credentials.mechanism();
    let mut handshake = SaslHandshakeRequest::default();
    handshake.mechanism = StrBytes::from(mechanism.name());
    let offered = client.request(&handshake)?;
    if offered.error_code != 0 {
        let names: Vec<&str> = offered.mechanisms.iter().map(StrBytes::as_str).collect();
        let doing = format!("authenticate by {}", mechanism.name());
        let said = (!names.is_empty()).then(|| format!("the broker offers {}", names.join(", ")));
        return kafka_error::check(offered.error_code, &doing, said.as_deref());
    }
    let doing = match mechanism {
        Mechanism::OauthBearer => "authenticate by OAUTHBEARER".to_owned(),
        _ => format!("authenticate as {}", credentials.user()),
    };
    let mut send = |token: &[u8]| {
        let mut request = SaslAuthenticateRequest::default();
        request.auth_bytes = bytes::Bytes::copy_from_slice(token);
        let answer = client.request(&request)?;
        kafka_error::check(answer.error_code, &doing, answer.error_message.as_deref())?;
        Ok(answer.auth_bytes.to_vec())
    };
    credentials.show(|token| send(token).map_err(FailedStep)).map_err(|FailedStep(failure)| failure)
}

/// The failure of a step of a login.
struct FailedStep(Failure);

impl From<LoginFault> for FailedStep {
    fn from(fault: LoginFault) -> Self {
        Self(Failure::new(fault.to_string()))
    }
}

/// The token of the file in `sasl.oauthbearer.token.endpoint.url`, else the given one. Errors do
/// not repeat it.
fn token<'a>(value: impl Fn(&str) -> Option<&'a str>, given: Option<String>) -> Result<String, String> {
    const URL: &str = "sasl.oauthbearer.token.endpoint.url";
    let text = match (value(URL).filter(|url| !url.is_empty()), given) {
        (Some(url), _) => {
            let path = url.strip_prefix("file:").map(|path| path.strip_prefix("//").unwrap_or(path));
            let path = path.ok_or_else(|| {
                format!("{URL} must be file:/…, a file with a token; levada requests no token from a server")
            })?;
            fs::read_to_string(path).map_err(|error| format!("{URL}: cannot read {path}: {error}"))?
        }
        (None, Some(given)) => given,
        (None, None) => {
            return Err(format!("OAUTHBEARER needs a token: {URL}=file:/…, or {TOKEN} in the environment"));
        }
    };
    let token = text.trim();
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
    if !token.is_empty() && token.bytes().all(is_token) {
        Ok(token.to_owned())
    } else {
        Err("the token is not valid: expected letters, digits and -._~+/= on one line".to_owned())
    }
}

#[cfg(test)]
mod tests;
