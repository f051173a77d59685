//! The part of a request that is made as large as fits, and its names.

use super::layout::{Field, Kind, Layout};
use super::{KNOWN, REQUEST_BYTES};
use crate::raw::Encoder;

/// Kafka's longest string.
const STRING_BYTES_MAX: usize = 32_767;
/// Most elements that the broker takes in one array.
const ELEMENTS_MAX: usize = 1 << 17;
/// Elements of all arrays together of Produce and Fetch.
const HOT_ELEMENTS: usize = 1 << 16;

/// Kind of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// Empty.
    Empty,
    /// As long as allowed, except within the array that is filled.
    LongAround,
    /// As long as allowed, everywhere.
    Long,
    /// Names of existing things, repeated.
    Known,
    /// Names that do not exist, each different within the array that is filled.
    Distinct,
}

/// One way to fill a request.
#[derive(Clone, Debug)]
pub struct Shape {
    /// The array that is filled, by the names of the fields that lead there; empty for bytes and
    /// strings alone.
    pub fills: String,
    /// Kind of names.
    pub names: Names,
}

impl std::fmt::Display for Shape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = match self.names {
            Names::Empty => "empty names",
            Names::LongAround => "long names around",
            Names::Long => "long names",
            Names::Known => "known names",
            Names::Distinct => "distinct names",
        };
        if self.fills.is_empty() { f.write_str(names) } else { write!(f, "{}, {names}", self.fills) }
    }
}

/// The shapes of a layout.
pub fn shapes(layout: &Layout) -> Vec<Shape> {
    let mut paths = vec![];
    arrays(&layout.fields, "", &mut paths);
    let all = [Names::Empty, Names::LongAround, Names::Long, Names::Known, Names::Distinct];
    let filled = paths.iter().flat_map(|fills| all.map(|names| Shape { fills: fills.clone(), names }));
    let mut shapes: Vec<Shape> = filled.collect();
    for names in [Names::Known, Names::Long] {
        shapes.push(Shape { fills: String::new(), names });
    }
    shapes
}

fn arrays(fields: &[Field], prefix: &str, found: &mut Vec<String>) {
    for field in fields {
        let path = if prefix.is_empty() { field.name.clone() } else { format!("{prefix}.{}", field.name) };
        match &field.kind {
            Kind::Array(element) => {
                found.push(path.clone());
                if let Kind::Fields(fields) = &**element {
                    arrays(fields, &path, found);
                }
            }
            Kind::Fields(fields) => arrays(fields, &path, found),
            _ => {}
        }
    }
}

impl Shape {
    /// True if it is one of the few that show most: the longest names around the innermost array,
    /// and many names of what there is and of what there is not.
    pub fn is_telling(&self) -> bool {
        let outermost = !self.fills.contains('.');
        match self.names {
            Names::LongAround => !outermost,
            Names::Known | Names::Distinct => outermost,
            Names::Empty | Names::Long => false,
        }
    }

    /// True if no two entries have the same name, or if there is one entry.
    pub fn is_distinct(&self) -> bool {
        self.fills.is_empty() || self.names == Names::Distinct
    }

    /// The request, without its length.
    pub fn request(&self, layout: &Layout, version: i16) -> Vec<u8> {
        let mut writer =
            Writer { compact: layout.compact, shape: self, around: 1, count: 1, bytes: 0, marks: Vec::new() };
        // The size of everything but the filled array, then of one of its elements, then of one
        // more array of it.
        let mut size = |around, count| {
            (writer.around, writer.count) = (around, count);
            writer.write(layout, version).len()
        };
        let (one, two, twice) = (size(1, 1), size(1, 2), size(2, 1));
        let (element, array) = (two.saturating_sub(one), twice.saturating_sub(one));
        let most = if layout.key <= 1 { HOT_ELEMENTS } else { ELEMENTS_MAX - 1 };
        let room = REQUEST_BYTES.saturating_sub(one);
        let fit = room.checked_div(element).unwrap_or(0).max(1);
        // Entries that do not fit into one array within another go into several.
        writer.around = if array > 0 && layout.key > 1 { fit.div_ceil(most) } else { 1 };
        let beside = (writer.around - 1) * array;
        let fit = room.saturating_sub(beside).checked_div(element * writer.around).unwrap_or(0);
        writer.count = fit.clamp(1, most);
        writer.bytes = if self.fills.is_empty() { room } else { 0 };
        writer.write(layout, version)
    }
}

struct Writer<'a> {
    compact: bool,
    shape: &'a Shape,
    /// Number of arrays that are filled, if they are within another.
    around: usize,
    /// Elements of a filled array.
    count: usize,
    /// Length of byte fields.
    bytes: usize,
    /// Position at which an element of it differs from the others.
    marks: Vec<Mark>,
}

/// A place in an element that counts.
#[derive(Clone, Copy)]
enum Mark {
    /// Five digits that end here.
    Digits(usize),
    /// A number of this many bytes that ends here.
    Number(usize, usize),
}

/// Length of a name that counts.
const DIGITS: usize = 5;

impl Writer<'_> {
    fn write(&mut self, layout: &Layout, version: i16) -> Vec<u8> {
        let mut out = Encoder::default().i16(layout.key).i16(version).i32(7).string("hostile");
        if self.compact {
            out = out.varint(0);
        }
        self.fields(out, &layout.fields, "", false).done()
    }

    fn fields(&mut self, mut out: Encoder, fields: &[Field], path: &str, within: bool) -> Encoder {
        for field in fields {
            let path = if path.is_empty() { field.name.clone() } else { format!("{path}.{}", field.name) };
            out = self.value(out, (&field.name, &path), &field.kind, within);
        }
        if self.compact { out.varint(0) } else { out }
    }

    fn value(&mut self, out: Encoder, (name, path): (&str, &str), kind: &Kind, within: bool) -> Encoder {
        match kind {
            Kind::Number(bytes) => {
                let out = out.raw(&number_for(name).to_be_bytes()[8 - bytes..]);
                if within && self.shape.names == Names::Distinct && counts(name) {
                    self.marks.push(Mark::Number(out.length(), *bytes));
                }
                out
            }
            Kind::Bool => {
                out.i8(i8::from(name.starts_with("include") || name == "require_stable" || is_safe(name)))
            }
            Kind::Uuid => out.raw(&[0; 16]),
            Kind::String => {
                let (text, counts) = self.text(name, within);
                let out = if self.compact { out.compact_string(&text) } else { out.string(&text) };
                if counts {
                    self.marks.push(Mark::Digits(out.length()));
                }
                out
            }
            Kind::Bytes => {
                let bytes = vec![7; self.bytes];
                if self.compact {
                    out.varint(u32::try_from(bytes.len() + 1).expect("a megabyte")).raw(&bytes)
                } else {
                    out.bytes(&bytes)
                }
            }
            Kind::Array(element) => self.array(out, path, element, within),
            Kind::Fields(fields) if name == "cursor" && !fields.is_empty() => out.i8(-1),
            Kind::Fields(fields) => self.fields(out, fields, path, within),
        }
    }

    fn array(&mut self, mut out: Encoder, path: &str, element: &Kind, within: bool) -> Encoder {
        let fills = self.shape.fills == path;
        let leads = self.shape.fills.starts_with(&format!("{path}."));
        // An array outside of the path is empty; one within the filled array has an element.
        let parent = self.shape.fills.rsplit_once('.').is_some_and(|(parent, _)| parent == path);
        let count = match (fills, parent) {
            (true, _) => self.count,
            (_, true) => self.around,
            _ => usize::from(leads || within),
        };
        let length = u32::try_from(count).expect("below a million");
        out = if self.compact { out.varint(length + 1) } else { out.i32(length.cast_signed()) };
        let name = path.rsplit('.').next().unwrap_or(path);
        if !fills {
            for _ in 0..count {
                out = self.value(out, (name, path), element, within);
            }
            return out;
        }
        // One element, repeated as often as needed: encoding each would take longer than answering
        // it.
        self.marks.clear();
        let mut bytes = self.value(Encoder::default(), (name, path), element, true).done();
        let mut all = Vec::with_capacity(count * bytes.len());
        for number in 0..count {
            self.marks.iter().for_each(|mark| mark.set(&mut bytes, number));
            all.extend_from_slice(&bytes);
        }
        out.raw(&all)
    }

    /// A string, and whether it counts.
    fn text(&self, name: &str, within: bool) -> (String, bool) {
        let known = match name {
            "protocol_type" => "consumer",
            "mechanism" => "PLAIN",
            "entity_type" => "user",
            "key" => "producer_byte_rate",
            "principal" | "principal_filter" => "User:known",
            "host" | "host_filter" => "*",
            _ => KNOWN,
        };
        let long = || "a".repeat(STRING_BYTES_MAX);
        match self.shape.names {
            Names::Empty => (String::new(), false),
            Names::Long => (long(), false),
            Names::LongAround if within => (String::new(), false),
            Names::LongAround => (long(), false),
            Names::Distinct if within && known == KNOWN => ("0".repeat(DIGITS), true),
            Names::Known | Names::Distinct => (known.to_string(), false),
        }
    }
}

impl Mark {
    fn set(self, element: &mut [u8], number: usize) {
        match self {
            Self::Digits(end) => {
                let mut rest = number;
                for digit in element[end - DIGITS..end].iter_mut().rev() {
                    *digit = b"0123456789"[rest % 10];
                    rest /= 10;
                }
            }
            Self::Number(end, bytes) => {
                element[end - bytes..end].copy_from_slice(&number.to_be_bytes()[8 - bytes..]);
            }
        }
    }
}

fn counts(name: &str) -> bool {
    (name.contains("partition") && name != "num_partitions" && name != "partition_max_bytes")
        || name == "index"
        || name.contains("producer_id")
}

fn number_for(name: &str) -> i64 {
    match name {
        "partition_max_bytes" | "max_bytes" => 1 << 20,
        "timeout_ms" | "session_timeout_ms" | "rebalance_timeout_ms" | "transaction_timeout_ms" => 10_000,
        "replica_id"
        | "acks"
        | "timestamp"
        | "current_leader_epoch"
        | "last_fetched_epoch"
        | "retention_time_ms"
        | "generation_id"
        | "generation_id_or_member_epoch"
        | "duration_filter"
        | "log_start_offset" => -1,
        "resource_type" | "resource_type_filter" => 2,
        "resource_pattern_type" | "operation" | "permission_type" | "pattern_type_filter" => 3,
        "num_partitions" | "replication_factor" | "count" | "endpoint_type" => 1,
        "iterations" => 4_096,
        "response_partition_limit" => 2_000,
        _ => 0,
    }
}

/// Topics are not created by hundreds of thousands: that is what their creation costs.
fn is_safe(name: &str) -> bool {
    name == "validate_only"
}
