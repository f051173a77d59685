//! Changes of access control entries and SCRAM credentials.

use std::sync::Arc;

use levada_metadata::controller::{AlterCredential, alter_credentials, create_acls, delete_acls};
use levada_metadata::uuid;
use levada_security::acl::{Acl, AclFilter};
use levada_wire::error_code::Failure;

use crate::controller::{Controller, flatten, flatten_keyed};

impl Controller {
    /// Adds entries of access control, all or none, and returns those that did not exist.
    pub(crate) async fn create_acls(self: &Arc<Self>, acls: Vec<Acl>) -> Result<Vec<Acl>, Failure> {
        let created = self.off_shard(move |controller| {
            controller.embedded()?.change(|image| create_acls(image, &acls, uuid::random))
        });
        created.await?.map_err(Failure::from)
    }

    /// Removes the entries that match each filter; returns them by filter.
    pub(crate) async fn delete_acls(
        self: &Arc<Self>,
        filters: Vec<AclFilter>,
    ) -> Vec<Result<Vec<Acl>, Failure>> {
        let count = filters.len();
        let deleted = self
            .off_shard(move |controller| controller.embedded()?.change(|image| delete_acls(image, &filters)));
        flatten(deleted.await, count)
    }

    /// Changes SCRAM credentials; a result for each user.
    pub(crate) async fn alter_credentials(
        self: &Arc<Self>,
        changes: Vec<AlterCredential>,
        users: Vec<String>,
    ) -> Vec<(String, Result<(), Failure>)> {
        let altered = self.off_shard(move |controller| {
            controller.embedded()?.change(|image| alter_credentials(image, &changes))
        });
        flatten_keyed(altered.await, users)
    }
}
