//! Responses: their heads, written byte by byte, and the file ranges that follow.

use std::collections::VecDeque;
use std::fmt;
use std::io::Write;
use std::rc::Rc;
use std::time::SystemTime;

use bytes::Bytes;
use http::StatusCode;

use crate::condition::{self, Verdict};
use crate::encoding::{self, Encoding};
use crate::entry::{DatedHead, Entry, Resource};
use crate::range::{self, Ranges, Span};
use crate::request::{Head, Method, Refusal};

/// Response to a request.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) head: Bytes,
    pub(crate) body: Body,
    /// True if the connection ends with it.
    pub(crate) close: bool,
}

/// Body after the head.
#[derive(Debug)]
pub(crate) enum Body {
    None,
    Bytes(Bytes),
    /// A range of a file.
    File(Rc<Entry>, Span),
    /// Several ranges, with the text between them.
    Parts(Rc<Entry>, VecDeque<Part>),
}

impl Body {
    /// Length of the body, bytes.
    pub(crate) fn len(&self) -> u64 {
        let of_part = |part: &Part| match part {
            Part::Bytes(bytes) => bytes.len() as u64,
            Part::Span(span) => span.len(),
        };
        match self {
            Self::None => 0,
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::File(_, span) => span.len(),
            Self::Parts(_, parts) => parts.iter().map(of_part).sum(),
        }
    }
}

/// A part of a body.
#[derive(Debug)]
pub(crate) enum Part {
    Bytes(Bytes),
    Span(Span),
}

/// Value of the header field `Connection` for the client's version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Persistence {
    /// The default of HTTP/1.1, without a field.
    Kept,
    /// A field is needed, as in HTTP/1.0.
    KeptAlive,
    Closed,
}

impl Persistence {
    /// Persistence of the connection after the response to this request.
    pub(crate) fn of(head: &Head<'_, '_>) -> Self {
        match (head.keep_alive, head.is_1_1) {
            // The body may or may not follow a response that did not wait for it.
            _ if head.expects_continue() && head.body_bytes > 0 => Self::Closed,
            (true, true) => Self::Kept,
            (true, false) => Self::KeptAlive,
            (false, _) => Self::Closed,
        }
    }
}

/// The time of a response.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment<'a> {
    pub(crate) now: SystemTime,
    /// Whole seconds since 1970.
    pub(crate) second: u64,
    /// The second in the form of HTTP dates.
    pub(crate) date: &'a str,
}

/// Origins that may read responses in addition to the same origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sharing<'a> {
    /// No other origin.
    None,
    /// Any origin.
    Any,
    /// The origin of the request, which is in the site's list.
    With(&'a [u8]),
    /// The origin of the request is not in the site's list.
    Refused,
}

impl<'a> Sharing<'a> {
    /// Header fields for a request to a site that shares with `origins`.
    pub(crate) fn of(origins: &[String], head: &Head<'_, 'a>) -> Self {
        match head.origin() {
            _ if origins.is_empty() => Sharing::None,
            _ if origins.iter().any(|origin| origin == "*") => Sharing::Any,
            Some(asking) if origins.iter().any(|origin| origin.as_bytes() == asking) => Sharing::With(asking),
            _ => Sharing::Refused,
        }
    }
}

/// The circumstances of one response.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame<'a> {
    pub(crate) moment: Moment<'a>,
    pub(crate) persistence: Persistence,
    pub(crate) sharing: Sharing<'a>,
    /// True if the request is for the head only.
    pub(crate) head_only: bool,
}

/// A response head that is being written.
struct Writing(Vec<u8>);

impl Writing {
    fn new(status: StatusCode, frame: &Frame<'_>) -> Self {
        let mut writing = Self(Vec::with_capacity(512));
        let reason = status.canonical_reason().unwrap_or("");
        writing.line(format_args!("HTTP/1.1 {} {reason}", status.as_str()));
        writing.field("Date", &frame.moment.date);
        writing
    }

    fn line(&mut self, line: fmt::Arguments<'_>) {
        write!(self.0, "{line}\r\n").expect("a Vec takes all");
    }

    fn field(&mut self, name: &str, value: &dyn fmt::Display) {
        self.line(format_args!("{name}: {value}"));
    }

    fn raw(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn finish(mut self, frame: &Frame<'_>) -> Bytes {
        match frame.sharing {
            Sharing::None => {}
            Sharing::Any => self.raw(b"Access-Control-Allow-Origin: *\r\n"),
            Sharing::With(origin) => {
                self.raw(b"Vary: Origin\r\nAccess-Control-Allow-Origin: ");
                self.raw(origin);
                self.raw(b"\r\n");
            }
            Sharing::Refused => self.raw(b"Vary: Origin\r\n"),
        }
        if matches!(frame.sharing, Sharing::Any | Sharing::With(_)) {
            self.raw(
                b"Access-Control-Expose-Headers: Accept-Ranges, Content-Encoding, Content-Range, ETag\r\n",
            );
        }
        match frame.persistence {
            Persistence::Kept => {}
            Persistence::KeptAlive => self.raw(b"Connection: keep-alive\r\n"),
            Persistence::Closed => self.raw(b"Connection: close\r\n"),
        }
        self.raw(b"\r\n");
        self.0.into()
    }
}

fn reply(status: StatusCode, frame: &Frame<'_>, head: Bytes, body: Body) -> Reply {
    let body = if frame.head_only { Body::None } else { body };
    Reply { status, head, body, close: frame.persistence == Persistence::Closed }
}

/// A short text.
pub(crate) fn text(status: StatusCode, frame: &Frame<'_>, fields: &[u8], text: &str) -> Reply {
    page(status, frame, fields, ("text/plain; charset=utf-8", text.to_owned().into()))
}

/// A generated body for this response.
pub(crate) fn page(
    status: StatusCode,
    frame: &Frame<'_>,
    fields: &[u8],
    (media, body): (&str, Bytes),
) -> Reply {
    let mut writing = Writing::new(status, frame);
    writing.field("Content-Type", &media);
    writing.field("Content-Length", &body.len());
    writing.raw(fields);
    reply(status, frame, writing.finish(frame), Body::Bytes(body))
}

/// The response with a status to a GET: as a page if the client accepts HTML, otherwise as text.
pub(crate) fn status(status: StatusCode, frame: &Frame<'_>, head: &Head<'_, '_>) -> Reply {
    const VARY: &[u8] = b"Vary: Accept\r\n";
    if !head.accepts(b"text/html") {
        return plain(status, frame, VARY);
    }
    let body = crate::page::of_status(status).into_string();
    page(status, frame, VARY, ("text/html; charset=utf-8", body.into()))
}

/// The status as a text.
pub(crate) fn plain(status: StatusCode, frame: &Frame<'_>, fields: &[u8]) -> Reply {
    text(status, frame, fields, &format!("{status}\n"))
}

/// The response to a refused request; it ends the connection.
pub(crate) fn refused(refusal: Refusal, head_only: bool, moment: Moment<'_>) -> Reply {
    let persistence = Persistence::Closed;
    let frame = Frame { moment, persistence, sharing: Sharing::None, head_only };
    text(refusal.status, &frame, b"", &format!("{}: {}\n", refusal.status, refusal.reason))
}

/// The methods that files have.
pub(crate) const ALLOW: &[u8] = b"Allow: GET, HEAD, OPTIONS\r\n";

/// The response to OPTIONS.
pub(crate) fn options(frame: &Frame<'_>, is_preflight: bool) -> Reply {
    let mut writing = Writing::new(StatusCode::NO_CONTENT, frame);
    writing.raw(ALLOW);
    if is_preflight && matches!(frame.sharing, Sharing::Any | Sharing::With(_)) {
        writing.raw(b"Access-Control-Allow-Methods: GET, HEAD, OPTIONS\r\n");
        writing.raw(b"Access-Control-Allow-Headers: If-Match, If-Modified-Since, If-None-Match, If-Range, If-Unmodified-Since, Range\r\n");
        writing.raw(b"Access-Control-Max-Age: 86400\r\n");
    }
    reply(StatusCode::NO_CONTENT, frame, writing.finish(frame), Body::None)
}

/// The response with a file, or with the requested part of it, if the client's conditions permit.
pub(crate) fn file(frame: &Frame<'_>, head: &Head<'_, '_>, resource: &Resource) -> Reply {
    let entry = chosen(head, resource);
    match condition::evaluate(head, entry.validators()) {
        Verdict::Proceed => {}
        Verdict::NotModified => {
            let mut writing = Writing::new(StatusCode::NOT_MODIFIED, frame);
            writing.raw(&entry.version_fields);
            return reply(StatusCode::NOT_MODIFIED, frame, writing.finish(frame), Body::None);
        }
        Verdict::Failed => return plain(StatusCode::PRECONDITION_FAILED, frame, b""),
    }
    let applies = || condition::range_applies(head.if_range(), entry.validators(), frame.moment.now);
    let ranges = match head.range() {
        Some(field) if head.method == Method::Get && applies() => range::resolve(field, entry.len()),
        _ => Ranges::Whole,
    };
    match ranges {
        Ranges::Whole => whole(StatusCode::OK, frame, entry),
        Ranges::One(span) => part(frame, entry, span),
        Ranges::Many(spans) => parts(frame, entry, &spans),
        Ranges::Unsatisfiable => {
            let field = format!("Content-Range: bytes */{}\r\n", entry.len());
            plain(StatusCode::RANGE_NOT_SATISFIABLE, frame, field.as_bytes())
        }
    }
}

/// The response with a file that replaces a missing one.
pub(crate) fn not_found(frame: &Frame<'_>, head: &Head<'_, '_>, resource: &Resource) -> Reply {
    whole(StatusCode::NOT_FOUND, frame, chosen(head, resource))
}

fn chosen<'r>(head: &Head<'_, '_>, resource: &'r Resource) -> &'r Rc<Entry> {
    let form = |encoding: Encoding| resource.encoded[encoding as usize].as_ref();
    if resource.encoded.iter().all(Option::is_none) {
        return &resource.plain;
    }
    // If a precompressed form was written since the look-up, the fields of the head do not match
    // it.
    let there = |encoding| form(encoding).is_some_and(|entry| entry.is_current());
    encoding::choose(head, there).and_then(form).unwrap_or(&resource.plain)
}

fn whole(status: StatusCode, frame: &Frame<'_>, entry: &Rc<Entry>) -> Reply {
    let span = Span { start: 0, end: entry.len() };
    let body = if span.is_empty() { Body::None } else { Body::File(entry.clone(), span) };
    let is_usual = status == StatusCode::OK
        && frame.persistence == Persistence::Kept
        && matches!(frame.sharing, Sharing::None | Sharing::Any);
    if !is_usual {
        return reply(status, frame, whole_head(status, frame, entry), body);
    }
    let mut known = entry.head.borrow_mut();
    let second = frame.moment.second;
    let dated = match known.take() {
        Some(dated) if dated.second == second => dated,
        _ => DatedHead { second, bytes: whole_head(status, frame, entry) },
    };
    let bytes = dated.bytes.clone();
    *known = Some(dated);
    reply(status, frame, bytes, body)
}

fn whole_head(status: StatusCode, frame: &Frame<'_>, entry: &Entry) -> Bytes {
    let mut writing = Writing::new(status, frame);
    writing.field("Content-Type", &entry.media);
    writing.field("Content-Length", &entry.len());
    if status == StatusCode::OK {
        writing.raw(&entry.version_fields);
    } else if entry.varies {
        writing.raw(b"Vary: Accept-Encoding\r\n");
    }
    writing.raw(&entry.body_fields);
    writing.finish(frame)
}

fn part(frame: &Frame<'_>, entry: &Rc<Entry>, span: Span) -> Reply {
    let status = StatusCode::PARTIAL_CONTENT;
    let mut writing = Writing::new(status, frame);
    writing.field("Content-Type", &entry.media);
    writing.field("Content-Length", &span.len());
    writing.line(format_args!("Content-Range: bytes {}-{}/{}", span.start, span.end - 1, entry.len()));
    writing.raw(&entry.version_fields);
    writing.raw(&entry.body_fields);
    reply(status, frame, writing.finish(frame), Body::File(entry.clone(), span))
}

fn parts(frame: &Frame<'_>, entry: &Rc<Entry>, spans: &[Span]) -> Reply {
    let status = StatusCode::PARTIAL_CONTENT;
    let boundary = boundary();
    let mut parts = VecDeque::with_capacity(2 * spans.len() + 1);
    let mut len = 0;
    for (index, span) in spans.iter().enumerate() {
        let line = if index == 0 { "" } else { "\r\n" };
        let between: Bytes = format!(
            "{line}--{boundary}\r\nContent-Type: {}\r\nContent-Range: bytes {}-{}/{}\r\n\r\n",
            entry.media,
            span.start,
            span.end - 1,
            entry.len()
        )
        .into();
        len += between.len() as u64 + span.len();
        parts.extend([Part::Bytes(between), Part::Span(*span)]);
    }
    let end: Bytes = format!("\r\n--{boundary}--\r\n").into();
    len += end.len() as u64;
    parts.push_back(Part::Bytes(end));
    let mut writing = Writing::new(status, frame);
    writing.field("Content-Type", &format_args!("multipart/byteranges; boundary={boundary}"));
    writing.field("Content-Length", &len);
    writing.raw(&entry.version_fields);
    writing.raw(&entry.body_fields);
    reply(status, frame, writing.finish(frame), Body::Parts(entry.clone(), parts))
}

/// A random boundary line; the chance that a file contains it is negligible.
fn boundary() -> String {
    use std::hash::{BuildHasher, Hasher, RandomState};
    let random = || RandomState::new().build_hasher().finish();
    format!("levada-{:016x}{:016x}", random(), random())
}
