//! Talks of clients with the server, right and wrong.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use levada_wire::messages::{ApiVersionsRequest, MetadataRequest};
use proptest::prelude::*;

use super::*;

const NOW_MS: i64 = 1_000_000;

fn config() -> Arc<SaslConfig> {
    let offer = |mechanism, session_ms_max| Offer { mechanism, session_ms_max };
    Arc::new(SaslConfig {
        offers: vec![
            offer(Mechanism::Plain, Some(60_000)),
            offer(Mechanism::Scram(scram::ScramMechanism::Sha512), None),
        ],
        passwords: BTreeMap::from([("alice".to_owned(), "wonder".to_owned())]),
        tokens: OauthConfig::default(),
    })
}

fn exchange() -> Exchange {
    Exchange::new(config(), "nonce".to_owned())
}

fn frame<R: KafkaRequest>(version: i16, request: &R) -> BytesMut {
    let bytes = levada_wire::encode_request(7, Some("test"), version, request).unwrap();
    BytesMut::from(&bytes[4..])
}

fn handshake(version: i16, mechanism: &str) -> BytesMut {
    let mut request = SaslHandshakeRequest::default();
    request.mechanism = StrBytes::from(mechanism);
    frame(version, &request)
}

fn token(version: i16, bytes: &[u8]) -> BytesMut {
    let mut request = SaslAuthenticateRequest::default();
    request.auth_bytes = Bytes::copy_from_slice(bytes);
    frame(version, &request)
}

fn step(exchange: &mut Exchange, frame: BytesMut) -> SaslOutcome {
    let credential = |user: &str, mechanism: scram::ScramMechanism| {
        let salted = mechanism.salted_password("secret", b"salt", 4096);
        (user == "bob").then(|| mechanism.credential(&salted, b"salt".to_vec(), 4096))
    };
    let token = |id: &str, mechanism: scram::ScramMechanism| {
        let credential = mechanism.token_credential("of a test", id, "hmac");
        let login = || scram::TokenLogin { owner: "bob".to_owned(), credential, expires_ms: NOW_MS + 500 };
        (id == "id").then(login)
    };
    exchange.step(
        frame,
        &FrameContext {
            now_ms: NOW_MS,
            credentials: CredentialSource { of_user: &credential, of_token: &token, secret: "of a test" },
            keys: &|_| Arc::default(),
        },
    )
}

fn handshake_answer(outcome: &SaslOutcome) -> SaslHandshakeResponse {
    let (SaslOutcome::Reply(bytes) | SaslOutcome::Refused { reply: Some(bytes), .. }) = outcome else {
        panic!("{outcome:?}")
    };
    levada_wire::decode_response(bytes.slice(4..), 1).unwrap().1
}

fn answer(outcome: &SaslOutcome, version: i16) -> SaslAuthenticateResponse {
    let (SaslOutcome::Reply(bytes)
    | SaslOutcome::Done { reply: bytes, .. }
    | SaslOutcome::Refused { reply: Some(bytes), .. }) = outcome
    else {
        panic!("{outcome:?}")
    };
    levada_wire::decode_response(bytes.slice(4..), version).unwrap().1
}

#[test]
fn plain_login_works_with_both_handshake_versions() {
    for version in 0..=2 {
        let mut exchange = exchange();
        let outcome = step(&mut exchange, frame(3, &ApiVersionsRequest::default()));
        assert!(matches!(outcome, SaslOutcome::Versions(..)));
        let greeted = handshake_answer(&step(&mut exchange, handshake(1, "PLAIN")));
        let names: Vec<&str> = greeted.mechanisms.iter().map(StrBytes::as_str).collect();
        assert_eq!((greeted.error_code, &names[..]), (0, &["PLAIN", "SCRAM-SHA-512"][..]));
        let outcome = step(&mut exchange, token(version, b"\0alice\0wonder"));
        let lifetime = if version == 0 { 0 } else { 60_000 };
        assert_eq!(answer(&outcome, version).session_lifetime_ms, lifetime);
        let SaslOutcome::Done { identity, expires_ms, .. } = outcome else { panic!("{outcome:?}") };
        assert_eq!((&*identity.user, identity.mechanism), ("alice", Mechanism::Plain));
        assert_eq!(expires_ms, Some(NOW_MS + 60_000));
    }
    let mut exchange = exchange();
    assert!(matches!(step(&mut exchange, handshake(0, "PLAIN")), SaslOutcome::Reply(_)));
    let outcome = step(&mut exchange, BytesMut::from(&b"\0alice\0wonder"[..]));
    assert!(matches!(&outcome, SaslOutcome::Done { reply, .. } if **reply == [0; 4]), "{outcome:?}");
}

#[test]
fn scram_login_takes_two_exchanges() {
    let mechanism = scram::ScramMechanism::Sha512;
    let mut exchange = exchange();
    step(&mut exchange, handshake(1, "SCRAM-SHA-512"));
    let first = answer(&step(&mut exchange, token(2, b"n,,n=bob,r=me")), 2);
    let challenge = std::str::from_utf8(&first.auth_bytes).unwrap().to_owned();
    let auth_message = format!("n=bob,r=me,{challenge},c=biws,r=menonce");
    let salted = mechanism.salted_password("secret", b"salt", 4096);
    let proof = BASE64.encode(mechanism.client_proof(&salted, &auth_message));
    let outcome = step(&mut exchange, token(2, format!("c=biws,r=menonce,p={proof}").as_bytes()));
    let signature = mechanism.server_signature(&mechanism.server_key(&salted), &auth_message);
    assert_eq!(answer(&outcome, 2).auth_bytes, format!("v={}", BASE64.encode(signature)));
    assert!(matches!(outcome, SaslOutcome::Done { expires_ms: None, .. }), "{outcome:?}");
}

#[test]
fn session_of_delegation_token_expires_with_it() {
    let mechanism = scram::ScramMechanism::Sha512;
    for (password, enters) in [("hmac", true), ("secret", false)] {
        let mut exchange = exchange();
        step(&mut exchange, handshake(1, "SCRAM-SHA-512"));
        let bare = "n=id,r=me,tokenauth=true";
        let first = answer(&step(&mut exchange, token(2, format!("n,,{bare}").as_bytes())), 2);
        let challenge = std::str::from_utf8(&first.auth_bytes).unwrap().to_owned();
        let salt = challenge.split(',').find_map(|field| field.strip_prefix("s=")).unwrap();
        let salted = mechanism.salted_password(password, &BASE64.decode(salt).unwrap(), 4096);
        let auth_message = format!("{bare},{challenge},c=biws,r=menonce");
        let proof = BASE64.encode(mechanism.client_proof(&salted, &auth_message));
        let outcome = step(&mut exchange, token(2, format!("c=biws,r=menonce,p={proof}").as_bytes()));
        if !enters {
            let SaslOutcome::Refused { error, .. } = &outcome else { panic!("{outcome:?}") };
            assert_eq!(
                (error.user(), error.to_string()),
                (None, "wrong HMAC for delegation token id".into())
            );
            continue;
        }
        assert_eq!(answer(&outcome, 2).session_lifetime_ms, 500);
        let SaslOutcome::Done { identity, expires_ms, .. } = outcome else { panic!("{outcome:?}") };
        assert_eq!((&*identity.user, identity.by_token, expires_ms), ("bob", true, Some(NOW_MS + 500)));
    }
}

#[test]
fn sasl_errors_reveal_no_reason_to_clients() {
    let check = |mechanism: &str, bytes: &[u8], expected: &str| {
        let mut exchange = exchange();
        step(&mut exchange, handshake(1, mechanism));
        let outcome = step(&mut exchange, token(2, bytes));
        let answered = answer(&outcome, 2);
        assert_eq!(answered.error_code, ErrorCode::SaslAuthenticationFailed.code());
        assert_eq!(answered.error_message.unwrap().as_str(), expected);
        assert!(matches!(outcome, SaslOutcome::Refused { .. }));
    };
    let plain = "Authentication failed: Invalid username or password";
    check("PLAIN", b"\0alice\0wrong", plain);
    check("PLAIN", b"\0nobody\0wrong", plain);
    let scram = "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-512";
    check("SCRAM-SHA-512", b"rubbish", scram);
    for user in ["nobody", "bob"] {
        let mut exchange = exchange();
        step(&mut exchange, handshake(1, "SCRAM-SHA-512"));
        let outcome = step(&mut exchange, token(2, format!("n,,n={user},r=me").as_bytes()));
        assert!(matches!(outcome, SaslOutcome::Reply(_)), "{user}: {outcome:?}");
        let outcome = step(&mut exchange, token(2, b"c=biws,r=menonce,p=AAAA"));
        assert_eq!(answer(&outcome, 2).error_message.unwrap().as_str(), scram, "{user}");
    }
}

#[test]
fn anonymous_user_name_cannot_authenticate() {
    let config = SaslConfig {
        offers: vec![Offer { mechanism: Mechanism::Plain, session_ms_max: None }],
        passwords: [("ANONYMOUS".to_owned(), "secret".to_owned())].into(),
        tokens: OauthConfig::default(),
    };
    let mut exchange = Exchange::new(Arc::new(config), "nonce".to_owned());
    step(&mut exchange, handshake(1, "PLAIN"));
    let outcome = step(&mut exchange, token(2, b"\0ANONYMOUS\0secret"));
    assert!(matches!(outcome, SaslOutcome::Refused { error: SaslError::Anonymous, .. }), "{outcome:?}");
}

#[test]
fn unsupported_mechanism_response_lists_offered_mechanisms() {
    let outcome = step(&mut exchange(), handshake(1, "GSSAPI"));
    let answered = handshake_answer(&outcome);
    assert_eq!((answered.error_code, answered.mechanisms.len()), (33, 2));
    assert!(matches!(outcome, SaslOutcome::Refused { .. }));
}

#[test]
fn unexpected_request_before_authentication_closes_without_response() {
    let refused = |exchange: &mut Exchange, frame: BytesMut| {
        let outcome = step(exchange, frame);
        assert!(matches!(outcome, SaslOutcome::Refused { reply: None, .. }), "{outcome:?}");
        // And nothing more is heard.
        let outcome = step(exchange, handshake(1, "PLAIN"));
        assert!(matches!(outcome, SaslOutcome::Refused { reply: None, .. }), "{outcome:?}");
    };
    let metadata = || frame(12, &MetadataRequest::default());
    let versions = || frame(3, &ApiVersionsRequest::default());
    refused(&mut exchange(), metadata());
    refused(&mut exchange(), token(2, b"\0alice\0wonder"));
    refused(&mut exchange(), BytesMut::from(&b"\x60\x01rubbish"[..]));
    let mut twice = exchange();
    step(&mut twice, versions());
    refused(&mut twice, versions());
    let mut late = exchange();
    step(&mut late, handshake(1, "PLAIN"));
    refused(&mut late, metadata());
}

#[test]
fn request_instead_of_sasl_token_gets_error_response() {
    let illegal = ErrorCode::IllegalSaslState.code();
    let reply = |late: BytesMut| {
        let mut exchange = exchange();
        step(&mut exchange, handshake(1, "PLAIN"));
        let outcome = step(&mut exchange, late);
        assert!(matches!(outcome, SaslOutcome::Refused { reply: Some(_), .. }), "{outcome:?}");
        let SaslOutcome::Refused { reply: Some(reply), .. } = outcome else { return Bytes::new() };
        reply.slice(4..)
    };
    let versions: ApiVersionsResponse =
        levada_wire::decode_response(reply(frame(3, &ApiVersionsRequest::default())), 3).unwrap().1;
    assert_eq!((versions.error_code, versions.api_keys.len()), (illegal, 0));
    let handshake: SaslHandshakeResponse =
        levada_wire::decode_response(reply(handshake(1, "PLAIN")), 1).unwrap().1;
    assert_eq!((handshake.error_code, handshake.mechanisms.len()), (illegal, 0));
}

#[test]
fn reauthentication_must_keep_user_and_mechanism() {
    let before = |user: &str, mechanism| {
        let identity = AuthenticatedUser { user: user.to_owned(), mechanism, by_token: false };
        Exchange::again(config(), "nonce".to_owned(), identity)
    };
    let mut same = before("alice", Mechanism::Plain);
    step(&mut same, handshake(1, "PLAIN"));
    assert!(matches!(step(&mut same, token(2, b"\0alice\0wonder")), SaslOutcome::Done { .. }));

    let mut other = before("bob", Mechanism::Plain);
    step(&mut other, handshake(1, "PLAIN"));
    let told = answer(&step(&mut other, token(2, b"\0alice\0wonder")), 2).error_message.unwrap();
    assert_eq!(told.as_str(), "Cannot change principals during re-authentication from User.bob: User.alice");

    let mut mechanism = before("alice", Mechanism::Scram(scram::ScramMechanism::Sha512));
    assert!(matches!(step(&mut mechanism, handshake(1, "PLAIN")), SaslOutcome::Reply(_)));
    let outcome = step(&mut mechanism, token(2, b"\0alice\0wonder"));
    assert!(matches!(
        outcome,
        SaslOutcome::Refused { reply: Some(_), error: SaslError::OtherMechanism { .. } }
    ));
}

proptest! {
    #[test]
    fn random_bytes_never_authenticate(
        first in prop::collection::vec(any::<u8>(), 0..40),
        second in prop::collection::vec(any::<u8>(), 0..40),
        greeted: bool,
    ) {
        let mut exchange = exchange();
        if greeted {
            step(&mut exchange, handshake(1, "SCRAM-SHA-512"));
        }
        for bytes in [first, second] {
            let outcome = step(&mut exchange, BytesMut::from(&bytes[..]));
            let enters = matches!(outcome, SaslOutcome::Done { .. });
            prop_assert!(!enters);
        }
    }
}
