//! Requests that pages of other sites cause in a browser: they are refused, except links to a page,
//! and no other site may embed the response.

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

#[cfg(test)]
mod tests;

/// Refuses requests that another site caused, except links to a page, and marks every response as
/// one that no other site may read, reinterpret or show in a frame.
pub(super) async fn refuse_others(request: Request, next: Next) -> Response {
    let refused = "this request comes from another site; open the address itself\n";
    let mut response = if is_foreign(request.method(), request.headers()) {
        (StatusCode::FORBIDDEN, refused).into_response()
    } else {
        next.run(request).await
    };
    for (name, value) in [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

fn is_foreign(method: &Method, headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let reads = [Method::GET, Method::HEAD].contains(method);
    let follows_link =
        reads && text("sec-fetch-mode") == Some("navigate") && text("sec-fetch-dest") == Some("document");
    match text("sec-fetch-site") {
        Some("same-origin" | "none") | None => {}
        Some(_) if follows_link => return false,
        Some(_) => return true,
    }
    let own = text("host").unwrap_or_default();
    let from_own =
        |origin: &str| origin.split_once("://").is_some_and(|(_, host)| host.eq_ignore_ascii_case(own));
    text("origin").is_some_and(|origin| !from_own(origin))
}
