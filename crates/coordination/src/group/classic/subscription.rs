//! Topics to which the members of a `consumer` group subscribe, if their metadata is readable.

use std::collections::BTreeSet;

use bytes::Bytes;
use levada_wire::primitives::{DecodeError, DecodeLimits, Decoder, StrBytes};

use super::ClassicGroup;

/// The protocol type of groups that consume topics.
const CONSUMER: &str = "consumer";

impl ClassicGroup {
    /// True if the members use the consumer protocol; the metadata of any other protocol is opaque.
    pub(super) fn is_consumer(&self) -> bool {
        self.protocol_type.as_deref() == Some(CONSUMER)
    }

    /// The topics of all members; none if that cannot be known.
    pub(super) fn read_subscriptions(&self) -> Option<BTreeSet<String>> {
        if !self.is_consumer() {
            return None;
        }
        if self.members.is_empty() {
            return Some(BTreeSet::new());
        }
        let protocol = Some(self.protocol_name.as_deref()?);
        let mut topics = BTreeSet::new();
        for member in self.members.values() {
            topics.extend(read(member.metadata(protocol)).ok()?);
        }
        Some(topics)
    }
}

/// Reads a subscription. Every version begins like version 0: version, topics, user data.
fn read(metadata: Bytes) -> Result<Vec<String>, DecodeError> {
    let mut metadata = Decoder::new(metadata, DecodeLimits::default())?;
    metadata.read_i16()?;
    let count = metadata.read_array_len()?;
    let topics = metadata.read_vec(count, |metadata| metadata.read_string().map(StrBytes::into_string))?;
    metadata.read_nullable_bytes()?;
    Ok(topics)
}
