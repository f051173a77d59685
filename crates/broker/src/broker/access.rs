//! Who may do what, in the running broker: the questions, and changes of the answers.

use std::sync::Arc;

use crate::broker::Broker;
use crate::broker::topics::{flatten, flatten_keyed};
use crate::error_code::Failure;
use crate::metadata::controller::{AlterCredential, alter_credentials, create_acls, delete_acls};
use crate::metadata::uuid;
use crate::security::Session;
use crate::security::acl::{Acl, AclFilter, Operation, ResourceType};
use crate::security::authorizer::Rule;

impl Broker {
    /// Whether there is access control at all.
    pub(crate) fn has_authorizer(&self) -> bool {
        self.config().security.authorizer.is_some()
    }

    /// Which rule decides whether the client may do that; none without access control.
    pub(crate) fn decide(&self, session: &Session, wanted: (Operation, ResourceType, &str)) -> Option<Rule> {
        let config = self.config();
        let authorizer = config.security.authorizer.as_ref()?;
        Some(authorizer.decide(self.metadata.image().acls().index(), session, wanted))
    }

    /// Whether there may be something of that kind with which the client may do that.
    pub(crate) fn allows_some(&self, session: &Session, wanted: (Operation, ResourceType)) -> bool {
        let config = self.config();
        let allows = |image: Arc<crate::metadata::image::Image>| {
            let authorizer = config.security.authorizer.as_ref();
            authorizer.is_none_or(|one| one.allows_some(image.acls().index(), session, wanted))
        };
        allows(self.metadata.image())
    }

    /// Adds entries of access control.
    pub(crate) async fn create_acls(self: &Arc<Self>, acls: Vec<Acl>) -> Result<(), Failure> {
        self.off_shard(move |broker| {
            broker.metadata.change(|image| create_acls(image, &acls, uuid::random), |_, ()| Ok(()))
        })
        .await
    }

    /// Removes entries of access control; for each filter those that it meant.
    pub(crate) async fn delete_acls(
        self: &Arc<Self>,
        filters: Vec<AclFilter>,
    ) -> Vec<Result<Vec<Acl>, Failure>> {
        let count = filters.len();
        let deleted = self.off_shard(move |broker| {
            broker.metadata.change(|image| delete_acls(image, &filters), |_, _| Ok(()))
        });
        flatten(deleted.await, count)
    }

    /// Changes SCRAM credentials; a result for each user.
    pub(crate) async fn alter_credentials(
        self: &Arc<Self>,
        changes: Vec<AlterCredential>,
        users: Vec<String>,
    ) -> Vec<(String, Result<(), Failure>)> {
        let altered = self.off_shard(move |broker| {
            broker.metadata.change(|image| alter_credentials(image, &changes), |_, _| Ok(()))
        });
        flatten_keyed(altered.await, users)
    }
}
