//! The cluster that owns the objects of a store: one small object with its id.
//!
//! Two clusters that are given one store by mistake would each see the other's objects as garbage.
//! The object is written before the first change of a store, and read before the first change by
//! each broker. All brokers of a cluster have its id, those of Kafka included, which ignore the
//! object. See `docs/format/tiered-objects.md`.

use serde::{Deserialize, Serialize};

use crate::error::{RemoteError, RemoteErrorKind};
use crate::objects::Part;
use crate::store::Store;

/// Name of the object, after [`OWN`](crate::objects::OWN).
const CLUSTER: &str = "cluster.json";
/// Largest object that a reader accepts.
const LIMIT: u64 = 4096;
const VERSION: u32 = 1;

/// Contents of the object.
#[derive(Debug, Serialize, Deserialize)]
struct Owner {
    version: u32,
    #[serde(rename = "cluster.id")]
    cluster_id: String,
}

impl Store {
    /// Id of the cluster to which the store belongs; none if no broker of Levada has changed the
    /// store yet.
    ///
    /// # Errors
    /// The object cannot be read, or has another form.
    pub fn cluster(&self) -> Result<Option<String>, RemoteError> {
        let key = self.own_key(CLUSTER);
        let bytes = match self.objects.read_whole(&key, LIMIT) {
            Err(error) if error.kind == RemoteErrorKind::NotFound => return Ok(None),
            read => read?,
        };
        let damaged = |cause: String| {
            let operation = format!("cannot read {}", self.objects.name(&key));
            RemoteError::new(RemoteErrorKind::Damaged, operation, cause)
        };
        let owner: Owner = serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
        if owner.version != VERSION {
            return Err(damaged(format!("it has version {}; {VERSION} is known", owner.version)));
        }
        Ok(Some(owner.cluster_id))
    }

    /// Notes that the store belongs to this cluster, if it belongs to none. Of two clusters that do
    /// this at the same time, one gets the error.
    ///
    /// A store without conditional writes cannot decide between them: both may get no error, and
    /// the object has the id of the last one. A later call by the other cluster is an error.
    ///
    /// # Errors
    /// [`RemoteErrorKind::Foreign`] if it belongs to another cluster; a failing store.
    pub fn claim(&self, cluster_id: &str) -> Result<(), RemoteError> {
        let found = match self.cluster()? {
            None => {
                self.write_owner(cluster_id)?;
                // Another cluster may have written since the first look, and some servers ignore
                // the condition of a write.
                self.cluster()?
            }
            found => found,
        };
        match found {
            Some(owner) if owner == cluster_id => Ok(()),
            None => {
                let operation = format!("cannot claim {}", self.objects.name(&self.own_key(CLUSTER)));
                let cause = "another broker is writing the object";
                Err(RemoteError::new(RemoteErrorKind::Unavailable, operation, cause))
            }
            Some(owner) => {
                let name = self.objects.name(&self.own_key(CLUSTER));
                let cause = format!(
                    "the store belongs to cluster {owner}, and this is cluster {cluster_id}; if that cluster no longer exists, delete {name}"
                );
                Err(RemoteError::new(RemoteErrorKind::Foreign, "cannot change the remote store", cause))
            }
        }
    }

    /// Writes the object unless there is one.
    fn write_owner(&self, cluster_id: &str) -> Result<(), RemoteError> {
        let owner = Owner { version: VERSION, cluster_id: cluster_id.to_owned() };
        let (key, bytes) =
            (self.own_key(CLUSTER), serde_json::to_vec(&owner).expect("it has texts and numbers"));
        match self.objects.create(&key, &bytes) {
            Err(error) if error.kind == RemoteErrorKind::Unsupported => {
                self.objects.put(&key, &[Part::Bytes(&bytes)])
            }
            created => created.map(drop),
        }
    }
}

#[cfg(test)]
mod tests;
