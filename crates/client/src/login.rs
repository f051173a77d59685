//! Login at a broker: TLS and SASL, by Kafka's client properties.

use std::net::TcpStream;
use std::time::Duration;
use std::{env, fs};

use bytes::Bytes;
use levada_security::jaas::Jaas;
use levada_security::keystore::{ClientTls, SslSettings, TlsError};
use levada_security::login::{LoginFault, SaslLogin};
use levada_security::sasl::Mechanism;
use levada_wire::StrBytes;
use levada_wire::messages::{SaslAuthenticateRequest, SaslHandshakeRequest};

use crate::connection::{Connection, ConnectionError, ConnectionOptions};
use crate::properties;

/// Credentials, and trusted authorities; neither by default.
#[derive(Clone, Debug, Default)]
pub struct Login {
    tls: Option<ClientTls>,
    credentials: Option<SaslLogin>,
}

/// Environment variable of a token, an alternative to a file.
const TOKEN: &str = "LEVADA_OAUTHBEARER_TOKEN";

/// Client properties that make no login.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// A property has no value that can be used. The reason never contains a secret.
    #[error("{place}: {reason}")]
    Property {
        /// The source of the properties, for errors.
        place: String,
        /// The property, and the allowed values.
        reason: String,
    },
    /// A key store or a trust store cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// Reason why a broker is not logged in to.
#[derive(Debug, thiserror::Error)]
pub enum LoginError {
    /// A request got no response.
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    /// The broker does not offer the mechanism.
    #[error("authenticate by {mechanism}: the broker offers {offered:?} (error code {code})")]
    Mechanism {
        /// Name of the SASL mechanism.
        mechanism: &'static str,
        /// Kafka's error code.
        code: i16,
        /// Mechanisms that the broker offers.
        offered: Vec<String>,
    },
    /// The broker refuses the user or the token.
    #[error("authenticate by {mechanism}: the broker refuses user {user:?} (error code {code})")]
    Refused {
        /// Name of the SASL mechanism.
        mechanism: &'static str,
        /// The user; empty for OAUTHBEARER, whose token names the user.
        user: String,
        /// Kafka's error code.
        code: i16,
        /// The broker's text, if it sent one.
        message: Option<String>,
    },
    /// The broker's side of the exchange is not acceptable.
    #[error(transparent)]
    Fault(#[from] LoginFault),
}

impl Login {
    /// The login that these client properties describe; other properties have no effect. `place` is
    /// where they are, for errors. Reads the files that they name, so that it blocks. A token can
    /// also be in the environment variable `LEVADA_OAUTHBEARER_TOKEN`.
    ///
    /// # Errors
    /// The first property or file that cannot be used.
    pub fn of<'a>(
        place: &str,
        value: impl Fn(&str) -> Option<&'a str> + Copy + 'a,
    ) -> Result<Self, SettingsError> {
        let wrong = |reason: String| SettingsError::Property { place: place.to_owned(), reason };
        let (has_tls, has_sasl) =
            properties::protocol(value("security.protocol")).map_err(|reason| wrong(reason.to_owned()))?;
        let credentials = has_sasl.then(|| credentials(value)).transpose().map_err(wrong)?;
        let tls = has_tls.then(|| ClientTls::load(&SslSettings::new(place.to_owned(), value))).transpose()?;
        Ok(Self { tls, credentials })
    }

    /// The user name with which a broker knows this client; `None` if only the broker knows it, as
    /// with certificates and tokens.
    #[must_use]
    pub fn user(&self) -> Option<&str> {
        match &self.credentials {
            Some(credentials) => Some(credentials.user()).filter(|_| !credentials.is_by_token()),
            // With TLS, a certificate may name the user.
            None => self.tls.is_none().then_some("ANONYMOUS"),
        }
    }

    /// An authenticated connection.
    ///
    /// # Errors
    /// No broker responds at the address, or it refuses the login.
    pub fn connect(&self, address: &str, options: &ConnectionOptions) -> Result<Connection, LoginError> {
        self.connect_with_socket(address, options).map(|(connection, _)| connection)
    }

    /// Like [`Login::connect`], with another handle of the socket, to wait for responses.
    ///
    /// # Errors
    /// Same as [`Login::connect`].
    pub fn connect_with_socket(
        &self,
        address: &str,
        options: &ConnectionOptions,
    ) -> Result<(Connection, TcpStream), LoginError> {
        let mut handle = None;
        let mut connection = Connection::connect_over(address, options, |host, socket| {
            handle = Some(socket.try_clone()?);
            Ok(match &self.tls {
                None => Box::new(socket),
                Some(tls) => Box::new(tls.connect(host, socket)?),
            })
        })?;
        if let Some(credentials) = &self.credentials {
            authenticate(credentials, &mut connection)?;
        }
        let socket = handle.expect("the connection has asked for a channel over its socket");
        Ok((connection, socket))
    }
}

fn credentials<'a>(value: impl Fn(&str) -> Option<&'a str>) -> Result<SaslLogin, String> {
    let mechanism = properties::mechanism(value("sasl.mechanism"))?;
    if mechanism == Mechanism::OauthBearer {
        let secret = token(value, env::var(TOKEN).ok())?;
        return Ok(SaslLogin::new(mechanism, String::new(), secret));
    }
    let jaas = Jaas::parse(value("sasl.jaas.config").unwrap_or_default())
        .map_err(|error| format!("sasl.jaas.config: {error}"))?;
    let option = |name: &str| {
        jaas.options.get(name).cloned().ok_or_else(|| format!("sasl.jaas.config has no {name}=\"…\""))
    };
    Ok(SaslLogin::of_module(mechanism, option("username")?, option("password")?, &jaas))
}

/// Authenticates on a connection. Returns the time after which the broker ends the session, if it
/// has a limit.
///
/// # Errors
/// The connection fails, or one of the two does not accept the other.
pub fn authenticate(
    credentials: &SaslLogin,
    connection: &mut Connection,
) -> Result<Option<Duration>, LoginError> {
    let mechanism = credentials.mechanism().name();
    let mut handshake = SaslHandshakeRequest::default();
    handshake.mechanism = StrBytes::from(mechanism);
    let response = connection.request(&handshake)?;
    if response.error_code != 0 {
        let offered = response.mechanisms.iter().map(|one| one.as_str().to_owned()).collect();
        return Err(LoginError::Mechanism { mechanism, code: response.error_code, offered });
    }
    let mut lifetime_ms = 0;
    credentials.show::<LoginError>(|token| {
        let mut request = SaslAuthenticateRequest::default();
        request.auth_bytes = Bytes::copy_from_slice(token);
        let response = connection.request(&request)?;
        if response.error_code != 0 {
            let (user, message) = (credentials.user().to_owned(), response.error_message);
            let message = message.map(|message| message.as_str().to_owned());
            return Err(LoginError::Refused { mechanism, user, code: response.error_code, message });
        }
        lifetime_ms = response.session_lifetime_ms;
        Ok(response.auth_bytes.to_vec())
    })?;
    Ok(u64::try_from(lifetime_ms).ok().filter(|ms| *ms > 0).map(Duration::from_millis))
}

/// The token of the file in `sasl.oauthbearer.token.endpoint.url`, otherwise the given one. Errors
/// do not repeat it.
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
