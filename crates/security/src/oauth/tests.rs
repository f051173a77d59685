//! Tokens, believed and not.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::{Value, json};

use super::*;

const NOW_MS: i64 = 1_700_000_000_000;
const NOW: i64 = NOW_MS / 1000;

struct Issuer {
    pair: EcdsaKeyPair,
    random: SystemRandom,
}

impl Issuer {
    fn new() -> Self {
        let random = SystemRandom::new();
        let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, key.as_ref(), &random).unwrap();
        Self { pair, random }
    }

    fn jwk(&self, id: &str) -> Value {
        let point = self.pair.public_key().as_ref();
        let (x, y) = (BASE64.encode(&point[1..33]), BASE64.encode(&point[33..]));
        json!({"kty": "EC", "crv": "P-256", "kid": id, "use": "sig", "x": x, "y": y})
    }

    fn token(&self, header: &Value, claims: &Value) -> String {
        let part = |value: &Value| BASE64.encode(value.to_string());
        let signed = format!("{}.{}", part(header), part(claims));
        let signature = self.pair.sign(&self.random, signed.as_bytes()).unwrap();
        format!("{signed}.{}", BASE64.encode(signature))
    }
}

fn config() -> OauthConfig {
    OauthConfig {
        keys: KeySource::default(),
        clock_skew_ms: 30_000,
        audiences: Vec::new(),
        issuer: None,
        scope_claim: "scope".to_owned(),
        sub_claim: "sub".to_owned(),
    }
}

fn keys(all: &[Value]) -> Jwks {
    Jwks::parse(&json!({ "keys": all }).to_string()).unwrap()
}

/// `base` with other fields; null takes one away.
fn with(base: &Value, other: Value) -> Value {
    let mut fields = base.as_object().unwrap().clone();
    for (name, value) in other.as_object().unwrap() {
        match value {
            Value::Null => drop(fields.remove(name)),
            value => drop(fields.insert(name.clone(), value.clone())),
        }
    }
    fields.into()
}

#[test]
fn claims_are_checked_as_kafka_checks_them() {
    let issuer = Issuer::new();
    let keys = keys(&[issuer.jwk("one")]);
    let base = json!({"sub": "alice", "iat": NOW, "exp": NOW + 60});
    let header = json!({"alg": "ES256", "kid": "one"});
    let check = |other: Value, config: &OauthConfig, expected: Result<&str, JwtError>| {
        let claims = with(&base, other);
        let found = jwt::verify(&issuer.token(&header, &claims), config, (&keys, NOW_MS));
        assert_eq!(found.map(|token| token.user), expected.map(str::to_owned), "{claims}");
    };
    let claim = |name: &str| Err(JwtError::Claim { claim: name.to_owned() });
    let audience = |found: &[&str], expected: &[&str]| {
        let owned = |all: &[&str]| all.iter().map(|one| (*one).to_owned()).collect();
        Err(JwtError::Audience { found: owned(found), expected: owned(expected) })
    };
    let plain = config();
    let skew_ms = plain.clock_skew_ms;
    check(json!({}), &plain, Ok("alice"));
    check(json!({"exp": NOW - 29}), &plain, Ok("alice"));
    check(json!({"exp": NOW - 30}), &plain, Err(JwtError::Expired { ago_ms: 30_000, skew_ms }));
    check(json!({"nbf": NOW + 30}), &plain, Ok("alice"));
    check(json!({"nbf": NOW + 31}), &plain, Err(JwtError::Early { early_ms: 31_000, skew_ms }));
    for name in ["exp", "iat", "sub"] {
        check(json!({ name: null }), &plain, claim(name));
        check(json!({ name: [] }), &plain, claim(name));
    }
    check(json!({"sub": " "}), &plain, claim("sub"));
    check(json!({"scope": "a"}), &plain, Ok("alice"));
    check(json!({"scope": ["a", "b"]}), &plain, Ok("alice"));
    check(json!({"scope": ["a", "a"]}), &plain, claim("scope"));
    check(json!({"scope": ""}), &plain, claim("scope"));
    // A token with an audience is not valid for a broker that expects none.
    check(json!({"aud": "kafka"}), &plain, audience(&["kafka"], &[]));
    let picky = OauthConfig {
        audiences: vec!["kafka".to_owned()],
        issuer: Some("idp".to_owned()),
        sub_claim: "email".to_owned(),
        ..config()
    };
    let right = json!({"aud": ["x", "kafka"], "iss": "idp", "email": "a@b"});
    check(right.clone(), &picky, Ok("a@b"));
    check(with(&right, json!({"aud": "kafka"})), &picky, Ok("a@b"));
    check(with(&right, json!({"aud": ["x"]})), &picky, audience(&["x"], &["kafka"]));
    check(json!({"iss": "idp", "email": "a@b"}), &picky, audience(&[], &["kafka"]));
    let other_issuer = |found| Err(JwtError::Issuer { found, expected: "idp".to_owned() });
    check(with(&right, json!({"iss": "other"})), &picky, other_issuer(Some("other".to_owned())));
    check(with(&right, json!({"iss": null})), &picky, other_issuer(None));
    check(json!({"aud": "kafka", "iss": "idp"}), &picky, claim("email"));
}

#[test]
fn tokens_need_a_trusted_signing_key() {
    let (issuer, other) = (Issuer::new(), Issuer::new());
    let claims = json!({"sub": "alice", "iat": NOW, "exp": NOW + 60});
    let check = |all: &[Value], header: Value, expected: Result<(), JwtError>| {
        let token = issuer.token(&header, &claims);
        let found = jwt::verify(&token, &config(), (&keys(all), NOW_MS));
        assert_eq!(found.map(drop), expected, "{header}");
    };
    let (own, foreign) = (issuer.jwk("one"), other.jwk("two"));
    let named = json!({"alg": "ES256", "kid": "one"});
    check(&[foreign.clone(), own.clone()], named.clone(), Ok(()));
    check(&[foreign.clone(), own.clone()], json!({"alg": "ES256"}), Ok(()));
    let unknown = || Err(JwtError::UnknownKey { algorithm: "ES256", id: Some("one".to_owned()) });
    check(std::slice::from_ref(&foreign), named.clone(), unknown());
    let signature = |algorithm, id| Err(JwtError::Signature { algorithm, id });
    let forged = signature("ES256", Some("one".to_owned()));
    check(&[with(&foreign, json!({"kid": "one"}))], named.clone(), forged);
    check(&[with(&own, json!({"use": "enc"}))], named.clone(), unknown());
    check(&[with(&own, json!({"alg": "ES384"}))], named.clone(), unknown());
    check(&[], named, unknown());
    let algorithm = |name: &str| Err(JwtError::Algorithm { name: name.to_owned() });
    check(std::slice::from_ref(&own), json!({"alg": "none"}), algorithm("none"));
    check(std::slice::from_ref(&own), json!({"alg": "HS256"}), algorithm("HS256"));
    check(std::slice::from_ref(&own), json!({}), algorithm(""));
    check(std::slice::from_ref(&own), json!({"alg": "RS256"}), signature("RS256", None));
    let critical = Err(JwtError::Critical { names: r#"["b64"]"#.to_owned() });
    check(std::slice::from_ref(&own), json!({"alg": "ES256", "crit": ["b64"]}), critical);
    for (token, part) in [
        ("", "signature"),
        ("a", "signature"),
        ("a.b", "signature"),
        ("a.b.c", "header"),
        ("e30.e30", "signature"),
        ("e30.bm8.AA", "part with the claims"),
        ("..", "header"),
        ("e30..", "part with the claims"),
        ("!.e30.AA", "header"),
        ("e30.e30.!", "signature"),
    ] {
        let found = jwt::verify(token, &config(), (&keys(std::slice::from_ref(&own)), NOW_MS));
        assert_eq!(found.unwrap_err(), JwtError::Malformed { part }, "{token}");
    }
}

#[test]
fn rsa_token_signature_is_verified() {
    // The example of RFC 7515, A.2: its claims are not ours, but its signature holds.
    let modulus = "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ";
    let token = "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw";
    let keys = keys(&[json!({"kty": "RSA", "n": modulus, "e": "AQAB"})]);
    let missing = JwtError::Claim { claim: "iat".to_owned() };
    assert_eq!(jwt::verify(token, &config(), (&keys, NOW_MS)).unwrap_err(), missing);
    let (signed, signature) = token.rsplit_once('.').unwrap();
    let forged = format!("{signed}.d{}", &signature[1..]);
    let refused = JwtError::Signature { algorithm: "RS256", id: None };
    assert_eq!(jwt::verify(&forged, &config(), (&keys, NOW_MS)).unwrap_err(), refused);
}

#[test]
fn refused_oauth_token_is_reported_over_two_messages() {
    let issuer = Issuer::new();
    let keys = keys(&[issuer.jwk("one")]);
    let header = json!({"alg": "ES256"});
    let fine = issuer.token(&header, &json!({"sub": "alice", "iat": NOW, "exp": NOW + 60}));
    let late = issuer.token(&header, &json!({"sub": "alice", "iat": NOW, "exp": NOW - 60}));
    let step =
        |server: &mut OauthServer, message: &str| server.step(message.as_bytes(), &config(), (&keys, NOW_MS));
    let initial = |token: &str| format!("n,,\x01auth=Bearer {token}\x01\x01");
    let expired = OauthError::Token(JwtError::Expired { ago_ms: 60_000, skew_ms: 30_000 });

    let mut server = OauthServer::default();
    let done = step(&mut server, &initial(&fine)).unwrap();
    assert_eq!((done.user.as_deref(), done.expires_ms), (Some("alice"), Some(NOW_MS + 60_000)));

    let mut server = OauthServer::default();
    let told = step(&mut server, &initial(&late)).unwrap();
    assert_eq!((&*told.challenge, told.user), (INVALID_TOKEN.as_bytes(), None));
    assert_eq!(step(&mut server, "\x01").unwrap_err(), expired);

    // A client that sends another token gets no second guess.
    let mut server = OauthServer::default();
    assert_eq!(step(&mut server, &initial(&late)).unwrap().user, None);
    assert_eq!(step(&mut server, &initial(&fine)).unwrap_err(), expired);

    let act = format!("n,a=bob,\x01auth=bearer {fine}\x01traceId=1\x01\x01");
    let other = OauthError::OtherIdentity { user: "alice".to_owned(), asked: "bob".to_owned() };
    assert_eq!(step(&mut OauthServer::default(), &act).unwrap_err(), other);
}

#[test]
fn malformed_oauth_messages_are_refused() {
    for message in [
        "",
        "n,,",
        "n,,\x01\x01",
        "n,,\x01auth=Bearer\x01\x01",
        "n,,\x01auth=Basic a\x01\x01",
        "y,,\x01auth=Bearer a\x01\x01",
        "n,b,\x01auth=Bearer a\x01\x01",
        "n,,\x01auth=Bearer a b\x01\x01",
        "n,,\x01auth=Bearer a\x011=x\x01\x01",
        "n,,\x01auth=Bearer =\x01\x01",
        "n,,\x01other=Bearer a\x01\x01",
        "\x01",
    ] {
        let found = OauthServer::default().step(message.as_bytes(), &config(), (&Jwks::default(), NOW_MS));
        assert!(matches!(found, Err(OauthError::Malformed { .. })), "{message:?} {found:?}");
    }
}
