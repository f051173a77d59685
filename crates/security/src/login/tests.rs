//! Logins against the server side of each mechanism.

use super::*;
use crate::plain;
use crate::scram::{CredentialSource, ScramServer, TokenLogin};

fn login(mechanism: Mechanism, secret: &str) -> SaslLogin {
    SaslLogin::new(mechanism, "a=b,c".to_owned(), secret.to_owned())
}

/// Logs in at a server that has the password `secret`.
fn by_scram(mechanism: ScramMechanism, password: &str) -> Result<(), LoginFault> {
    let mut server = ScramServer::new(mechanism, "servers".to_owned());
    let salted = mechanism.salted_password("secret", b"salt", 4096);
    login(Mechanism::Scram(mechanism), password).show(|token| {
        let find = |user: &str, _| {
            assert_eq!(user, "a=b,c");
            Some(mechanism.credential(&salted, b"salt".to_vec(), 4096))
        };
        let source = CredentialSource { of_user: &find, of_token: &|_, _| None, secret: "unused" };
        server.step(token, &source).map(|step| step.challenge).map_err(|_| LoginFault::Token)
    })
}

#[test]
fn scram_succeeds_only_with_the_password() {
    for mechanism in ScramMechanism::ALL {
        assert_eq!(by_scram(mechanism, "secret"), Ok(()));
        // The error is that of the server.
        assert_eq!(by_scram(mechanism, "other"), Err(LoginFault::Token));
    }
}

#[test]
fn delegation_token_is_announced_in_scram() {
    let mechanism = ScramMechanism::Sha256;
    for (options, expected) in [("tokenauth=\"true\"", true), ("tokenauth=\"false\"", false), ("", false)] {
        let module = format!("a.ScramLoginModule required username=\"id\" password=\"hmac\" {options};");
        let module = Jaas::parse(&module).unwrap();
        let of = |mechanism| SaslLogin::of_module(mechanism, "id".to_owned(), "hmac".to_owned(), &module);
        let login = of(Mechanism::Scram(mechanism));
        let mut server = ScramServer::new(mechanism, "servers".to_owned());
        let salted = mechanism.salted_password("hmac", b"salt", 4096);
        let credential = || Some(mechanism.credential(&salted, b"salt".to_vec(), 4096));
        let mut first = Vec::new();
        let outcome = login.show(|sent| {
            if first.is_empty() {
                first = sent.to_vec();
            }
            let token_login =
                |credential| TokenLogin { owner: "alice".to_owned(), credential, expires_ms: i64::MAX };
            let (of_user, of_token) = (|_: &str, _| credential(), |_: &str, _| credential().map(token_login));
            let source = CredentialSource { of_user: &of_user, of_token: &of_token, secret: "unused" };
            server.step(sent, &source).map(|step| step.challenge).map_err(|_| LoginFault::Token)
        });
        assert_eq!(outcome, Ok(()));
        assert_eq!(first.ends_with(b",tokenauth=true"), expected);
        assert_eq!(login.is_by_token(), expected);
        assert!(!of(Mechanism::Plain).is_by_token(), "PLAIN has no tokens");
    }
}

#[test]
fn a_server_without_the_credential_is_recognised() {
    let mechanism = ScramMechanism::Sha256;
    let login = login(Mechanism::Scram(mechanism), "secret");
    let check = |challenge: &dyn Fn(&str) -> String, expected: LoginFault| {
        let outcome = login.show(|token: &[u8]| {
            let own = std::str::from_utf8(token).unwrap().rsplit_once("r=").map(|(_, own)| own.to_owned());
            Ok::<_, LoginFault>(challenge(&own.unwrap()).into_bytes())
        });
        assert_eq!(outcome, Err(expected));
    };
    let malformed = |part| LoginFault::Challenge { part };
    let too_many = LoginFault::Iterations { iterations: 99_999_999, limit: 1_048_576 };
    // The same response to the proof is not the server's signature.
    check(&|own| format!("r={own}x,s=c2FsdA==,i=4096"), LoginFault::Server);
    check(&|own| format!("r={own}x,s=c2FsdA==,i=99999999"), too_many);
    check(&|_| "r=other,s=c2FsdA==,i=4096".to_owned(), malformed("nonce (r)"));
    check(&|own| format!("r={own}x,s=*,i=4096"), malformed("salt (s)"));
    check(&|own| format!("r={own}x,s=c2FsdA=="), malformed("number of iterations (i)"));
}

#[test]
fn plain_sends_user_and_password() {
    let passwords = [("a=b,c".to_owned(), "secret".to_owned())].into();
    let shown = login(Mechanism::Plain, "secret").show(|token| {
        plain::authenticate(token, &passwords).map(|_| Vec::new()).map_err(|_| LoginFault::Token)
    });
    assert_eq!(shown, Ok(()));
}

#[test]
fn a_refused_token_is_acknowledged() {
    let mut sent = Vec::new();
    let outcome = login(Mechanism::OauthBearer, "t0ken").show(|token| {
        sent.push(token.to_vec());
        Ok::<_, LoginFault>(b"refused".to_vec())
    });
    assert_eq!(outcome, Err(LoginFault::Token));
    assert_eq!(sent, [b"n,,\x01auth=Bearer t0ken\x01\x01".to_vec(), b"\x01".to_vec()]);
}

#[test]
fn a_login_does_not_print_its_secret() {
    assert!(!format!("{:?}", login(Mechanism::Plain, "planted")).contains("planted"));
}
