//! Log directories without the metadata: their owner, and the identity of a new one.

use std::path::Path;

use levada_log::checkpoint::MetaProperties;
use levada_log::disk::Disk;
use levada_wire::primitives::Uuid;

use super::{METADATA_DIR, Store, StoreError, check_owner, files, format, takeover};

impl Store {
    /// Identity of the directory of a broker in a cluster. The function does not change the
    /// directory.
    ///
    /// # Errors
    /// A directory without identity, of another node, or with the metadata log of a cluster of one.
    pub fn member_identity(disk: &dyn Disk, dir: &Path, node_id: i32) -> Result<MetaProperties, StoreError> {
        let identity = match MetaProperties::load(disk, dir)? {
            Some(identity) => identity,
            None if format::is_used(disk, dir) => {
                return Err(StoreError::Unidentified { dir: dir.to_owned() });
            }
            None => return Err(StoreError::Unformatted { dir: dir.to_owned() }),
        };
        check_owner(dir, &identity, (node_id, None))?;
        match files::read_leader(disk, &dir.join(METADATA_DIR))? {
            Some(leader) if leader == node_id => Err(StoreError::Alone { dir: dir.to_owned() }),
            _ => Ok(identity),
        }
    }

    /// Checks the directories other than that of the metadata before the first write; returns the
    /// ids of formatted directories.
    ///
    /// # Errors
    /// A directory of another node or cluster, with logs and without identity, or with a metadata
    /// log; a formatted directory while that of the metadata is not formatted.
    pub fn check_others(
        disk: &dyn Disk,
        (dir, node_id): (&Path, i32),
        others: &[&Path],
    ) -> Result<Vec<Uuid>, StoreError> {
        let own = MetaProperties::load(disk, dir)?;
        let mut ids = Vec::new();
        for other in others {
            let Some(identity) = MetaProperties::load(disk, other)? else {
                if format::is_used(disk, other) {
                    return Err(StoreError::Unidentified { dir: (*other).to_owned() });
                }
                continue;
            };
            let (dir, other) = (dir.to_owned(), (*other).to_owned());
            let Some(own) = &own else {
                return Err(StoreError::MetadataElsewhere { dir, other });
            };
            check_owner(&other, &identity, (node_id, Some(&own.cluster_id)))?;
            if disk.len(&other.join(METADATA_DIR)).is_ok() {
                return Err(StoreError::SecondMetadata { dir, other });
            }
            ids.push(Uuid::from_bytes(identity.directory_id));
        }
        Ok(ids)
    }

    /// Checks that two directories belong to one cluster.
    ///
    /// # Errors
    /// The directories belong to different clusters or nodes.
    pub fn check_cluster(
        dir: &Path,
        identity: &MetaProperties,
        other: &MetaProperties,
    ) -> Result<(), StoreError> {
        check_owner(dir, identity, (other.node_id, Some(&other.cluster_id)))
    }

    /// The identity of a directory, with a new id if Kafka before 3.7 formatted the directory.
    /// Kafka since 3.7 does the same.
    ///
    /// # Errors
    /// A failing disk.
    pub fn with_id(
        disk: &dyn Disk,
        dir: &Path,
        identity: &MetaProperties,
    ) -> Result<MetaProperties, StoreError> {
        keep_id(disk, dir, (identity, takeover::with_id(identity, || None)))
    }

    /// The identity of a directory other than that of the metadata; the function writes one if
    /// there is none.
    ///
    /// # Errors
    /// Same as [`Store::check_others`].
    pub fn adopt(disk: &dyn Disk, dir: &Path, owner: &MetaProperties) -> Result<MetaProperties, StoreError> {
        match MetaProperties::load(disk, dir)? {
            Some(found) => Self::with_id(disk, dir, &found),
            None => Self::format_member(disk, dir, (&owner.cluster_id, owner.node_id)),
        }
    }
}

/// Writes the identity of a directory to which this start has assigned an id.
pub(super) fn keep_id(
    disk: &dyn Disk,
    dir: &Path,
    (before, identity): (&MetaProperties, MetaProperties),
) -> Result<MetaProperties, StoreError> {
    if *before != identity {
        identity.store(disk, dir)?;
        tracing::info!(directory = %dir.display(), "the data directory got an id (directory.id in meta.properties)");
    }
    Ok(identity)
}
