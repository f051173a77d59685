//! Requests of other sites.

use super::*;

fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
    pairs
        .iter()
        .map(|(name, value)| (header::HeaderName::from_static(name), HeaderValue::from_static(value)))
        .collect()
}

#[test]
fn requests_of_other_sites_are_refused() {
    let host = ("host", "127.0.0.1:9644");
    let post = |pairs: &[_]| is_foreign(&Method::POST, &headers(&[&[host], pairs].concat()));
    let get = |pairs: &[_]| is_foreign(&Method::GET, &headers(&[&[host], pairs].concat()));
    assert!(!post(&[("origin", "http://127.0.0.1:9644"), ("sec-fetch-site", "same-origin")]));
    assert!(!post(&[]), "a program that is not a browser");
    assert!(post(&[("origin", "http://127.0.0.1:9645")]), "another port");
    assert!(post(&[("origin", "null")]));
    assert!(post(&[("sec-fetch-site", "same-site"), ("origin", "http://127.0.0.1:9644")]));
    assert!(post(&[
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-mode", "navigate"),
        ("sec-fetch-dest", "document")
    ]));
    assert!(!get(&[("sec-fetch-site", "none"), ("sec-fetch-mode", "navigate")]));
    assert!(!get(&[
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-mode", "navigate"),
        ("sec-fetch-dest", "document")
    ]));
    assert!(get(&[
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-mode", "navigate"),
        ("sec-fetch-dest", "iframe")
    ]));
    assert!(get(&[
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-mode", "no-cors"),
        ("sec-fetch-dest", "image")
    ]));
}
