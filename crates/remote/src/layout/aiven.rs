//! The layout of Aiven's plug-in for tiered storage of Apache Kafka: three objects a segment,
//! written without compression and encryption.
//!
//! `.log` has the records byte for byte, `.indexes` the indexes one after the other, and
//! `.rsm-manifest` their positions. The manifest is written last. Segments that the plug-in
//! compressed are read too. See `docs/format/tiered-objects.md`.

use levada_base::id_text;
use levada_tiered::RemoteSegment;
use levada_wire::primitives::{Bytes, DecodeError, DecodeLimits, Decoder, StrBytes, TagOutcome};

mod chunks;
mod manifest;

pub(crate) use chunks::Chunks;
pub(crate) use manifest::{IndexLengths, Manifest};

/// Size of the chunks that a manifest declares. The plug-in fetches whole chunks.
const CHUNK_SIZE: u32 = 4 * 1024 * 1024;

/// Objects of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AivenObject {
    Log,
    Indexes,
    Manifest,
}

impl AivenObject {
    /// All objects, in the order of their deletion: without its manifest a segment is not read.
    pub(crate) const ALL: [Self; 3] = [Self::Manifest, Self::Log, Self::Indexes];

    /// End of the object's key, after the dot.
    pub(crate) fn suffix(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::Indexes => "indexes",
            Self::Manifest => "rsm-manifest",
        }
    }
}

/// Key of an object. The plug-in can write prefix and path into the segment's custom metadata,
/// which then apply to the records and indexes; a manifest always has the usual key.
pub(crate) fn key(segment: &RemoteSegment, prefix: &str, object: AivenObject) -> Result<String, DecodeError> {
    let custom = match (&segment.custom_metadata, object) {
        (Some(bytes), AivenObject::Log | AivenObject::Indexes) if !bytes.is_empty() => read_custom(bytes)?,
        _ => CustomKey::default(),
    };
    let prefix = custom.prefix.as_ref().map_or(prefix, StrBytes::as_str);
    let path = custom.path.map_or_else(|| path(segment), StrBytes::into_string);
    Ok(format!("{prefix}{path}.{}", object.suffix()))
}

fn path(segment: &RemoteSegment) -> String {
    let partition = &segment.id.partition;
    format!(
        "{}-{}/{}/{:020}-{}",
        partition.topic,
        id_text(partition.topic_id.to_bytes()),
        partition.partition,
        segment.start_offset,
        id_text(segment.id.id.to_bytes()),
    )
}

#[derive(Default)]
struct CustomKey {
    prefix: Option<StrBytes>,
    path: Option<StrBytes>,
}

/// Reads the plug-in's custom metadata: tagged fields with the remote size (0), the prefix (1) and
/// the path (2).
fn read_custom(bytes: &Bytes) -> Result<CustomKey, DecodeError> {
    let mut custom = CustomKey::default();
    let mut input = Decoder::new(bytes.clone(), DecodeLimits::default())?;
    input.read_tagged_fields_with(|tag, field| {
        match tag {
            1 => custom.prefix = Some(field.read_compact_string()?),
            2 => custom.path = Some(field.read_compact_string()?),
            _ => return Ok(TagOutcome::Retained),
        }
        Ok(TagOutcome::Decoded)
    })?;
    Ok(custom)
}
