//! Common parts of all metadata records: the trait that each record implements, and the field
//! encodings of Kafka's record schemas (all "flexible": compact lengths and tagged fields).

use levada_wire::primitives::{
    BufferTarget, Bytes, BytesMut, DecodeError, Decoder, EncodeError, Encoder, StrBytes, TagOutcome,
    TaggedField, TaggedFields, Uuid,
};

/// An encoder that appends to a buffer.
pub(crate) type Out<'a> = Encoder<BufferTarget<'a>>;

/// One kind of record: its number in Kafka's catalogue, its versions and its fields.
pub(crate) trait Body: Sized {
    /// The number before every record of this kind.
    const API_KEY: u16;
    /// Highest known version. A higher one is refused, because it may have fields that this broker
    /// does not know.
    const LATEST: u16;

    /// The version that Kafka 4.3 chooses when it writes this value.
    fn version(&self) -> u16;

    /// Reads the fields of `version`; unknown tagged fields are skipped, as Kafka's own image does.
    fn decode(input: &mut Decoder, version: u16) -> Result<Self, DecodeError>;

    /// Writes the fields that exist in `version`.
    fn encode(&self, out: &mut Out<'_>, version: u16) -> Result<(), EncodeError>;
}

pub(super) fn read_text(input: &mut Decoder) -> Result<String, DecodeError> {
    // A deliberate copy: a slice would keep the whole replayed segment in memory.
    input.read_compact_string().map(StrBytes::into_string)
}

pub(super) fn read_optional_text(input: &mut Decoder) -> Result<Option<String>, DecodeError> {
    Ok(input.read_compact_nullable_string()?.map(StrBytes::into_string))
}

pub(super) fn write_text(out: &mut Out<'_>, text: &str) -> Result<(), EncodeError> {
    out.write_compact_string(&StrBytes::from(text))
}

pub(super) fn write_optional_text(out: &mut Out<'_>, text: Option<&str>) -> Result<(), EncodeError> {
    out.write_compact_nullable_string(text.map(StrBytes::from).as_ref())
}

pub(super) fn read_array<T>(
    input: &mut Decoder,
    element: impl FnMut(&mut Decoder) -> Result<T, DecodeError>,
) -> Result<Vec<T>, DecodeError> {
    let length = input.read_compact_array_len()?;
    input.read_vec(length, element)
}

pub(super) fn read_optional_array<T>(
    input: &mut Decoder,
    element: impl FnMut(&mut Decoder) -> Result<T, DecodeError>,
) -> Result<Option<Vec<T>>, DecodeError> {
    match input.read_compact_nullable_array_len()? {
        Some(length) => input.read_vec(length, element).map(Some),
        None => Ok(None),
    }
}

pub(super) fn write_array<T>(
    out: &mut Out<'_>,
    values: &[T],
    mut element: impl FnMut(&mut Out<'_>, &T) -> Result<(), EncodeError>,
) -> Result<(), EncodeError> {
    out.write_compact_array_len(values.len())?;
    values.iter().try_for_each(|value| element(out, value))
}

pub(super) fn write_ids(out: &mut Out<'_>, ids: &[i32]) -> Result<(), EncodeError> {
    write_array(out, ids, |out, id| out.write_i32(*id))
}

pub(super) fn write_uuids(out: &mut Out<'_>, ids: &[Uuid]) -> Result<(), EncodeError> {
    write_array(out, ids, |out, id| out.write_uuid(*id))
}

/// The tagged fields at a structure's end; `known` decodes a field of the schema and returns true.
pub(super) fn read_tags(
    input: &mut Decoder,
    mut known: impl FnMut(u32, &mut Decoder) -> Result<bool, DecodeError>,
) -> Result<(), DecodeError> {
    let seen = |tag, field: &mut Decoder| {
        known(tag, field).map(|known| if known { TagOutcome::Decoded } else { TagOutcome::Retained })
    };
    input.read_tagged_fields_with(seen).map(drop)
}

/// A structure whose schema names no tagged field.
pub(super) fn skip_tags(input: &mut Decoder) -> Result<(), DecodeError> {
    read_tags(input, |_, _| Ok(false))
}

/// Tagged fields to be written: those that differ from their default, in ascending order.
#[derive(Default)]
pub(super) struct Tags(Vec<TaggedField>);

impl Tags {
    /// Adds field `tag` unless `present` is false.
    pub(super) fn add(
        mut self,
        tag: u32,
        present: bool,
        write: impl FnOnce(&mut Out<'_>) -> Result<(), EncodeError>,
    ) -> Result<Self, EncodeError> {
        if present {
            let mut buffer = BytesMut::new();
            write(&mut Encoder::new(&mut buffer))?;
            self.0.push(TaggedField::new(tag, Bytes::from(buffer)));
        }
        Ok(self)
    }

    /// Adds an array of broker ids unless it is null.
    pub(super) fn optional_ids(self, tag: u32, ids: Option<&[i32]>) -> Result<Self, EncodeError> {
        self.add(tag, ids.is_some(), |out| write_ids(out, ids.unwrap_or_default()))
    }

    /// Adds an array of ids unless it is null.
    pub(super) fn optional_uuids(self, tag: u32, ids: Option<&[Uuid]>) -> Result<Self, EncodeError> {
        self.add(tag, ids.is_some(), |out| write_uuids(out, ids.unwrap_or_default()))
    }

    pub(super) fn write(self, out: &mut Out<'_>) -> Result<(), EncodeError> {
        out.write_tagged_fields(&TaggedFields::from_sorted(self.0)?)
    }
}

/// No tagged fields.
pub(super) fn write_no_tags(out: &mut Out<'_>) -> Result<(), EncodeError> {
    Tags::default().write(out)
}
