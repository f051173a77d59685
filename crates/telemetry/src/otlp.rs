//! The payload of a push: `MetricsData` of OpenTelemetry's protocol, in the encoding of Protocol
//! Buffers. The reader visits the points of a payload in place and allocates nothing, so that the
//! memory of a push does not depend on what its sender claims. [Why no generated
//! types](../../../docs/decisions/2026-11-29-client-telemetry.md).
//!
//! Gauges and sums have values. Points of histograms and summaries, which no client of Kafka sends,
//! are counted ([`Visitor::left_out`]). Unknown fields are skipped; groups, which Protocol Buffers
//! have deprecated, are refused.

use std::fmt::Write as _;
use std::str;

use thiserror::Error;

/// A payload that is no `MetricsData`.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
pub enum Damaged {
    /// A field ends after its message.
    #[error("a field of {bytes} bytes ends after its message, which has {left} bytes left")]
    Truncated {
        /// Bytes that the field claims.
        bytes: u64,
        /// Bytes of the message that are left.
        left: usize,
    },
    /// A varint has more than 64 bits.
    #[error("a varint has more than 64 bits")]
    Overlong,
    /// A tag has the field number 0, or a wire type that no longer exists.
    #[error("tag {0} is not valid")]
    Tag(u64),
    /// A string field is not UTF-8.
    #[error("a string field of {bytes} bytes is not UTF-8 from byte {at} on")]
    Text {
        /// Length of the field.
        bytes: usize,
        /// Position of the damage in the field.
        at: usize,
    },
}

/// Kind of a metric.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// A gauge: the present value.
    Gauge,
    /// The change since the previous push.
    Delta {
        /// True if the sum never falls.
        monotonic: bool,
    },
    /// The sum since the client's start.
    Total {
        /// True if the sum never falls.
        monotonic: bool,
    },
}

/// A value of a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point<'a> {
    /// Name of the metric.
    pub name: &'a str,
    /// Kind of the point.
    pub kind: Kind,
    /// The value.
    pub value: f64,
    /// The attributes of the point.
    pub attributes: Attributes<'a>,
}

/// Receiver of the parts of a payload.
pub trait Visitor {
    /// An attribute of the client, which its metrics have in common.
    fn label(&mut self, name: &str, value: &str);

    /// A point with a value.
    fn point(&mut self, point: &Point<'_>);

    /// A point of another kind.
    fn left_out(&mut self);
}

/// Visits all parts of the payload, in their order.
///
/// # Errors
/// The payload is damaged; the parts before the damage were visited.
pub fn visit(payload: &[u8], visitor: &mut impl Visitor) -> Result<(), Damaged> {
    for resource_metrics in messages(payload, 1) {
        let resource_metrics = resource_metrics?;
        for resource in messages(resource_metrics, 1) {
            let mut value = String::new();
            for attribute in messages(resource?, 1) {
                value.clear();
                let name = key_value(attribute?, &mut value)?;
                visitor.label(name, &value);
            }
        }
        for scope in messages(resource_metrics, 2) {
            for metric in messages(scope?, 2) {
                visit_metric(metric?, visitor)?;
            }
        }
    }
    Ok(())
}

fn visit_metric(metric: &[u8], visitor: &mut impl Visitor) -> Result<(), Damaged> {
    let mut name = "";
    for field in Fields(metric) {
        if let (1, Value::Bytes(bytes)) = field? {
            name = text(bytes)?;
        }
    }
    for field in Fields(metric) {
        match field? {
            (5, Value::Bytes(gauge)) => visit_points(gauge, (name, Kind::Gauge), visitor)?,
            (7, Value::Bytes(sum)) => visit_points(sum, (name, kind_of_sum(sum)?), visitor)?,
            (9..=11, Value::Bytes(other)) => {
                for point in messages(other, 1) {
                    point?;
                    visitor.left_out();
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn kind_of_sum(sum: &[u8]) -> Result<Kind, Damaged> {
    const DELTA: u64 = 1;
    let (mut temporality, mut monotonic) = (0, false);
    for field in Fields(sum) {
        match field? {
            (2, Value::Varint(number)) => temporality = number,
            (3, Value::Varint(number)) => monotonic = number != 0,
            _ => {}
        }
    }
    Ok(if temporality == DELTA { Kind::Delta { monotonic } } else { Kind::Total { monotonic } })
}

fn visit_points(data: &[u8], (name, kind): (&str, Kind), visitor: &mut impl Visitor) -> Result<(), Damaged> {
    for point in messages(data, 1) {
        let point = point?;
        let mut value = None;
        for field in Fields(point) {
            match field? {
                (4, Value::Fixed64(bits)) => value = Some(f64::from_bits(bits)),
                (6, Value::Fixed64(bits)) => value = Some(bits.cast_signed() as f64),
                (7, Value::Bytes(attribute)) => drop(key_value(attribute, &mut Checked)?),
                _ => {}
            }
        }
        match value {
            Some(value) => visitor.point(&Point { name, kind, value, attributes: Attributes(point) }),
            None => visitor.left_out(),
        }
    }
    Ok(())
}

/// The attributes of a point, which are valid.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attributes<'a>(&'a [u8]);

impl Attributes<'_> {
    /// Appends them as `name=value`, with a comma between two.
    pub fn write(&self, to: &mut String) {
        let start = to.len();
        for attribute in messages(self.0, 7).flatten() {
            if to.len() > start {
                to.push(',');
            }
            let mut value = String::new();
            // Checked before the visit.
            let Ok(name) = key_value(attribute, &mut value) else { continue };
            to.extend([name, "=", &value]);
        }
    }
}

/// Receiver of a value's text.
trait ValueText {
    fn write(&mut self, text: std::fmt::Arguments<'_>);
}

impl ValueText for String {
    fn write(&mut self, text: std::fmt::Arguments<'_>) {
        // A string has no errors.
        let _ = self.write_fmt(text);
    }
}

/// Receiver of a value that is only checked.
struct Checked;

impl ValueText for Checked {
    fn write(&mut self, _: std::fmt::Arguments<'_>) {}
}

/// The name of an attribute; its value is appended. Lists, maps and bytes have no text.
fn key_value<'a>(attribute: &'a [u8], value: &mut impl ValueText) -> Result<&'a str, Damaged> {
    let mut name = "";
    for field in Fields(attribute) {
        match field? {
            (1, Value::Bytes(bytes)) => name = text(bytes)?,
            (2, Value::Bytes(any)) => {
                for field in Fields(any) {
                    match field? {
                        (1, Value::Bytes(bytes)) => value.write(format_args!("{}", text(bytes)?)),
                        (2, Value::Varint(number)) => value.write(format_args!("{}", number != 0)),
                        (3, Value::Varint(number)) => value.write(format_args!("{}", number.cast_signed())),
                        (4, Value::Fixed64(bits)) => value.write(format_args!("{}", f64::from_bits(bits))),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    Ok(name)
}

/// Contents of the fields with this number that have a length.
fn messages(message: &[u8], number: u64) -> impl Iterator<Item = Result<&[u8], Damaged>> {
    Fields(message).filter_map(move |field| match field {
        Ok((at, Value::Bytes(bytes))) if at == number => Some(Ok(bytes)),
        Ok(_) => None,
        Err(damaged) => Some(Err(damaged)),
    })
}

fn text(bytes: &[u8]) -> Result<&str, Damaged> {
    str::from_utf8(bytes).map_err(|error| Damaged::Text { bytes: bytes.len(), at: error.valid_up_to() })
}

/// The fields of a message: numbers and values. It ends after the first damage.
struct Fields<'a>(&'a [u8]);

/// The value of a field.
enum Value<'a> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
    Fixed32,
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Value<'a>), Damaged>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.0 = &[];
        }
        Some(field)
    }
}

impl<'a> Fields<'a> {
    fn field(&mut self) -> Result<(u64, Value<'a>), Damaged> {
        let tag = self.varint()?;
        let number = tag >> 3;
        if number == 0 || tag > u64::from(u32::MAX) {
            return Err(Damaged::Tag(tag));
        }
        let value = match tag & 7 {
            0 => Value::Varint(self.varint()?),
            1 => Value::Fixed64(u64::from_le_bytes(*self.array()?)),
            2 => {
                let length = self.varint()?;
                let truncated = self.truncated(length);
                let at = usize::try_from(length).map_err(|_| truncated)?;
                let (bytes, rest) = self.0.split_at_checked(at).ok_or(truncated)?;
                self.0 = rest;
                Value::Bytes(bytes)
            }
            5 => {
                self.array::<4>()?;
                Value::Fixed32
            }
            _ => return Err(Damaged::Tag(tag)),
        };
        Ok((number, value))
    }

    /// The error for a field of this many bytes.
    fn truncated(&self, bytes: u64) -> Damaged {
        Damaged::Truncated { bytes, left: self.0.len() }
    }

    fn array<const N: usize>(&mut self) -> Result<&'a [u8; N], Damaged> {
        let (array, rest) = self.0.split_first_chunk().ok_or(self.truncated(N as u64))?;
        self.0 = rest;
        Ok(array)
    }

    fn varint(&mut self) -> Result<u64, Damaged> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first().ok_or(self.truncated(1))?;
            self.0 = rest;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && *byte > 1 {
                return Err(Damaged::Overlong);
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Damaged::Overlong)
    }
}

#[cfg(test)]
mod tests;
