//! SCRAM credentials and access control in the image.

use std::collections::BTreeMap;
use std::sync::Arc;

use levada_security::acl::{Acl, AclIndex};
use levada_security::scram::Credential;
use levada_wire::primitives::Uuid;

use super::ApplyError;
use crate::records::{AccessControlEntryRecord, RemoveUserScramCredentialRecord, UserScramCredentialRecord};

/// SCRAM credentials, by user and number of the mechanism.
#[derive(Clone, Debug, Default)]
pub struct Credentials(Arc<BTreeMap<String, BTreeMap<i8, Credential>>>);

impl Credentials {
    /// A user's credential for the mechanism of that number.
    pub fn find(&self, user: &str, mechanism: i8) -> Option<&Credential> {
        self.0.get(user)?.get(&mechanism)
    }

    /// Credentials of a user, by mechanism.
    pub fn of(&self, user: &str) -> Option<&BTreeMap<i8, Credential>> {
        self.0.get(user)
    }

    /// Every user, mechanism and credential, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, i8, &Credential)> {
        let of = |(user, all): (_, _)| -> Box<dyn Iterator<Item = (&str, i8, &Credential)>> {
            let (user, all): (&String, &BTreeMap<i8, Credential>) = (user, all);
            Box::new(all.iter().map(move |(mechanism, credential)| (&**user, *mechanism, credential)))
        };
        self.0.iter().flat_map(of)
    }

    pub(super) fn put(&mut self, record: &UserScramCredentialRecord) {
        let credential = Credential {
            salt: record.salt.clone(),
            stored_key: record.stored_key.clone(),
            server_key: record.server_key.clone(),
            iterations: record.iterations,
        };
        let users = Arc::make_mut(&mut self.0);
        users.entry(record.name.clone()).or_default().insert(record.mechanism, credential);
    }

    pub(super) fn remove(&mut self, record: &RemoveUserScramCredentialRecord) -> Result<(), ApplyError> {
        let RemoveUserScramCredentialRecord { name, mechanism } = record;
        let absent = || ApplyError::NoCredential { user: name.clone(), mechanism: *mechanism };
        if self.find(name, *mechanism).is_none() {
            return Err(absent());
        }
        let users = Arc::make_mut(&mut self.0);
        let all = users.get_mut(name).ok_or_else(absent)?;
        all.remove(mechanism);
        if all.is_empty() {
            users.remove(name);
        }
        Ok(())
    }
}

/// All ACLs: by id for changes, by resource for checks.
#[derive(Clone, Debug, Default)]
pub struct Acls {
    by_id: Arc<BTreeMap<Uuid, Arc<Acl>>>,
    index: Arc<AclIndex>,
}

impl Acls {
    /// Every entry with its id.
    pub fn iter(&self) -> impl Iterator<Item = (Uuid, &Arc<Acl>)> {
        self.by_id.iter().map(|(id, acl)| (*id, acl))
    }

    /// The entries in the order of their evaluation.
    pub fn index(&self) -> &Arc<AclIndex> {
        &self.index
    }

    pub(super) fn put(&mut self, record: &AccessControlEntryRecord) -> Result<(), ApplyError> {
        let acl = Arc::new(record.acl().ok_or(ApplyError::UnknownAcl { id: record.id })?);
        if let Some(before) = Arc::make_mut(&mut self.by_id).insert(record.id, acl.clone()) {
            Arc::make_mut(&mut self.index).remove(&before);
        }
        Arc::make_mut(&mut self.index).insert(acl);
        Ok(())
    }

    pub(super) fn remove(&mut self, id: Uuid) -> Result<(), ApplyError> {
        let acl = self.by_id.get(&id).cloned().ok_or(ApplyError::NoAcl { id })?;
        Arc::make_mut(&mut self.by_id).remove(&id);
        Arc::make_mut(&mut self.index).remove(&acl);
        Ok(())
    }
}
