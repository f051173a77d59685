//! SCRAM against the example of RFC 7677, and what it turns away.

use super::*;

const SALT: &str = "W22ZaJ0SNY7soEsUEjb6gQ==";
const FIRST: &str = "n,,n=user,r=rOprNGfwEbeRWgbNEkqO";
const SERVER_NONCE: &str = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
const SECRET: &str = "of a test";
const FINAL: &str = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                     p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";

fn credential(mechanism: ScramMechanism, iterations: i32) -> Credential {
    let salt = BASE64.decode(SALT).unwrap();
    let salted = mechanism.salted_password("pencil", &salt, iterations.unsigned_abs());
    mechanism.credential(&salted, salt, iterations)
}

/// A source of this user's credential, without tokens.
fn users<'a>(of_user: &'a dyn Fn(&str, ScramMechanism) -> Option<Credential>) -> CredentialSource<'a> {
    CredentialSource { of_user, of_token: &|_, _| None, secret: SECRET }
}

fn none() -> CredentialSource<'static> {
    users(&|_, _| None)
}

fn server() -> ScramServer {
    ScramServer::new(ScramMechanism::Sha256, SERVER_NONCE.to_owned())
}

#[test]
fn scram_follows_the_rfc_example() {
    let mut server = server();
    let find = |user: &str, mechanism| (user == "user").then(|| credential(mechanism, 4096));
    let first = server.step(FIRST.as_bytes(), &users(&find)).unwrap();
    let challenge = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
    assert_eq!((std::str::from_utf8(&first.challenge).unwrap(), first.user), (challenge, None));
    let last = server.step(FINAL.as_bytes(), &none()).unwrap();
    let signature = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=";
    assert_eq!(std::str::from_utf8(&last.challenge).unwrap(), signature);
    assert_eq!(last.user.as_deref(), Some("user"));
    assert_eq!(server.step(FINAL.as_bytes(), &none()), Err(ScramError::Over));
}

#[test]
fn scram_hashes_accept_only_the_right_password() {
    for mechanism in ScramMechanism::ALL {
        for (password, enters) in [("pencil", true), ("Pencil", false), ("", false)] {
            let mut server = ScramServer::new(mechanism, "srv".to_owned());
            let first = server.step(
                b"n,a=us=2Cer,n=us=2Cer,r=cli,foo=bar",
                &users(&|user, mechanism| {
                    assert_eq!(user, "us,er");
                    Some(credential(mechanism, 4096))
                }),
            );
            let challenge = String::from_utf8(first.unwrap().challenge).unwrap();
            let salt = BASE64.decode(SALT).unwrap();
            let salted = mechanism.salted_password(password, &salt, 4096);
            let auth_message = format!("n=us=2Cer,r=cli,foo=bar,{challenge},c=biws,r=clisrv");
            let proof = BASE64.encode(mechanism.client_proof(&salted, &auth_message));
            let last = server.step(format!("c=biws,r=clisrv,p={proof}").as_bytes(), &none());
            assert_eq!(last.is_ok(), enters, "{mechanism:?} {password}");
        }
    }
}

#[test]
fn invalid_first_scram_messages_are_refused() {
    let check = |message: &str, expected: ScramError| {
        let find = |user: &str, mechanism| match user {
            "user" => Some(credential(mechanism, 4096)),
            "weak" => Some(credential(mechanism, 4095)),
            _ => None,
        };
        let found = server().step(message.as_bytes(), &users(&find));
        assert_eq!(found.unwrap_err(), expected, "{message}");
    };
    let malformed = || ScramError::Malformed { message: "first" };
    for message in [
        "",
        "n",
        "y,,n=user,r=a",
        "p=tls-unique,,n=user,r=a",
        "n,user,n=user,r=a",
        "n,,n=,r=a",
        "n,,n=user,r=",
        "n,,n=user",
        "n,,n=us=er,r=a",
        "n,,n=us=2,r=a",
        "n,,n=user,r=a b",
        "n,,n=user,r=a,x",
        "n,,n=user,r=a,1=x",
        "n,,n=üser,r=a",
        "n,,m=,n=user,r=a",
        "n,,n=us\0er,r=a",
    ] {
        check(message, malformed());
    }
    let user = || "user".to_owned();
    check("n,a=admin,n=nobody,r=a", ScramError::OtherIdentity { user: "nobody".to_owned() });
    check("n,a=admin,n=user,r=a", ScramError::OtherIdentity { user: user() });
    check("n,,n=weak,r=a", ScramError::TooFewIterations { user: "weak".to_owned(), iterations: 4095 });
}

#[test]
fn invalid_final_scram_messages_are_refused() {
    let check = |message: &str, expected: ScramError| {
        let mut server = server();
        server.step(FIRST.as_bytes(), &users(&|_, mechanism| Some(credential(mechanism, 4096)))).unwrap();
        assert_eq!(server.step(message.as_bytes(), &none()).unwrap_err(), expected, "{message}");
        assert_eq!(server.step(FINAL.as_bytes(), &none()).unwrap_err(), ScramError::Over);
    };
    let malformed = || ScramError::Malformed { message: "final" };
    for message in ["", "c=biws", "c=biws,r=a", "c=!,r=a,p=aaaa", "c=biws,r=a,p=!", "c=biws,r=,p=aaaa"] {
        check(message, malformed());
    }
    let nonce = format!("rOprNGfwEbeRWgbNEkqO{SERVER_NONCE}");
    check(&FINAL.replace(",r=r", ",r=R"), ScramError::Nonce { client: "user user".to_owned() });
    check(&format!("c=biws,r={nonce},p="), ScramError::Proof { user: "user".to_owned() });
    check(&FINAL.replace("p=d", "p=e"), ScramError::Proof { user: "user".to_owned() });
}

#[test]
fn unknown_scram_user_is_refused_at_the_proof() {
    for mechanism in ScramMechanism::ALL {
        let first = |user: &str, secret: &str| {
            let mut server = ScramServer::new(mechanism, "srv".to_owned());
            let find = |user: &str, mechanism| (user == "user").then(|| credential(mechanism, 4096));
            let source = CredentialSource { secret, ..users(&find) };
            let step = server.step(format!("n,,n={user},r=cli").as_bytes(), &source).unwrap();
            (server, String::from_utf8(step.challenge).unwrap())
        };
        let (mut server, challenge) = first("nobody", SECRET);
        assert!(challenge.starts_with("r=clisrv,s=") && challenge.ends_with(",i=4096"), "{challenge}");
        assert_eq!(first("nobody", SECRET).1, challenge, "the salt of a user does not change");
        assert_ne!(first("nobody2", SECRET).1, challenge);
        assert_ne!(first("nobody", "another").1, challenge);
        let proof = BASE64.encode(mechanism.hash(b"any"));
        let last = server.step(format!("c=biws,r=clisrv,p={proof}").as_bytes(), &none());
        assert_eq!(last, Err(ScramError::UnknownUser { user: "nobody".to_owned() }));
        let (mut server, _) = first("nobody", SECRET);
        let last = server.step(b"c=biws,r=clisrv,p=", &none());
        assert_eq!(last, Err(ScramError::UnknownUser { user: "nobody".to_owned() }));
    }
}

/// Shows the password of a token with this id to a server that has the token `id` of alice, with
/// the password `hmac`, and a user `id`.
fn show_token(
    mechanism: ScramMechanism,
    (id, password): (&str, &str),
) -> (ScramServer, Result<Step, ScramError>) {
    let of_token = |id: &str, mechanism: ScramMechanism| {
        let credential = mechanism.token_credential(SECRET, id, "hmac");
        (id == "id").then(|| TokenLogin { owner: "alice".to_owned(), credential, expires_ms: 7 })
    };
    let of_user = |_: &str, mechanism| Some(credential(mechanism, 4096));
    let source = CredentialSource { of_user: &of_user, of_token: &of_token, secret: SECRET };
    let mut server = ScramServer::new(mechanism, "srv".to_owned());
    let bare = format!("n={id},r=cli,tokenauth=true");
    let first = server.step(format!("n,,{bare}").as_bytes(), &source).unwrap();
    let challenge = String::from_utf8(first.challenge).unwrap();
    let salt = challenge.split(',').find_map(|field| field.strip_prefix("s=")).unwrap();
    let salted = mechanism.salted_password(password, &BASE64.decode(salt).unwrap(), 4096);
    let auth_message = format!("{bare},{challenge},c=biws,r=clisrv");
    let proof = BASE64.encode(mechanism.client_proof(&salted, &auth_message));
    let last = server.step(format!("c=biws,r=clisrv,p={proof}").as_bytes(), &source);
    (server, last)
}

#[test]
fn delegation_token_authenticates_its_owner_until_expiry() {
    for mechanism in ScramMechanism::ALL {
        let (server, last) = show_token(mechanism, ("id", "hmac"));
        let last = last.unwrap();
        assert_eq!((last.user.as_deref(), last.expires_ms), (Some("alice"), Some(7)));
        assert!(server.is_by_token());
        let (_, wrong) = show_token(mechanism, ("id", "pencil"));
        assert_eq!(wrong, Err(ScramError::TokenProof { id: "id".to_owned() }));
        let (_, unknown) = show_token(mechanism, ("other", "hmac"));
        assert_eq!(unknown, Err(ScramError::UnknownToken { id: "other".to_owned() }));
    }
}

#[test]
fn unknown_token_gets_same_challenge_as_existing() {
    let challenge = |exists: bool| {
        let of_token = |id: &str, mechanism: ScramMechanism| {
            let credential = mechanism.token_credential(SECRET, id, "hmac");
            exists.then(|| TokenLogin { owner: "alice".to_owned(), credential, expires_ms: 7 })
        };
        let source = CredentialSource { of_token: &of_token, ..none() };
        server().step(b"n,,n=id,r=cli,tokenauth=true", &source).unwrap().challenge
    };
    assert_eq!(challenge(true), challenge(false));
}

#[test]
fn a_credential_does_not_print_its_keys() {
    let shown = format!("{:?}", credential(ScramMechanism::Sha256, 4096));
    assert_eq!(shown, "Credential { iterations: 4096, .. }");
}
