//! The head of one HTTP/1 request: parsed from bytes that have arrived, without a socket.
//!
//! Stricter than RFC 9112 requires of a recipient. Anything that two implementations could
//! interpret differently is refused and ends the connection: bare LF or CR, folded lines, space
//! before a colon, more than one Host or Content-Length, Content-Length together with
//! Transfer-Encoding, control characters.

use http::StatusCode;

/// Maximum number of bytes of a head, the empty line at its end included.
pub const HEAD_BYTES_MAX: usize = 16 << 10;

/// Maximum number of bytes of a request target.
pub const TARGET_BYTES_MAX: usize = 8 << 10;

/// Maximum number of header fields of a request.
pub const FIELDS_MAX: usize = 100;

/// Maximum number of bytes of a request body that are read and dropped, so that the connection can
/// continue.
pub const BODY_BYTES_MAX: u64 = 64 << 10;

/// Maximum number of empty lines before a request.
const EMPTY_LINES_MAX: usize = 4;

/// Memory for the header fields of one request.
pub type HeaderSlots<'a> = [httparse::Header<'a>; FIELDS_MAX];

/// Empty memory for header fields.
#[must_use]
pub fn room<'a>() -> HeaderSlots<'a> {
    [httparse::EMPTY_HEADER; FIELDS_MAX]
}

/// The reason why a request gets an error and the connection is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    /// The status of the response.
    pub status: StatusCode,
    /// The reason, for the client and the log.
    pub reason: &'static str,
}

impl Refusal {
    pub(crate) fn bad(reason: &'static str) -> Self {
        Self { status: StatusCode::BAD_REQUEST, reason }
    }
}

/// The outcome of parsing.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "it lives on the stack for one request; a box would be an allocation for each"
)]
pub enum Parsed<'h, 'b> {
    /// The head has not arrived whole.
    Partial,
    /// A head, and its length together with the bytes before it.
    Whole(Head<'h, 'b>, usize),
}

/// The methods with separate treatment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// GET.
    Get,
    /// HEAD.
    Head,
    /// OPTIONS.
    Options,
    /// A method of RFC 9110 or RFC 5789 that files do not have.
    Other,
    /// A method that the server does not serve.
    Unknown,
}

/// Header fields that have a meaning here and at most one value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Single {
    Host,
    ContentLength,
    Range,
    IfRange,
    IfModifiedSince,
    IfUnmodifiedSince,
    Origin,
    Referer,
    UserAgent,
    Expect,
    RequestMethod,
}

const SINGLES: [(&str, Single); 11] = [
    ("host", Single::Host),
    ("content-length", Single::ContentLength),
    ("range", Single::Range),
    ("if-range", Single::IfRange),
    ("if-modified-since", Single::IfModifiedSince),
    ("if-unmodified-since", Single::IfUnmodifiedSince),
    ("origin", Single::Origin),
    ("referer", Single::Referer),
    ("user-agent", Single::UserAgent),
    ("expect", Single::Expect),
    ("access-control-request-method", Single::RequestMethod),
];

/// The head of a request.
#[derive(Debug)]
pub struct Head<'h, 'b> {
    /// Method of the request.
    pub method: Method,
    /// The method as received.
    pub method_name: &'b str,
    /// The target as received.
    pub target: &'b [u8],
    /// True if it is HTTP/1.1 rather than HTTP/1.0.
    pub is_1_1: bool,
    /// True if the client keeps this connection open for further requests.
    pub keep_alive: bool,
    /// Bytes of the body that follows.
    pub body_bytes: u64,
    singles: [Option<&'b [u8]>; SINGLES.len()],
    fields: &'h [httparse::Header<'b>],
}

impl<'b> Head<'_, 'b> {
    fn single(&self, which: Single) -> Option<&'b [u8]> {
        self.singles[which as usize]
    }

    /// Host, which HTTP/1.1 requests always have.
    #[must_use]
    pub fn host(&self) -> Option<&'b [u8]> {
        self.single(Single::Host)
    }

    /// Value of the header field Range.
    #[must_use]
    pub fn range(&self) -> Option<&'b [u8]> {
        self.single(Single::Range)
    }

    /// Value of the header field If-Range.
    #[must_use]
    pub fn if_range(&self) -> Option<&'b [u8]> {
        self.single(Single::IfRange)
    }

    /// Value of the header field If-Modified-Since.
    #[must_use]
    pub fn if_modified_since(&self) -> Option<&'b [u8]> {
        self.single(Single::IfModifiedSince)
    }

    /// Value of the header field If-Unmodified-Since.
    #[must_use]
    pub fn if_unmodified_since(&self) -> Option<&'b [u8]> {
        self.single(Single::IfUnmodifiedSince)
    }

    /// Value of the header field Origin.
    #[must_use]
    pub fn origin(&self) -> Option<&'b [u8]> {
        self.single(Single::Origin)
    }

    /// Value of the header field Referer.
    #[must_use]
    pub fn referer(&self) -> Option<&'b [u8]> {
        self.single(Single::Referer)
    }

    /// Value of the header field User-Agent.
    #[must_use]
    pub fn user_agent(&self) -> Option<&'b [u8]> {
        self.single(Single::UserAgent)
    }

    /// True if the client waits for `100 Continue` before it sends the body.
    #[must_use]
    pub fn expects_continue(&self) -> bool {
        self.single(Single::Expect).is_some()
    }

    /// True if this is an OPTIONS request for the permissions of another origin.
    #[must_use]
    pub fn is_preflight(&self) -> bool {
        self.method == Method::Options
            && self.origin().is_some()
            && self.single(Single::RequestMethod).is_some()
    }

    /// The values of a field that may occur more than once; `name` in lower case.
    pub fn all(&self, name: &'static str) -> impl Iterator<Item = &'b [u8]> + Clone {
        let named = self.fields.iter().filter(move |field| field.name.eq_ignore_ascii_case(name));
        named.map(|field| field.value)
    }

    /// True if `Accept` names this media type, with any weight.
    pub(crate) fn accepts(&self, media: &[u8]) -> bool {
        let is_named = |member: &[u8]| {
            let name = member.split(|byte| *byte == b';').next().unwrap_or_default();
            name.trim_ascii().eq_ignore_ascii_case(media)
        };
        self.all("accept").flat_map(members).any(is_named)
    }
}

/// Parses the head at the front of `bytes`.
///
/// # Errors
/// The head is refused, and nothing after it can be trusted.
pub fn parse<'h, 'b>(bytes: &'b [u8], room: &'h mut HeaderSlots<'b>) -> Result<Parsed<'h, 'b>, Refusal> {
    let mut skipped = 0;
    while bytes[skipped..].starts_with(b"\r\n") {
        skipped += 2;
        if skipped > 2 * EMPTY_LINES_MAX {
            return Err(Refusal::bad("too many empty lines before a request"));
        }
    }
    let bytes = &bytes[skipped..];
    let end = memchr::memmem::find(bytes, b"\r\n\r\n").map(|at| at + 4);
    let seen = &bytes[..end.unwrap_or(bytes.len())];
    lines_end_well(seen)?;
    if seen.len() > HEAD_BYTES_MAX || (end.is_none() && seen.len() == HEAD_BYTES_MAX) {
        return Err(match memchr::memchr(b'\n', seen) {
            None => Refusal { status: StatusCode::URI_TOO_LONG, reason: "the request line is too long" },
            Some(_) => too_large(),
        });
    }
    if end.is_none() {
        return Ok(Parsed::Partial);
    }
    let mut request = httparse::Request::new(room);
    match request.parse(seen) {
        Ok(httparse::Status::Complete(_)) => {}
        Ok(httparse::Status::Partial) => return Err(Refusal::bad("the head is malformed")),
        Err(error) => return Err(refusal(error)),
    }
    let (Some(method_name), Some(target)) = (request.method, request.path) else {
        return Err(Refusal::bad("the request line is malformed"));
    };
    if target.len() > TARGET_BYTES_MAX {
        return Err(Refusal { status: StatusCode::URI_TOO_LONG, reason: "the target is too long" });
    }
    let is_1_1 = request.version == Some(1);
    let head = assemble((method_name, target.as_bytes(), is_1_1), request.headers)?;
    Ok(Parsed::Whole(head, skipped + seen.len()))
}

/// True if the request at the start of `bytes`, which may be malformed, has the method HEAD: the
/// response to it has no body.
pub(crate) fn begins_with_head(bytes: &[u8]) -> bool {
    bytes.trim_ascii_start().starts_with(b"HEAD ")
}

fn too_large() -> Refusal {
    let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
    Refusal { status, reason: "the header fields are too many or too long" }
}

fn refusal(error: httparse::Error) -> Refusal {
    match error {
        httparse::Error::TooManyHeaders => too_large(),
        httparse::Error::Version => {
            let status = StatusCode::HTTP_VERSION_NOT_SUPPORTED;
            Refusal { status, reason: "only HTTP/1.0 and HTTP/1.1 are served" }
        }
        _ => Refusal::bad("the head is malformed"),
    }
}

/// Checks that CR and LF occur in pairs only.
fn lines_end_well(bytes: &[u8]) -> Result<(), Refusal> {
    let mut after = usize::MAX;
    for at in memchr::memchr2_iter(b'\r', b'\n', bytes) {
        if bytes[at] == b'\r' {
            if bytes.get(at + 1).is_some_and(|next| *next != b'\n') {
                return Err(Refusal::bad("a carriage return without a line feed"));
            }
            after = at + 1;
        } else if after != at {
            return Err(Refusal::bad("a line feed without a carriage return"));
        }
    }
    Ok(())
}

fn assemble<'h, 'b>(
    (method_name, target, is_1_1): (&'b str, &'b [u8], bool),
    fields: &'h [httparse::Header<'b>],
) -> Result<Head<'h, 'b>, Refusal> {
    let mut singles = [None; SINGLES.len()];
    let (mut close, mut stay, mut coded) = (false, false, None);
    for field in fields {
        if field.name.eq_ignore_ascii_case("connection") {
            close |= lists(field.value, b"close");
            stay |= lists(field.value, b"keep-alive");
        } else if field.name.eq_ignore_ascii_case("transfer-encoding") {
            coded = Some(field.value);
        } else if let Some((_, which)) =
            SINGLES.iter().find(|(name, _)| field.name.eq_ignore_ascii_case(name))
        {
            let slot = &mut singles[*which as usize];
            if slot.is_some() {
                return Err(Refusal::bad("a header field that must be single comes twice"));
            }
            *slot = Some(field.value);
        }
    }
    let method = method(method_name);
    let body_bytes = body(singles[Single::ContentLength as usize], coded, is_1_1)?;
    if is_1_1 && singles[Single::Host as usize].is_none() {
        return Err(Refusal::bad("HTTP/1.1 requests have a Host field"));
    }
    if let Some(expected) = singles[Single::Expect as usize]
        && !expected.eq_ignore_ascii_case(b"100-continue")
    {
        let reason = "only 100-continue can be expected";
        return Err(Refusal { status: StatusCode::EXPECTATION_FAILED, reason });
    }
    let keep_alive = if is_1_1 { !close } else { stay && !close };
    Ok(Head { method, method_name, target, is_1_1, keep_alive, body_bytes, singles, fields })
}

fn method(name: &str) -> Method {
    match name {
        "GET" => Method::Get,
        "HEAD" => Method::Head,
        "OPTIONS" => Method::Options,
        "POST" | "PUT" | "DELETE" | "PATCH" | "TRACE" | "CONNECT" => Method::Other,
        _ => Method::Unknown,
    }
}

/// The length of the body, if the server can skip it.
fn body(length: Option<&[u8]>, coded: Option<&[u8]>, is_1_1: bool) -> Result<u64, Refusal> {
    match (length, coded) {
        (Some(_), Some(_)) => Err(Refusal::bad("Content-Length and Transfer-Encoding exclude each other")),
        (None, Some(_)) if !is_1_1 => Err(Refusal::bad("HTTP/1.0 has no Transfer-Encoding")),
        (None, Some(coding)) if coding.eq_ignore_ascii_case(b"chunked") => {
            Err(Refusal { status: StatusCode::LENGTH_REQUIRED, reason: "no chunked body is taken" })
        }
        (None, Some(_)) => Err(Refusal {
            status: StatusCode::NOT_IMPLEMENTED,
            reason: "this Transfer-Encoding is not known",
        }),
        (None, None) => Ok(0),
        (Some(digits), None) => {
            let all_digits = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
            let number = std::str::from_utf8(digits).ok().filter(|_| all_digits);
            let bytes: u64 = match number.map(str::parse) {
                Some(Ok(bytes)) => bytes,
                Some(Err(_)) => u64::MAX,
                None => return Err(Refusal::bad("Content-Length is not a number")),
            };
            if bytes > BODY_BYTES_MAX {
                return Err(Refusal { status: StatusCode::PAYLOAD_TOO_LARGE, reason: "no body is taken" });
            }
            Ok(bytes)
        }
    }
}

/// The members of a comma-separated list, without the space around them.
pub(crate) fn members(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).filter(|member| !member.is_empty())
}

fn lists(value: &[u8], token: &[u8]) -> bool {
    members(value).any(|member| member.eq_ignore_ascii_case(token))
}

#[cfg(test)]
mod tests;
