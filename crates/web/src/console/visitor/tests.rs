//! Tests of the entrance.

use axum::http::HeaderValue;

use super::*;

fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
    pairs
        .iter()
        .map(|(name, value)| (header::HeaderName::from_static(name), HeaderValue::from_static(value)))
        .collect()
}

/// A password that no broker has.
fn password() -> CheckedPassword {
    CheckedPassword::default()
}

fn user(sessions: &mut Sessions, secret: &str, now: Instant) -> Option<String> {
    sessions.user(secret, now, true).map(|(user, _)| user)
}

#[test]
fn console_session_ends_by_age_idleness_or_logout() {
    let mut sessions = Sessions::default();
    let start = Instant::now();
    let at = |minutes: u64| start + Duration::from_secs(60 * minutes);
    let secret = sessions.open(("alice", password()), None, start);
    for minute in (0..12 * 60).step_by(50) {
        assert_eq!(user(&mut sessions, &secret, at(minute)).as_deref(), Some("alice"), "minute {minute}");
    }
    assert_eq!(sessions.user(&secret, at(12 * 60), true), None, "too old");
    let idle = sessions.open(("bob", password()), None, start);
    assert!(sessions.user(&idle, at(40), false).is_some(), "a stream does not keep it alive");
    assert_eq!(sessions.user(&idle, at(61), true), None);
    let short = sessions.open(("carol", password()), Some(Duration::from_secs(90)), start);
    assert!(sessions.user(&short, at(1), true).is_some());
    assert_eq!(sessions.user(&short, at(2), true), None, "no longer than its credential");
    let closed = sessions.open(("dave", password()), None, start);
    sessions.close(&closed);
    assert_eq!(sessions.user(&closed, start, true), None);
    assert_eq!(sessions.user("", start, true), None);
}

#[test]
fn session_limit_ends_no_session_of_others() {
    let mut sessions = Sessions::default();
    let start = Instant::now();
    let soon = Some(Duration::from_secs(60));
    let first = sessions.open(("admin", password()), soon, start);
    let oldest = sessions.open(("eve", password()), soon, start);
    for _ in 0..SESSIONS_MAX {
        sessions.open(("eve", password()), None, start);
    }
    assert_eq!(sessions.0.len(), 1 + SESSIONS_OF_USER_MAX);
    assert_eq!(user(&mut sessions, &oldest, start), None, "the one that expires first made room");
    assert!(user(&mut sessions, &first, start).is_some());
    for number in 0..SESSIONS_MAX {
        sessions.open((&format!("user-{number}"), password()), None, start);
    }
    assert_eq!(sessions.0.len(), SESSIONS_MAX);
    assert!(user(&mut sessions, &first, start).is_some(), "a user with many makes room");
    let of_eve = sessions.0.values().filter(|open| open.user == "eve").count();
    assert_eq!(of_eve, 1);
}

#[test]
fn form_token_is_valid_for_its_session_only() {
    let with = |proof: &str| Fields(vec![(PROOF.to_owned(), proof.to_owned())]);
    let proof = proof_of("one");
    assert!(proves(&with(&proof), &proof));
    assert!(!proves(&with(&proof_of("other")), &proof));
    assert!(!proves(&with(""), &proof));
    assert!(!proves(&Fields::default(), &proof));
}

#[test]
fn brokers_on_one_host_have_separate_cookies() {
    let sent = headers(&[("host", "localhost:9644"), ("cookie", "levada_9645=other; levada_9644=own; x=y")]);
    assert_eq!(cookie(&sent).as_deref(), Some("own"));
    assert_eq!(cookie(&headers(&[("host", "localhost:9646"), ("cookie", "levada_9645=other")])), None);
    assert_eq!(cookie_name(&headers(&[("host", "[::1]")])), "levada");
}

/// The number of fields in a form or in a query, or the status of the refusal.
fn fields_of(method: Method, text: &str) -> Result<usize, StatusCode> {
    let builder = Request::builder().method(&method).header("host", "127.0.0.1:9644");
    let request = if method == Method::POST {
        builder.header("content-type", "application/x-www-form-urlencoded").body(text.to_owned().into())
    } else {
        builder.uri(format!("/topics?{text}")).body(axum::body::Body::empty())
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let read = runtime.block_on(fields(request.unwrap()));
    read.map(|(_, fields)| fields.0.len()).map_err(|refusal| refusal.status())
}

#[test]
fn form_with_too_many_fields_is_refused_early() {
    for method in [Method::POST, Method::GET] {
        let most = vec!["a=b"; FIELDS_MAX].join("&");
        assert_eq!(fields_of(method.clone(), &most), Ok(FIELDS_MAX));
        let more = format!("{most}&a=b");
        assert_eq!(fields_of(method, &more), Err(StatusCode::PAYLOAD_TOO_LARGE));
    }
}

#[test]
fn only_browsers_get_pages_for_unknown_paths() {
    let accepting = |accept: &'static str| wants_page(&headers(&[("accept", accept)]));
    assert!(accepting("text/html,application/xhtml+xml,*/*;q=0.8"));
    assert!(!accepting("*/*"), "curl, and the script of the console");
    assert!(!accepting("text/event-stream"));
    assert!(!wants_page(&headers(&[])));
    assert_eq!(layout::missing(None, "/<b>").status(), StatusCode::NOT_FOUND);
}
