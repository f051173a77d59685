//! Authentication of the command line: `--command-config` with Kafka's client properties, TLS and
//! SASL.

use std::{env, fmt, fs, net::TcpStream, path::Path};

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use levada_broker::{
    config::{Property, parse_properties},
    keystore::{ClientTls, SslSettings},
    security::{jaas::Jaas, nonce, scram},
};
use levada_wire::{
    Client, ClientError, ClientOptions, StrBytes,
    messages::{SaslAuthenticateRequest, SaslHandshakeRequest},
};

use crate::{failure::Failure, kafka_error};

/// Credentials of the command line, and its trusted authorities.
#[derive(Clone, Debug, Default)]
pub(crate) struct Login {
    tls: Option<ClientTls>,
    credentials: Option<Credentials>,
}

#[derive(Clone)]
struct Credentials {
    mechanism: Mechanism,
    /// Nobody in particular for OAUTHBEARER: the token says who.
    user: String,
    /// A password, or a token.
    secret: String,
}

/// Where a token may be that no file holds.
const TOKEN: &str = "LEVADA_OAUTHBEARER_TOKEN";

#[derive(Clone, Copy, Debug)]
enum Mechanism {
    Plain,
    Scram(scram::ScramMechanism),
    OauthBearer,
}

impl fmt::Debug for Credentials {
    /// Without the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("user", &self.user).finish_non_exhaustive()
    }
}

impl Mechanism {
    fn from_name(name: &str) -> Option<Self> {
        match name {
            "PLAIN" => Some(Self::Plain),
            "OAUTHBEARER" => Some(Self::OauthBearer),
            name => scram::ScramMechanism::from_name(name).map(Self::Scram),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::Scram(mechanism) => mechanism.name(),
            Self::OauthBearer => "OAUTHBEARER",
        }
    }
}

impl Login {
    /// Reads a file with Kafka's client properties; those that say nothing about security are
    /// passed over.
    pub(crate) fn load(path: &Path) -> Result<Self, Failure> {
        let properties = properties(path)?;
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
        let protocol = value("security.protocol").unwrap_or("PLAINTEXT").to_uppercase();
        let (has_tls, has_sasl) = match protocol.as_str() {
            "PLAINTEXT" => (false, false),
            "SSL" => (true, false),
            "SASL_PLAINTEXT" => (false, true),
            "SASL_SSL" => (true, true),
            _ => return Err(wrong("security.protocol must be PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL")),
        };
        let tls = || {
            ClientTls::load(&SslSettings::new(source.to_owned(), value))
                .map_err(|error| Failure::Usage(error.to_string()))
        };
        let credentials = has_sasl.then(|| Credentials::load(value, wrong)).transpose()?;
        kafka_error::ask_as(match &credentials {
            Some(credentials) => Some(credentials.user.clone()).filter(|user| !user.is_empty()),
            // With TLS, a certificate may name the user.
            None => (!has_tls).then(|| "ANONYMOUS".to_owned()),
        });
        Ok(Self { tls: has_tls.then(tls).transpose()?, credentials })
    }

    /// A connection on which the cluster knows who asks.
    pub(crate) fn connect(&self, address: &str, options: &ClientOptions) -> Result<Client, Failure> {
        self.connect_with_socket(address, options).map(|(client, _)| client)
    }

    /// The same, with another handle of its socket, to wait for answers.
    pub(crate) fn connect_with_socket(
        &self,
        address: &str,
        options: &ClientOptions,
    ) -> Result<(Client, TcpStream), Failure> {
        let mut handle = None;
        let mut client = Client::connect_over(address, options, |host, socket| {
            handle = Some(socket.try_clone()?);
            Ok(match &self.tls {
                None => Box::new(socket),
                Some(tls) => Box::new(tls.connect(host, socket)?),
            })
        })?;
        if let Some(credentials) = &self.credentials {
            credentials.show(&mut client)?;
        }
        let socket = handle.expect("the client has asked for a channel over its socket");
        Ok((client, socket))
    }
}

/// The client properties of a file.
pub(crate) fn properties(path: &Path) -> Result<Vec<Property>, Failure> {
    let shown = path.display();
    let text = fs::read_to_string(path)
        .map_err(|error| Failure::Usage(format!("cannot read --command-config {shown}: {error}")))?;
    parse_properties(&text).map_err(|error| {
        Failure::Usage(format!("--command-config {shown}: line {}: {}", error.line, error.reason))
    })
}

impl Credentials {
    fn load<'a>(
        value: impl Fn(&str) -> Option<&'a str>,
        wrong: impl Fn(&str) -> Failure,
    ) -> Result<Self, Failure> {
        let mechanism = value("sasl.mechanism").and_then(Mechanism::from_name);
        let mechanism = mechanism.ok_or_else(|| {
            wrong("sasl.mechanism must be PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER")
        })?;
        if matches!(mechanism, Mechanism::OauthBearer) {
            let secret = token(value, env::var(TOKEN).ok()).map_err(|error| wrong(&error))?;
            return Ok(Self { mechanism, user: String::new(), secret });
        }
        let jaas = Jaas::parse(value("sasl.jaas.config").unwrap_or_default())
            .map_err(|error| wrong(&format!("sasl.jaas.config: {error}")))?;
        let option = |name: &str| {
            let found = jaas.options.get(name).cloned();
            found.ok_or_else(|| wrong(&format!("sasl.jaas.config has no {name}=\"…\"")))
        };
        Ok(Self { mechanism, user: option("username")?, secret: option("password")? })
    }

    fn show(&self, client: &mut Client) -> Result<(), Failure> {
        let mut handshake = SaslHandshakeRequest::default();
        handshake.mechanism = StrBytes::from(self.mechanism.name());
        let offered = client.request(&handshake)?;
        if offered.error_code != 0 {
            let names: Vec<&str> = offered.mechanisms.iter().map(StrBytes::as_str).collect();
            let doing = format!("authenticate by {}", self.mechanism.name());
            let said = (!names.is_empty()).then(|| format!("the broker offers {}", names.join(", ")));
            return kafka_error::check(offered.error_code, &doing, said.as_deref());
        }
        match self.mechanism {
            Mechanism::Plain => {
                self.send(client, format!("\0{}\0{}", self.user, self.secret).as_bytes())?;
                Ok(())
            }
            Mechanism::Scram(mechanism) => self.show_by_scram(client, mechanism),
            Mechanism::OauthBearer => self.show_token(client),
        }
    }

    fn show_token(&self, client: &mut Client) -> Result<(), Failure> {
        let said = self.send(client, format!("n,,\x01auth=Bearer {}\x01\x01", self.secret).as_bytes())?;
        if said.is_empty() {
            return Ok(());
        }
        // Refused; the broker says so as an error once it has been told that we heard.
        self.send(client, b"\x01")?;
        Err(Failure::new("the broker refuses the token"))
    }

    fn show_by_scram(&self, client: &mut Client, mechanism: scram::ScramMechanism) -> Result<(), Failure> {
        let user = self.user.replace('=', "=3D").replace(',', "=2C");
        let own = nonce();
        let first = format!("n={user},r={own}");
        let challenge = self.send(client, format!("n,,{first}").as_bytes())?;
        let confused = || Failure::new("the broker's SCRAM challenge cannot be understood");
        let challenge = String::from_utf8(challenge).map_err(|_| confused())?;
        let field = |name: &str| challenge.split(',').find_map(|field| field.strip_prefix(name));
        let (both, salt) = field("r=").zip(field("s=")).ok_or_else(confused)?;
        let salt = BASE64.decode(salt).map_err(|_| confused())?;
        let iterations: u32 = field("i=").and_then(|text| text.parse().ok()).ok_or_else(confused)?;
        // Whoever sends more iterations than a server may ask for wants our time, not our proof.
        let limit = scram::ITERATIONS_MAX.unsigned_abs() * 64;
        if !both.starts_with(&own) || iterations > limit {
            return Err(confused());
        }
        let salted = mechanism.salted_password(&self.secret, &salt, iterations);
        let without_proof = format!("c=biws,r={both}");
        let auth_message = format!("{first},{challenge},{without_proof}");
        let proof = BASE64.encode(mechanism.client_proof(&salted, &auth_message));
        let last = self.send(client, format!("{without_proof},p={proof}").as_bytes())?;
        let expected = mechanism.server_signature(&mechanism.server_key(&salted), &auth_message);
        match last == format!("v={}", BASE64.encode(expected)).as_bytes() {
            true => Ok(()),
            false => {
                Err(Failure::new("the broker does not know the password: it is not who it claims to be"))
            }
        }
    }

    fn send(&self, client: &mut Client, token: &[u8]) -> Result<Vec<u8>, Failure> {
        let mut request = SaslAuthenticateRequest::default();
        request.auth_bytes = bytes::Bytes::copy_from_slice(token);
        let answer = client.request(&request).map_err(|error: ClientError| Failure::from(error))?;
        let doing = match self.mechanism {
            Mechanism::OauthBearer => "authenticate by OAUTHBEARER".to_owned(),
            _ => format!("authenticate as {}", self.user),
        };
        kafka_error::check(answer.error_code, &doing, answer.error_message.as_deref())?;
        Ok(answer.auth_bytes.to_vec())
    }
}

/// The token of the file that `sasl.oauthbearer.token.endpoint.url` names, else the one that was
/// given. Errors do not repeat it.
fn token<'a>(value: impl Fn(&str) -> Option<&'a str>, given: Option<String>) -> Result<String, String> {
    const URL: &str = "sasl.oauthbearer.token.endpoint.url";
    let text = match (value(URL).filter(|url| !url.is_empty()), given) {
        (Some(url), _) => {
            let path = url.strip_prefix("file:").map(|path| path.strip_prefix("//").unwrap_or(path));
            let path = path.ok_or_else(|| {
                format!("{URL} must be file:/…, a file with a token: levada asks no server for one")
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
    match !token.is_empty() && token.bytes().all(is_token) {
        true => Ok(token.to_owned()),
        false => {
            Err("the token is not one: letters, digits and -._~+/= are expected, on one line".to_owned())
        }
    }
}

#[cfg(test)]
mod tests;
