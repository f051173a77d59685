//! Encodes Fetch requests of a replica, versions 13 to 18: the versions in which topics have ids.

use bytes::{Bytes, BytesMut};

use super::{FetchPartition, FetchRequest};
use crate::api::ApiKey;
use crate::codec::{EncodeError, finish_frame};
use crate::messages::{StrBytes, Uuid};
use crate::writer::Writer;

/// Lowest version that [`FetchRequest::encode`] writes.
pub const LOWEST_ENCODED: i16 = 13;

impl FetchRequest {
    /// Encodes the whole frame, size prefix and header included. Fields that `version` cannot carry
    /// are left out: the replica epoch before 15, directory ids before 17, high watermarks before
    /// 18.
    ///
    /// # Errors
    /// The version is not from 13 to 18, or a length does not fit its prefix.
    pub fn encode(&self, correlation_id: i32, client_id: &str, version: i16) -> Result<Bytes, EncodeError> {
        if version < LOWEST_ENCODED || version > ApiKey::Fetch.api().max {
            return Err(EncodeError::Version { api: ApiKey::Fetch, version });
        }
        let mut w = Writer { out: BytesMut::with_capacity(256), flexible: true };
        w.i32(0);
        w.i16(ApiKey::Fetch.wire());
        w.i16(version);
        w.i32(correlation_id);
        w.flexible = false;
        w.string(&StrBytes::from(client_id))?;
        w.flexible = true;
        w.tags(&[]);
        if version < 15 {
            w.i32(self.replica_id);
        }
        w.i32(self.max_wait_ms);
        w.i32(self.min_bytes);
        w.i32(self.max_bytes);
        w.i8(self.isolation_level);
        w.i32(self.session_id);
        w.i32(self.session_epoch);
        w.length(self.topics.len() as u64)?;
        for topic in &self.topics {
            w.uuid(topic.topic_id);
            w.length(topic.partitions.len() as u64)?;
            topic.partitions.iter().for_each(|partition| encode_partition(&mut w, partition, version));
            w.tags(&[]);
        }
        w.length(self.forgotten.len() as u64)?;
        for topic in &self.forgotten {
            w.uuid(topic.topic_id);
            w.length(topic.partitions.len() as u64)?;
            topic.partitions.iter().for_each(|index| w.i32(*index));
            w.tags(&[]);
        }
        w.string(&self.rack_id)?;
        self.encode_tags(&mut w, version)?;
        finish_frame(w.out)
    }

    fn encode_tags(&self, w: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let mut fields: Vec<(u32, BytesMut)> = Vec::new();
        if let Some(cluster_id) = &self.cluster_id {
            let mut field = Writer { out: BytesMut::new(), flexible: true };
            field.string(cluster_id)?;
            fields.push((0, field.out));
        }
        if version >= 15 && (self.replica_id, self.replica_epoch) != (-1, -1) {
            let mut field = Writer { out: BytesMut::new(), flexible: true };
            field.i32(self.replica_id);
            field.i64(self.replica_epoch);
            field.tags(&[]);
            fields.push((1, field.out));
        }
        let fields: Vec<(u32, &[u8])> = fields.iter().map(|(tag, value)| (*tag, &value[..])).collect();
        w.tags(&fields);
        Ok(())
    }
}

fn encode_partition(w: &mut Writer, partition: &FetchPartition, version: i16) {
    w.i32(partition.index);
    w.i32(partition.current_leader_epoch);
    w.i64(partition.fetch_offset);
    w.i32(partition.last_fetched_epoch);
    w.i64(partition.log_start_offset);
    w.i32(partition.max_bytes);
    let high_watermark = partition.high_watermark.to_be_bytes();
    let mut fields: Vec<(u32, &[u8])> = Vec::new();
    if version >= 17 && partition.replica_directory_id != Uuid::ZERO {
        fields.push((0, partition.replica_directory_id.as_bytes()));
    }
    if version >= 18 && partition.high_watermark != i64::MAX {
        fields.push((1, &high_watermark));
    }
    w.tags(&fields);
}
