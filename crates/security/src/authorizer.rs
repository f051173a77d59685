//! The authorizer, by the rules of Kafka's `StandardAuthorizer`: super users may do everything, a
//! deny entry overrides allow entries, and without entries for the resource the default applies.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use crate::Session;
use crate::acl::{Acl, AclIndex, EVERYBODY, Operation, PatternType, Permission, ResourceType, WILDCARD};

#[cfg(test)]
mod tests;

/// Authorizer settings other than the ACL entries.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AuthorizerConfig {
    /// `super.users`: principals that may do everything.
    pub super_users: BTreeSet<String>,
    /// `allow.everyone.if.no.acl.found`.
    pub allow_if_no_acl: bool,
}

/// The reason for a decision.
#[derive(Clone, Debug, PartialEq)]
pub enum Rule {
    /// A super user may do everything.
    SuperUser,
    /// An ACL decides.
    Entry(Arc<Acl>),
    /// No ACL matches: the default decides.
    Default {
        /// True if the default allows the operation.
        allows: bool,
    },
}

impl Rule {
    /// True if the decision allows the operation.
    pub fn allows(&self) -> bool {
        match self {
            Self::SuperUser => true,
            Self::Entry(acl) => acl.permission == Permission::Allow,
            Self::Default { allows } => *allows,
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SuperUser => f.write_str("SuperUser"),
            Self::Entry(acl) => acl.fmt(f),
            Self::Default { allows: true } => f.write_str("DefaultAllow"),
            Self::Default { allows: false } => f.write_str("DefaultDeny"),
        }
    }
}

impl AuthorizerConfig {
    /// Rule that decides if `session` may do `operation` with the resource.
    pub fn decide(
        &self,
        acls: &AclIndex,
        session: &Session,
        wanted: (Operation, ResourceType, &str),
    ) -> Rule {
        if self.super_users.contains(session.principal()) {
            return Rule::SuperUser;
        }
        let (operation, kind, name) = wanted;
        let mut allowed = None;
        let mut found = false;
        for acl in acls.about(kind, name) {
            found = true;
            if !is_for(acl, session) || !covers(acl, operation) {
                continue;
            }
            match acl.permission {
                Permission::Deny => return Rule::Entry(acl.clone()),
                Permission::Allow => allowed = Some(acl),
            }
        }
        match allowed {
            Some(acl) => Rule::Entry(acl.clone()),
            None => Rule::Default { allows: self.allow_if_no_acl && !found },
        }
    }

    /// True if there may be a resource of that kind with which `session` may do `operation`.
    pub fn allows_some(
        &self,
        acls: &AclIndex,
        session: &Session,
        (operation, kind): (Operation, ResourceType),
    ) -> bool {
        // As in Kafka: a client that may use any name may do so in spite of denials for other
        // names.
        if self.decide(acls, session, (operation, kind, "hardcode")).allows() {
            return true;
        }
        let concerned = |acl: &&Arc<Acl>| {
            is_for(acl, session) && (acl.operation == operation || acl.operation == Operation::All)
        };
        let mut names: BTreeMap<(Permission, PatternType), BTreeSet<&str>> = BTreeMap::new();
        for acl in acls.of_type(kind).filter(concerned) {
            names.entry((acl.permission, acl.pattern_type)).or_default().insert(&acl.resource_name);
        }
        let none = BTreeSet::new();
        let of = |permission, pattern| names.get(&(permission, pattern)).unwrap_or(&none);
        let denied = of(Permission::Deny, PatternType::Literal);
        if denied.contains(WILDCARD) {
            return false;
        }
        let denied_prefixes = of(Permission::Deny, PatternType::Prefixed);
        let free = |name: &str| !denied_prefixes.iter().any(|prefix| name.starts_with(prefix));
        let literal = of(Permission::Allow, PatternType::Literal);
        literal.contains(WILDCARD)
            || literal.iter().any(|name| !denied.contains(name) && free(name))
            || of(Permission::Allow, PatternType::Prefixed).iter().any(|name| free(name))
    }
}

fn is_for(acl: &Acl, session: &Session) -> bool {
    (acl.principal == session.principal() || acl.principal == EVERYBODY)
        && (acl.host == WILDCARD || session.is_at(&acl.host))
}

/// True if an entry applies to an operation. An entry that allows changes also allows Describe; a
/// denial covers only the operation that it names.
fn covers(acl: &Acl, operation: Operation) -> bool {
    use Operation::{All, Alter, AlterConfigs, Delete, Describe, DescribeConfigs, Read, Write};
    if acl.operation == operation || acl.operation == All {
        return true;
    }
    acl.permission == Permission::Allow
        && match operation {
            Describe => matches!(acl.operation, Read | Write | Delete | Alter),
            DescribeConfigs => acl.operation == AlterConfigs,
            _ => false,
        }
}
