//! The client's two SCRAM messages, in the grammar that Kafka accepts.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

/// `n,[a=authzid],[m=…,]n=user,r=nonce[,name=value]…`
#[derive(Debug, PartialEq)]
pub(super) struct ClientFirst<'a> {
    pub(super) authorization_id: String,
    sasl_name: &'a str,
    pub(super) nonce: &'a str,
    extensions: &'a str,
}

impl<'a> ClientFirst<'a> {
    pub(super) fn parse(message: &'a [u8]) -> Option<Self> {
        let text = std::str::from_utf8(message).ok()?;
        let (authorization_id, bare) = text.strip_prefix("n,")?.split_once(',')?;
        let authorization_id = match authorization_id {
            "" => String::new(),
            given => plain_name(given.strip_prefix("a=").filter(|name| is_sasl_name(name))?),
        };
        let bare = match bare.strip_prefix("m=") {
            Some(rest) => rest.split_once(',').filter(|(value, _)| is_value(value))?.1,
            None => bare,
        };
        let (sasl_name, rest) = bare.strip_prefix("n=")?.split_once(",r=")?;
        let (nonce, extensions) = rest.split_once(',').unwrap_or((rest, ""));
        let valid = is_sasl_name(sasl_name) && is_nonce(nonce) && are_extensions(extensions);
        valid.then_some(Self { authorization_id, sasl_name, nonce, extensions })
    }

    pub(super) fn user(&self) -> String {
        plain_name(self.sasl_name)
    }

    /// True if the client presents a delegation token instead of a password.
    pub(super) fn is_token(&self) -> bool {
        let is_true = |value: &str| value.eq_ignore_ascii_case("true");
        self.extensions.split(',').filter_map(|pair| pair.strip_prefix("tokenauth=")).any(is_true)
    }

    /// The part that is signed.
    pub(super) fn bare(&self) -> String {
        let Self { sasl_name, nonce, extensions, .. } = self;
        let comma = if extensions.is_empty() { "" } else { "," };
        format!("n={sasl_name},r={nonce}{comma}{extensions}")
    }
}

/// `c=binding,r=nonce[,name=value]…,p=proof`
#[derive(Debug, PartialEq)]
pub(super) struct ClientFinal<'a> {
    binding: &'a str,
    pub(super) nonce: &'a str,
    pub(super) proof: Vec<u8>,
}

impl<'a> ClientFinal<'a> {
    pub(super) fn parse(message: &'a [u8]) -> Option<Self> {
        let text = std::str::from_utf8(message).ok()?;
        let (binding, rest) = text.strip_prefix("c=")?.split_once(",r=")?;
        let (rest, proof) = rest.rsplit_once(",p=")?;
        let (nonce, extensions) = rest.split_once(',').unwrap_or((rest, ""));
        BASE64.decode(binding).ok()?;
        let proof = BASE64.decode(proof).ok()?;
        (is_nonce(nonce) && are_extensions(extensions)).then_some(Self { binding, nonce, proof })
    }

    /// The part that is signed.
    pub(super) fn without_proof(&self) -> String {
        format!("c={},r={}", self.binding, self.nonce)
    }
}

fn plain_name(sasl_name: &str) -> String {
    sasl_name.replace("=2C", ",").replace("=3D", "=")
}

/// Seven-bit text without a comma, where `=` only begins an escape.
fn is_sasl_name(name: &str) -> bool {
    is_value(name) && name.split('=').skip(1).all(|rest| rest.starts_with("2C") || rest.starts_with("3D"))
}

fn is_value(value: &str) -> bool {
    !value.is_empty() && value.bytes().all(|byte| (1..=0x7f).contains(&byte) && byte != b',')
}

fn is_nonce(nonce: &str) -> bool {
    !nonce.is_empty() && nonce.bytes().all(|byte| byte.is_ascii_graphic() && byte != b',')
}

fn are_extensions(extensions: &str) -> bool {
    let is_pair = |pair: &str| {
        pair.split_once('=').is_some_and(|(name, value)| {
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphabetic()) && is_value(value)
        })
    };
    extensions.is_empty() || extensions.split(',').all(is_pair)
}
