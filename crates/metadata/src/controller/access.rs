//! Changing entries of access control and SCRAM credentials.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use levada_security::acl::{Acl, AclFilter, AddressRange};
use levada_security::scram::{ITERATIONS_MAX, ITERATIONS_MIN, ScramMechanism};
use levada_wire::primitives::Uuid;

use super::{Decision, Reason, Refusal};
use crate::features::{CIDR_HOSTS, METADATA_VERSION};
use crate::image::Image;
use crate::records::{
    AccessControlEntryRecord, Record, RemoveAccessControlEntryRecord, RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
};

/// Maximum number of entries that one request may add, as in Kafka.
const CREATED_MAX: usize = 10_000;

/// Maximum number of entries that one request may remove.
const REMOVED_MAX: usize = 10_000;

/// Limit of entries in the response: every filter of a request may match the same entries.
const TOLD_MAX: usize = 10 * REMOVED_MAX;

/// Maximum number of comparisons of a filter with an entry in one request. Other changes of the
/// metadata wait for them.
const COMPARED_MAX: usize = 10_000_000;

/// First `metadata.version` (3.5-IV2) with records of credentials. An earlier version of Kafka, to
/// which the directory may be returned, cannot read them.
const CREDENTIALS_LEVEL_MIN: i16 = 11;

/// Adds entries, all or none, and returns the new ones. An existing entry succeeds without a
/// record.
pub fn create_acls(
    image: &Image,
    acls: &[Acl],
    mut new_id: impl FnMut() -> Uuid,
) -> Decision<Result<Vec<Acl>, Refusal>> {
    let (known, mut seen) = (image.acls().index(), BTreeSet::new());
    let new = acls.iter().filter(|acl| !known.contains(acl) && seen.insert(*acl));
    let new: Vec<Acl> = new.take(CREATED_MAX + 1).cloned().collect();
    if new.len() > CREATED_MAX {
        let text = "Unable to perform excessively large batch operation.";
        return Decision::nothing(Err(Refusal::new(Reason::PolicyViolation, text)));
    }
    let records = new.iter().map(|acl| AccessControlEntryRecord::of_acl(new_id(), acl).into());
    Decision { records: records.collect(), outcome: Ok(new) }
}

/// Checks the host of a new entry.
///
/// # Errors
/// The host is not valid, or a Kafka of the image's `metadata.version` does not understand it.
pub fn check_acl_host(image: &Image, host: &str) -> Result<(), Refusal> {
    let invalid = |text: String| Err(Refusal::new(Reason::InvalidRequest, text));
    if host.is_empty() {
        return invalid("Host pattern cannot be null or empty".to_owned());
    }
    if !host.contains('/') {
        return Ok(());
    }
    let level = image.features().get(METADATA_VERSION).copied().unwrap_or(0);
    if level < CIDR_HOSTS {
        let text = "CIDR-based ACL host patterns require metadata version 4.4-IV1 or higher.";
        return Err(Refusal::new(Reason::UnsupportedVersion, text));
    }
    match host.parse::<AddressRange>() {
        Ok(_) => Ok(()),
        Err(error) => invalid(format!("Invalid CIDR notation '{host}': {error}")),
    }
}

/// Removes the entries that match each filter, and returns them.
pub fn delete_acls(image: &Image, filters: &[AclFilter]) -> Decision<Vec<Result<Vec<Acl>, Refusal>>> {
    let (mut removed, mut told, mut compared) = (BTreeSet::new(), 0, 0);
    let all: Vec<_> = image.acls().iter().collect();
    let mut by_name: HashMap<&str, Vec<_>> = HashMap::new();
    all.iter().for_each(|one| by_name.entry(&one.1.resource_name).or_default().push(*one));
    let mut delete = |filter: &AclFilter| {
        let candidates = match filter.exact_name() {
            Some(name) => by_name.get(name).map_or(&[][..], Vec::as_slice),
            None => &all,
        };
        compared += candidates.len();
        if compared > COMPARED_MAX {
            let text = format!(
                "Cannot compare more than {COMPARED_MAX} pairs of a filter and an acl in a single delete operation."
            );
            return Err(Refusal::new(Reason::PolicyViolation, text));
        }
        let meant: Vec<_> = candidates.iter().filter(|(_, acl)| filter.matches(acl)).collect();
        let new = meant.iter().filter(|(id, _)| !removed.contains(id)).count();
        told += meant.len();
        if told > TOLD_MAX {
            let text = format!(
                "Cannot return more than {TOLD_MAX} acls in a single delete operation; an acl counts once for each \
                 filter that matches it."
            );
            return Err(Refusal::new(Reason::PolicyViolation, text));
        }
        if removed.len() + new > REMOVED_MAX {
            let text = format!("Cannot remove more than {REMOVED_MAX} acls in a single delete operation.");
            return Err(Refusal::new(Reason::ServerError, text));
        }
        removed.extend(meant.iter().map(|(id, _)| *id));
        Ok(meant.into_iter().map(|(_, acl)| (***acl).clone()).collect())
    };
    let outcome = filters.iter().map(&mut delete).collect();
    let records = removed.into_iter().map(|id| RemoveAccessControlEntryRecord { id }.into());
    Decision { records: records.collect(), outcome }
}

/// Change of one user's credential for one mechanism. The mechanism is the protocol's number.
#[derive(Clone, PartialEq)]
pub enum AlterCredential {
    /// The credential is removed.
    Delete {
        /// User of the credential.
        user: String,
        /// Mechanism, by Kafka's number.
        mechanism: i8,
    },
    /// The credential is set.
    Set {
        /// User of the credential.
        user: String,
        /// Mechanism, by Kafka's number.
        mechanism: i8,
        /// Number of iterations of the password hash.
        iterations: i32,
        /// Salt of the password hash.
        salt: Vec<u8>,
        /// Result of the password hash.
        salted_password: Vec<u8>,
    },
}

impl AlterCredential {
    /// User of the credential.
    pub fn user(&self) -> &str {
        match self {
            Self::Delete { user, .. } | Self::Set { user, .. } => user,
        }
    }
}

/// Changes users' credentials, each user independently. Deletions precede the other changes.
pub fn alter_credentials(
    image: &Image,
    changes: &[AlterCredential],
) -> Decision<Vec<(String, Result<(), Refusal>)>> {
    let mut by_user: BTreeMap<&str, Result<&AlterCredential, Refusal>> = BTreeMap::new();
    for change in changes {
        let twice = || {
            let text = "A user credential cannot be altered twice in the same request";
            Err(Refusal::new(Reason::Duplicate, text))
        };
        let checked = match by_user.get(change.user()) {
            Some(Err(_)) => continue,
            Some(Ok(_)) => twice(),
            None => check(image, change).map(|()| change),
        };
        by_user.insert(change.user(), checked);
    }
    let mut decision = Decision::nothing(Vec::new());
    for (user, checked) in by_user {
        let outcome = checked.map(|change| decision.records.push(record(change)));
        decision.outcome.push((user.to_owned(), outcome));
    }
    decision
}

fn check(image: &Image, change: &AlterCredential) -> Result<(), Refusal> {
    let (user, mechanism) = match change {
        AlterCredential::Delete { user, mechanism } | AlterCredential::Set { user, mechanism, .. } => {
            (user, *mechanism)
        }
    };
    let refuse = |reason, text: &'static str| Err(Refusal::new(reason, text));
    let level = image.features().get(METADATA_VERSION);
    if level.is_some_and(|level| *level < CREDENTIALS_LEVEL_MIN) {
        let text = "The current metadata.version does not support SCRAM";
        return refuse(Reason::UnsupportedVersion, text);
    }
    if user.is_empty() {
        return refuse(Reason::UnacceptableCredential, "Username must not be empty");
    }
    if ScramMechanism::from_code(mechanism).is_none() {
        return refuse(Reason::UnknownMechanism, "Unknown SCRAM mechanism");
    }
    match change {
        AlterCredential::Delete { .. } if image.credentials().find(user, mechanism).is_none() => {
            refuse(Reason::NotFound, "Attempt to delete a user credential that does not exist")
        }
        AlterCredential::Set { iterations, .. } if *iterations < ITERATIONS_MIN => {
            refuse(Reason::UnacceptableCredential, "Too few iterations")
        }
        AlterCredential::Set { iterations, .. } if *iterations > ITERATIONS_MAX => {
            refuse(Reason::UnacceptableCredential, "Too many iterations")
        }
        AlterCredential::Delete { .. } | AlterCredential::Set { .. } => Ok(()),
    }
}

fn record(change: &AlterCredential) -> Record {
    match change {
        AlterCredential::Delete { user, mechanism } => {
            RemoveUserScramCredentialRecord { name: user.clone(), mechanism: *mechanism }.into()
        }
        AlterCredential::Set { user, mechanism, iterations, salt, salted_password } => {
            let known = ScramMechanism::from_code(*mechanism).expect("the mechanism was checked");
            let credential = known.credential(salted_password, salt.clone(), *iterations);
            let record = UserScramCredentialRecord {
                name: user.clone(),
                mechanism: *mechanism,
                salt: credential.salt,
                stored_key: credential.stored_key,
                server_key: credential.server_key,
                iterations: *iterations,
            };
            record.into()
        }
    }
}

#[cfg(test)]
mod tests;
