//! Control records: records that KRaft itself writes to the metadata log and its snapshots, in
//! batches marked as control batches. Keys are a version (0) and a type, both 16 bits.

use levada_wire::primitives::{
    Bytes, BytesMut, DecodeError, DecodeLimits, Decoder, EncodeError, Encoder, Uuid,
};

use super::RecordError;
use super::body::{Out, read_array, read_text, skip_tags, write_array, write_no_tags, write_text};

/// One control record.
#[derive(Clone, Debug, PartialEq)]
pub enum ControlRecord {
    /// First in every epoch: who leads, who votes.
    LeaderChange(LeaderChange),
    /// First in every snapshot; holds the time of the last record it covers.
    SnapshotHeader {
        /// Milliseconds since 1970.
        last_contained_log_timestamp_ms: i64,
    },
    /// Last record of every snapshot; a snapshot without it is incomplete.
    SnapshotFooter,
    /// The quorum protocol's level: 1 where voters are kept in the log.
    KRaftVersion(i16),
    /// Voters of the quorum.
    Voters(Vec<Voter>),
}

/// The beginning of an epoch. Directory ids of voters are not written (record version 0), as in
/// Kafka 4.3.
#[derive(Clone, Debug, PartialEq)]
pub struct LeaderChange {
    /// The new leader's node id.
    pub leader_id: i32,
    /// The voters' node ids.
    pub voters: Vec<i32>,
    /// Voters that voted for the leader.
    pub granting_voters: Vec<i32>,
}

/// One voter of the quorum.
#[derive(Clone, Debug, PartialEq)]
pub struct Voter {
    /// Node id of the voter.
    pub voter_id: i32,
    /// The directory that holds its metadata log.
    pub directory_id: Uuid,
    /// Listeners for other controllers.
    pub endpoints: Vec<VoterEndpoint>,
    /// Lowest quorum protocol level it supports.
    pub min_kraft_version: i16,
    /// Highest quorum protocol level it supports.
    pub max_kraft_version: i16,
}

/// Listeners of a voter.
#[derive(Clone, Debug, PartialEq)]
pub struct VoterEndpoint {
    /// Name of the listener.
    pub name: String,
    /// Host name or address.
    pub host: String,
    /// TCP port.
    pub port: u16,
}

const LEADER_CHANGE: i16 = 2;
const SNAPSHOT_HEADER: i16 = 3;
const SNAPSHOT_FOOTER: i16 = 4;
const KRAFT_VERSION: i16 = 5;
const VOTERS: i16 = 6;
const KEY_VERSION: i16 = 0;
const VALUE_VERSION: i16 = 0;

/// Reads one control record from its key and value.
pub fn decode(key: Bytes, value: Bytes) -> Result<ControlRecord, RecordError> {
    let mut key = Decoder::new(key, DecodeLimits::default())?;
    let _version = key.read_i16()?;
    let kind = key.read_i16()?;
    let mut input = Decoder::new(value, DecodeLimits::default())?;
    let version = input.read_i16()?;
    let record = match kind {
        LEADER_CHANGE => decode_leader_change(&mut input, version)?,
        SNAPSHOT_HEADER => {
            ControlRecord::SnapshotHeader { last_contained_log_timestamp_ms: input.read_i64()? }
        }
        SNAPSHOT_FOOTER => ControlRecord::SnapshotFooter,
        KRAFT_VERSION => ControlRecord::KRaftVersion(input.read_i16()?),
        VOTERS => ControlRecord::Voters(read_array(&mut input, decode_voter)?),
        _ => return Err(RecordError::UnknownKind { api_key: kind.unsigned_abs() }),
    };
    skip_tags(&mut input)?;
    input.finish()?;
    Ok(record)
}

/// The key and value of one control record, as Kafka 4.3 writes them.
pub fn encode(record: &ControlRecord) -> Result<(Bytes, Bytes), RecordError> {
    let kind = match record {
        ControlRecord::LeaderChange(_) => LEADER_CHANGE,
        ControlRecord::SnapshotHeader { .. } => SNAPSHOT_HEADER,
        ControlRecord::SnapshotFooter => SNAPSHOT_FOOTER,
        ControlRecord::KRaftVersion(_) => KRAFT_VERSION,
        ControlRecord::Voters(_) => VOTERS,
    };
    let mut key = BytesMut::with_capacity(4);
    let mut out = Encoder::new(&mut key);
    out.write_i16(KEY_VERSION)?;
    out.write_i16(kind)?;
    let mut value = BytesMut::new();
    let mut out = Encoder::new(&mut value);
    out.write_i16(VALUE_VERSION)?;
    match record {
        ControlRecord::LeaderChange(change) => {
            out.write_i32(change.leader_id)?;
            write_array(&mut out, &change.voters, encode_voter_id)?;
            write_array(&mut out, &change.granting_voters, encode_voter_id)?;
        }
        ControlRecord::SnapshotHeader { last_contained_log_timestamp_ms } => {
            out.write_i64(*last_contained_log_timestamp_ms)?;
        }
        ControlRecord::SnapshotFooter => {}
        ControlRecord::KRaftVersion(level) => out.write_i16(*level)?,
        ControlRecord::Voters(voters) => write_array(&mut out, voters, encode_voter)?,
    }
    write_no_tags(&mut out)?;
    Ok((key.freeze(), value.freeze()))
}

fn decode_leader_change(input: &mut Decoder, version: i16) -> Result<ControlRecord, DecodeError> {
    let voter_id = |input: &mut Decoder| {
        let id = input.read_i32()?;
        if version >= 1 {
            input.read_uuid()?;
        }
        skip_tags(input)?;
        Ok(id)
    };
    Ok(ControlRecord::LeaderChange(LeaderChange {
        leader_id: input.read_i32()?,
        voters: read_array(input, voter_id)?,
        granting_voters: read_array(input, voter_id)?,
    }))
}

fn encode_voter_id(out: &mut Out<'_>, id: &i32) -> Result<(), EncodeError> {
    out.write_i32(*id)?;
    write_no_tags(out)
}

fn decode_voter(input: &mut Decoder) -> Result<Voter, DecodeError> {
    let (voter_id, directory_id) = (input.read_i32()?, input.read_uuid()?);
    let endpoints = read_array(input, |input| {
        let endpoint =
            VoterEndpoint { name: read_text(input)?, host: read_text(input)?, port: input.read_u16()? };
        skip_tags(input)?;
        Ok(endpoint)
    })?;
    let (min_kraft_version, max_kraft_version) = (input.read_i16()?, input.read_i16()?);
    // The range of levels is a separate structure, with its own tagged fields.
    skip_tags(input)?;
    skip_tags(input)?;
    Ok(Voter { voter_id, directory_id, endpoints, min_kraft_version, max_kraft_version })
}

fn encode_voter(out: &mut Out<'_>, voter: &Voter) -> Result<(), EncodeError> {
    out.write_i32(voter.voter_id)?;
    out.write_uuid(voter.directory_id)?;
    write_array(out, &voter.endpoints, |out, endpoint| {
        write_text(out, &endpoint.name)?;
        write_text(out, &endpoint.host)?;
        out.write_u16(endpoint.port)?;
        write_no_tags(out)
    })?;
    out.write_i16(voter.min_kraft_version)?;
    out.write_i16(voter.max_kraft_version)?;
    write_no_tags(out)?;
    write_no_tags(out)
}
