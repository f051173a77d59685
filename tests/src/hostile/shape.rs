//! The part of a request that is made as large as fits, and its names.

use super::layout::{Field, Kind, Layout};
use super::{CROWD, KNOWN, REQUEST_BYTES};
use crate::raw::Encoder;

/// Kafka's longest string.
const STRING_BYTES_MAX: usize = 32_767;
/// Maximum number of elements that the broker takes in one array.
const ELEMENTS_MAX: usize = 1 << 17;
/// Number of elements of all arrays together of Produce and Fetch.
const HOT_ELEMENTS: usize = 1 << 16;

/// Describes consumer groups alone.
const CONSUMER_GROUP_DESCRIBE: i16 = 69;

/// Kind of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// Empty names.
    Empty,
    /// As long as allowed, except within the array that is filled.
    LongAround,
    /// As long as allowed, everywhere.
    Long,
    /// Names of existing things, repeated.
    Known,
    /// Names that do not exist, or of what exists in great number, each different within the array
    /// that is filled.
    Distinct,
    /// Many arrays in entries with the same known name; the elements of all are different.
    Repeated,
}

/// One way to fill a request.
#[derive(Clone, Debug)]
pub struct Shape {
    /// The array that is filled, by the names of the fields that lead there; empty for bytes and
    /// strings alone.
    pub fills: String,
    /// Kind of names.
    pub names: Names,
    /// Type of the resources that it names.
    pub resource: i64,
}

/// The type of topics, which all requests about resources take.
const TOPIC: i64 = 2;

/// The other types that requests of this API take: groups, the cluster and transactional ids in
/// access control entries; brokers, their loggers, metrics of clients and groups in configurations.
fn other_resources(layout: &Layout) -> &'static [i64] {
    match layout.key {
        29..=31 => &[3, 4, 5],
        32 | 33 | 44 => &[4, 8, 16, 32],
        _ => &[],
    }
}

impl std::fmt::Display for Shape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = match self.names {
            Names::Empty => "empty names",
            Names::LongAround => "long names around",
            Names::Long => "long names",
            Names::Known => "known names",
            Names::Distinct => "distinct names",
            Names::Repeated => "one name around distinct ones",
        };
        if !self.fills.is_empty() {
            write!(f, "{}, ", self.fills)?;
        }
        f.write_str(names)?;
        if self.resource == TOPIC { Ok(()) } else { write!(f, ", resource type {}", self.resource) }
    }
}

/// The shapes of a layout.
pub fn shapes(layout: &Layout) -> Vec<Shape> {
    let mut paths = vec![];
    arrays(&layout.fields, "", &mut paths);
    let all = [Names::Empty, Names::LongAround, Names::Long, Names::Known, Names::Distinct];
    let shape = |fills: &str, names| Shape { fills: fills.to_owned(), names, resource: TOPIC };
    let mut shapes: Vec<Shape> =
        paths.iter().flat_map(|fills| all.map(|names| shape(fills, names))).collect();
    let nested = paths.iter().filter(|path| path.contains('.'));
    shapes.extend(nested.map(|fills| shape(fills, Names::Repeated)));
    shapes.extend([Names::Known, Names::Long].map(|names| shape("", names)));
    for resource in other_resources(layout) {
        let of_type = |fills: &str, names| Shape { resource: *resource, ..shape(fills, names) };
        shapes.push(of_type("", Names::Known));
        shapes.extend(
            paths.iter().flat_map(|fills| [Names::Known, Names::Distinct].map(|names| of_type(fills, names))),
        );
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
            Names::Known | Names::Distinct => outermost && self.resource == TOPIC,
            Names::Repeated => true,
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
            Writer { layout, shape: self, around: 1, count: 1, bytes: 0, marks: Vec::new(), begun: 0 };
        // The size of everything but the filled array, then of one of its elements, then of one
        // more array of it.
        let mut size = |around, count| {
            (writer.around, writer.count) = (around, count);
            writer.write(version).len()
        };
        let (one, two, twice) = (size(1, 1), size(1, 2), size(2, 1));
        let (element, array) = (two.saturating_sub(one), twice.saturating_sub(one));
        let most = if layout.key <= 1 { HOT_ELEMENTS } else { ELEMENTS_MAX - 1 };
        let room = REQUEST_BYTES.saturating_sub(one);
        let fit = room.checked_div(element).unwrap_or(0).max(1);
        // Entries that do not fit into one array within another go into several.
        writer.around = match self.names {
            Names::Repeated => AROUND,
            _ if array > 0 && layout.key > 1 => fit.div_ceil(most),
            _ => 1,
        };
        let beside = (writer.around - 1) * array;
        let fit = room.saturating_sub(beside).checked_div(element * writer.around).unwrap_or(0);
        writer.count = match self.names {
            Names::Repeated if layout.key <= 1 => fit.clamp(1, most / AROUND - 1),
            _ => fit.clamp(1, most),
        };
        writer.bytes = if self.fills.is_empty() { room } else { 0 };
        writer.write(version)
    }
}

struct Writer<'a> {
    layout: &'a Layout,
    shape: &'a Shape,
    /// Number of arrays that are filled, if they are within another.
    around: usize,
    /// Number of elements of a filled array.
    count: usize,
    /// Length of byte fields.
    bytes: usize,
    /// Position at which an element of it differs from the others.
    marks: Vec<Mark>,
    /// Number of the first element of the next array that is filled.
    begun: usize,
}

/// Number of entries of the same name around the filled arrays of [`Names::Repeated`].
const AROUND: usize = 512;

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
    fn write(&mut self, version: i16) -> Vec<u8> {
        self.begun = 0;
        let mut out = Encoder::default().i16(self.layout.key).i16(version).i32(7).string("hostile");
        if self.layout.compact {
            out = out.varint(0);
        }
        self.fields(out, &self.layout.fields, "", false).done()
    }

    fn fields(&mut self, mut out: Encoder, fields: &[Field], path: &str, within: bool) -> Encoder {
        for field in fields {
            let path = if path.is_empty() { field.name.clone() } else { format!("{path}.{}", field.name) };
            out = self.value(out, (&field.name, &path), &field.kind, within);
        }
        if self.layout.compact { out.varint(0) } else { out }
    }

    fn value(&mut self, out: Encoder, (name, path): (&str, &str), kind: &Kind, within: bool) -> Encoder {
        match kind {
            Kind::Number(bytes) => {
                let number = if is_resource_type(name) { self.shape.resource } else { number_for(name) };
                let out = out.raw(&number.to_be_bytes()[8 - bytes..]);
                if within && matches!(self.shape.names, Names::Distinct | Names::Repeated) && counts(name) {
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
                let out = if self.layout.compact { out.compact_string(&text) } else { out.string(&text) };
                if counts {
                    self.marks.push(Mark::Digits(out.length()));
                }
                out
            }
            Kind::Bytes => {
                let bytes = vec![7; self.bytes];
                if self.layout.compact {
                    out.varint(u32::try_from(bytes.len() + 1).expect("a megabyte")).raw(&bytes)
                } else {
                    out.bytes(&bytes)
                }
            }
            Kind::Array(element) => self.array(out, path, element, within),
            Kind::Fields(_) if is_absent(name) => out.i8(-1),
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
        out = if self.layout.compact { out.varint(length + 1) } else { out.i32(length.cast_signed()) };
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
        for number in self.begun..self.begun + count {
            self.marks.iter().for_each(|mark| mark.set(&mut bytes, number));
            all.extend_from_slice(&bytes);
        }
        if self.shape.names == Names::Repeated {
            self.begun += count;
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
            // The only broker has this id.
            "resource_name" if matches!(self.shape.resource, 4 | 8) => "1",
            _ if self.layout.key == CONSUMER_GROUP_DESCRIBE => CROWD,
            _ => KNOWN,
        };
        let long = || "a".repeat(STRING_BYTES_MAX);
        match self.shape.names {
            Names::Empty => (String::new(), false),
            Names::Long => (long(), false),
            Names::LongAround if within => (String::new(), false),
            Names::LongAround => (long(), false),
            Names::Distinct | Names::Repeated if within && (known == KNOWN || known == CROWD) => {
                ("0".repeat(DIGITS), true)
            }
            Names::Known | Names::Distinct | Names::Repeated => (known.to_string(), false),
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
        "resource_pattern_type" | "operation" | "permission_type" | "pattern_type_filter" => 3,
        "num_partitions" | "replication_factor" | "count" | "endpoint_type" => 1,
        "iterations" => 4_096,
        "response_partition_limit" => 2_000,
        _ => 0,
    }
}

/// Fields that may be null, and are: topologies have limits of their own, and tests beside them.
fn is_absent(name: &str) -> bool {
    matches!(name, "cursor" | "topology" | "user_endpoint")
}

fn is_resource_type(name: &str) -> bool {
    matches!(name, "resource_type" | "resource_type_filter")
}

/// Topics are not created by hundreds of thousands: that is what their creation costs.
fn is_safe(name: &str) -> bool {
    name == "validate_only"
}
