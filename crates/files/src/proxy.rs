//! The PROXY protocol, versions 1 and 2: a header in which a proxy names its client.
//!
//! Only for addresses that only a trusted proxy can reach: any client can claim any address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Maximum number of bytes of a header that are waited for; one of version 2 with more is refused.
pub const HEADER_BYTES_MAX: usize = 1024;

const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
const FIRST_LINE_MAX: usize = 107;

/// Bytes received so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Header {
    /// Incomplete: more bytes are needed.
    Partial,
    /// A header of this number of bytes, with the client's address and port if it has them.
    Whole(Option<(IpAddr, u16)>, usize),
    /// The bytes are no header of this protocol.
    Malformed,
}

/// Reads the header at the front of `bytes`.
#[must_use]
pub fn parse(bytes: &[u8]) -> Header {
    let common = bytes.len().min(SIGNATURE.len());
    if bytes[..common] == SIGNATURE[..common] {
        return second(bytes);
    }
    let common = bytes.len().min(6);
    if bytes[..common] == b"PROXY "[..common] { first(bytes) } else { Header::Malformed }
}

fn first(bytes: &[u8]) -> Header {
    let seen = &bytes[..bytes.len().min(FIRST_LINE_MAX)];
    let Some(end) = memchr::memmem::find(seen, b"\r\n") else {
        return if seen.len() == FIRST_LINE_MAX { Header::Malformed } else { Header::Partial };
    };
    let Ok(line) = std::str::from_utf8(&seen[..end]) else { return Header::Malformed };
    let words: Vec<&str> = line.split(' ').collect();
    let client = match words[..] {
        ["PROXY", "UNKNOWN", ..] => Some(None),
        ["PROXY", family @ ("TCP4" | "TCP6"), source, target, source_port, target_port] => {
            named(family, (source, source_port))
                .filter(|_| named(family, (target, target_port)).is_some())
                .map(Some)
        }
        _ => None,
    };
    client.map_or(Header::Malformed, |client| Header::Whole(client, end + 2))
}

fn named(family: &str, (address, port): (&str, &str)) -> Option<(IpAddr, u16)> {
    let address = match family {
        "TCP4" => IpAddr::V4(address.parse().ok()?),
        _ => IpAddr::V6(address.parse().ok()?),
    };
    let is_plain = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    Some((address, port.parse().ok().filter(|_| is_plain)?))
}

fn second(bytes: &[u8]) -> Header {
    let Some(&[version, family, high, low]) = bytes.get(12..16).and_then(|four| four.first_chunk()) else {
        return Header::Partial;
    };
    let end = 16 + usize::from(u16::from_be_bytes([high, low]));
    if version >> 4 != 2 || version & 0xf > 1 || end > HEADER_BYTES_MAX {
        return Header::Malformed;
    }
    let Some(body) = bytes.get(16..end) else { return Header::Partial };
    // LOCAL: the proxy itself sends the request, as for its health checks.
    if version & 0xf == 0 {
        return Header::Whole(None, end);
    }
    let port = |at: usize| u16::from_be_bytes([body[at], body[at + 1]]);
    let client = match (family >> 4, body.len()) {
        (1, 12..) => {
            let address: [u8; 4] = body[..4].try_into().expect("four bytes");
            Some((IpAddr::V4(Ipv4Addr::from(address)), port(8)))
        }
        (2, 36..) => {
            let address: [u8; 16] = body[..16].try_into().expect("sixteen bytes");
            Some((IpAddr::V6(Ipv6Addr::from(address)), port(32)))
        }
        (1 | 2, _) => return Header::Malformed,
        _ => None,
    };
    Header::Whole(client, end)
}

#[cfg(test)]
mod tests;
