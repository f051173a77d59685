//! An HTTP client for servers of the test.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Sends a request with a JSON body, or an empty one: status and body of the response. An error if
/// no server answers, which is not a failure while the server starts.
pub fn call(address: SocketAddr, method: &str, path: &str, body: &str) -> io::Result<(u16, String)> {
    let kind = if body.is_empty() { "" } else { "Content-Type: application/json\r\n" };
    let (status, _, body) = ask(address, &format!("{method} {path} HTTP/1.1\r\n{kind}"), body)?;
    Ok((status, body))
}

/// GET with an `Accept` header: media type and body of the response, which must be well.
pub fn page_as(address: SocketAddr, path: &str, accept: &str) -> (String, String) {
    let head = format!("GET {path} HTTP/1.1\r\nAccept: {accept}\r\n");
    let (status, head, body) = ask(address, &head, "").expect("an answer over HTTP");
    assert_eq!(status, 200, "{path}: {body}");
    (header(&head, "content-type").unwrap_or_default().to_string(), body)
}

/// Status, head and body of the response to a request whose head begins so.
fn ask(address: SocketAddr, head: &str, body: &str) -> io::Result<(u16, String, String)> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    let length = body.len();
    write!(stream, "{head}Host: {address}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let malformed = || io::Error::other(format!("no answer over HTTP: {answer}"));
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(malformed)?;
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).ok_or_else(malformed)?;
    let body = match header(head, "transfer-encoding") {
        Some("chunked") => joined(body).ok_or_else(malformed)?,
        _ => body.to_string(),
    };
    Ok((status, head.to_string(), body))
}

/// The value of a header; its name is given in small letters.
fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let mut fields = head.lines().filter_map(|line| line.split_once(':'));
    fields.find_map(|(found, value)| found.eq_ignore_ascii_case(name).then_some(value.trim()))
}

/// The chunks of a body in one piece; none if the last is not there.
fn joined(mut chunked: &str) -> Option<String> {
    let mut whole = String::new();
    loop {
        let (length, rest) = chunked.split_once("\r\n")?;
        let length = usize::from_str_radix(length, 16).ok()?;
        if length == 0 {
            return Some(whole);
        }
        whole.push_str(rest.get(..length)?);
        chunked = rest.get(length..)?.strip_prefix("\r\n")?;
    }
}
