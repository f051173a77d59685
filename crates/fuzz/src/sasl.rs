//! Arbitrary input of an unauthenticated client: frames to a SASL exchange, with or without the
//! right handshake before them, bare tokens, and arbitrary contents of the configuration and a key
//! server. No client without a password is authenticated.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::{BufMut, BytesMut};
use levada_security::jaas::Jaas;
use levada_security::oauth::OauthConfig;
use levada_security::oauth::jwks::Jwks;
use levada_security::sasl::{Exchange, FrameContext, Mechanism, Offer, SaslConfig, SaslOutcome};
use levada_security::scram;

/// A P-256 key whose private half is unknown.
const KEYS: &str = r#"{"keys":[{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]}"#;

/// Checks one input.
pub fn run(input: &[u8]) {
    let Some((first, rest)) = input.split_first() else { return };
    let text = String::from_utf8_lossy(rest);
    if let Ok(jaas) = Jaas::parse(&text) {
        assert!(jaas.plain_users().len() <= jaas.options.len());
    }
    let _ = Jwks::parse(&text);
    let offers = Mechanism::ALL.map(|mechanism| Offer { mechanism, session_ms_max: Some(60_000) });
    let tokens = OauthConfig {
        sub_claim: "sub".to_owned(),
        scope_claim: "scope".to_owned(),
        ..OauthConfig::default()
    };
    let passwords = BTreeMap::from([("alice".to_owned(), "a password of some length".to_owned())]);
    let config = Arc::new(SaslConfig { offers: offers.to_vec(), passwords, tokens });
    let keys = Arc::new(Jwks::parse(KEYS).expect("the keys are well formed"));
    let mut exchange = Exchange::new(config, "nonce".to_owned());
    // Half of all users and tokens do not exist, and get the same answers as others.
    let of_user = |name: &str, mechanism: scram::ScramMechanism| {
        let exists = name.len().is_multiple_of(2);
        exists.then(|| mechanism.credential(b"salted", b"salt".to_vec(), 4096))
    };
    let of_token = |id: &str, mechanism: scram::ScramMechanism| {
        let credential = of_user(id, mechanism)?;
        Some(scram::TokenLogin { owner: "alice".to_owned(), credential, expires_ms: 1_700_000_000_001 })
    };
    let credentials = scram::CredentialSource { of_user: &of_user, of_token: &of_token, secret: "a secret" };
    let keys = &|_: &_| keys.clone();
    let context = FrameContext { now_ms: 1_700_000_000_000, credentials, keys };
    let mechanism = Mechanism::ALL[usize::from(first & 3)].name();
    let (greeted, framed) = (first & 4 != 0, first & 8 != 0);
    if greeted {
        exchange.step(handshake(mechanism, i16::from(framed)), &context);
    }
    for part in rest.split(|byte| *byte == 0xff) {
        let frame = if greeted && framed { authenticate(part) } else { BytesMut::from(part) };
        let outcome = exchange.step(frame, &context);
        assert!(!matches!(outcome, SaslOutcome::Done { .. }), "nobody knows a password");
    }
}

fn header(key: i16, version: i16) -> BytesMut {
    let mut frame = BytesMut::new();
    frame.put_i16(key);
    frame.put_i16(version);
    frame.put_i32(1);
    frame.put_i16(-1);
    frame
}

fn handshake(mechanism: &str, version: i16) -> BytesMut {
    let mut frame = header(17, version);
    frame.put_i16(mechanism.len() as i16);
    frame.put_slice(mechanism.as_bytes());
    frame
}

fn authenticate(token: &[u8]) -> BytesMut {
    let mut frame = header(36, 1);
    frame.put_i32(token.len() as i32);
    frame.put_slice(token);
    frame
}
