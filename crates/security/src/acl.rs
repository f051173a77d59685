//! ACLs, filters over them, and the selection of the ACLs that apply to a resource. Numbers, names
//! and rules are those of Kafka's `StandardAuthorizer`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

mod address_range;
mod filter;
#[cfg(test)]
pub(crate) mod tests;

pub use self::address_range::{AddressRange, AddressRangeError};
pub use self::filter::{AclFilter, PatternFilter};

/// Matches every name, every host, or as `User:*` every user.
pub const WILDCARD: &str = "*";
/// The principal of entries for all users.
pub const EVERYBODY: &str = "User:*";
/// The only resource name of the cluster.
pub const CLUSTER_NAME: &str = "kafka-cluster";

/// Declares enumerations with Kafka's numbers and names.
macro_rules! codes {
    ($($(#[$doc:meta])* $type:ident { $($entry:ident = $code:literal, $name:literal;)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
        #[repr(i8)]
        pub enum $type {
            $(#[doc = concat!("Kafka's `", $name, "`.")] $entry = $code,)*
        }

        impl $type {
            /// All entries, in Kafka's order.
            pub const ALL: &[Self] = &[$(Self::$entry,)*];

            /// Kafka's number.
            pub const fn code(self) -> i8 {
                self as i8
            }

            /// The entry with that number.
            pub fn from_code(code: i8) -> Option<Self> {
                Self::ALL.iter().copied().find(|entry| entry.code() == code)
            }

            /// Kafka's name.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$entry => $name,)*
                }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }
    )*};
}

codes! {
    /// Kinds of resources.
    ResourceType {
        Topic = 2, "TOPIC";
        Group = 3, "GROUP";
        Cluster = 4, "CLUSTER";
        TransactionalId = 5, "TRANSACTIONAL_ID";
        DelegationToken = 6, "DELEGATION_TOKEN";
        User = 7, "USER";
    }

    /// The kind of pattern that an entry's name is.
    PatternType {
        Literal = 3, "LITERAL";
        Prefixed = 4, "PREFIXED";
    }

    /// Operations on a resource.
    Operation {
        All = 2, "ALL";
        Read = 3, "READ";
        Write = 4, "WRITE";
        Create = 5, "CREATE";
        Delete = 6, "DELETE";
        Alter = 7, "ALTER";
        Describe = 8, "DESCRIBE";
        ClusterAction = 9, "CLUSTER_ACTION";
        DescribeConfigs = 10, "DESCRIBE_CONFIGS";
        AlterConfigs = 11, "ALTER_CONFIGS";
        IdempotentWrite = 12, "IDEMPOTENT_WRITE";
        CreateTokens = 13, "CREATE_TOKENS";
        DescribeTokens = 14, "DESCRIBE_TOKENS";
        TwoPhaseCommit = 15, "TWO_PHASE_COMMIT";
    }

    /// Permission of an entry.
    Permission {
        Deny = 2, "DENY";
        Allow = 3, "ALLOW";
    }
}

impl ResourceType {
    /// The operations that there are on such a resource, other than ALL.
    pub fn operations(self) -> &'static [Operation] {
        use Operation::{
            Alter, AlterConfigs, ClusterAction, Create, CreateTokens, Delete, Describe, DescribeConfigs,
            DescribeTokens, IdempotentWrite, Read, TwoPhaseCommit, Write,
        };
        match self {
            Self::Topic => &[Read, Write, Create, Delete, Alter, Describe, DescribeConfigs, AlterConfigs],
            Self::Group => &[Read, Delete, Describe, DescribeConfigs, AlterConfigs],
            Self::Cluster => {
                &[Create, ClusterAction, DescribeConfigs, AlterConfigs, IdempotentWrite, Alter, Describe]
            }
            Self::TransactionalId => &[Describe, Write, TwoPhaseCommit],
            Self::DelegationToken => &[Describe],
            Self::User => &[CreateTokens, DescribeTokens],
        }
    }
}

/// One entry: principal, host, operation, and whether it allows or denies.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Acl {
    /// Kind of the resource.
    pub resource_type: ResourceType,
    /// Name of the resource, or how it begins.
    pub resource_name: String,
    /// Literal or prefixed.
    pub pattern_type: PatternType,
    /// Type and name, such as `User:alice`.
    pub principal: String,
    /// An address, or `*`.
    pub host: String,
    /// Operation.
    pub operation: Operation,
    /// Allow or deny.
    pub permission: Permission,
}

impl fmt::Display for Acl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { resource_type, resource_name, pattern_type, principal, host, operation, permission } =
            self;
        write!(
            f,
            "{permission} {operation} on {resource_type}:{pattern_type}:{resource_name} for {principal} from {host}"
        )
    }
}

/// The entries, ordered by resource.
#[derive(Clone, Debug, Default)]
pub struct AclIndex(BTreeMap<ResourceType, Section>);

/// The entries about one kind of resource, by the name in them.
#[derive(Clone, Debug, Default)]
struct Section {
    literal: BTreeMap<String, BTreeSet<Arc<Acl>>>,
    prefixed: BTreeMap<String, BTreeSet<Arc<Acl>>>,
    /// Number of prefixes of each length in bytes.
    lengths: BTreeMap<usize, usize>,
}

impl AclIndex {
    /// Adds an ACL.
    pub fn insert(&mut self, acl: Arc<Acl>) {
        let section = self.0.entry(acl.resource_type).or_default();
        let name = acl.resource_name.clone();
        let entries = match acl.pattern_type {
            PatternType::Literal => section.literal.entry(name).or_default(),
            PatternType::Prefixed => {
                let entries = section.prefixed.entry(name).or_default();
                if entries.is_empty() {
                    *section.lengths.entry(acl.resource_name.len()).or_default() += 1;
                }
                entries
            }
        };
        entries.insert(acl);
    }

    /// Removes an ACL; one that it lacks is no error.
    pub fn remove(&mut self, acl: &Arc<Acl>) {
        let Some(section) = self.0.get_mut(&acl.resource_type) else { return };
        let (names, name) = match acl.pattern_type {
            PatternType::Literal => (&mut section.literal, &acl.resource_name),
            PatternType::Prefixed => (&mut section.prefixed, &acl.resource_name),
        };
        let Some(entries) = names.get_mut(name) else { return };
        entries.remove(acl);
        if !entries.is_empty() {
            return;
        }
        names.remove(name);
        if acl.pattern_type == PatternType::Prefixed
            && let Some(count) = section.lengths.get_mut(&name.len())
        {
            *count -= 1;
            if *count == 0 {
                section.lengths.remove(&name.len());
            }
        }
    }

    /// True if the entry is one of them.
    pub fn contains(&self, acl: &Acl) -> bool {
        let Some(section) = self.0.get(&acl.resource_type) else { return false };
        let names = match acl.pattern_type {
            PatternType::Literal => &section.literal,
            PatternType::Prefixed => &section.prefixed,
        };
        names.get(&acl.resource_name).is_some_and(|entries| entries.contains(acl))
    }

    /// Every entry for the resource of that name, for any principal.
    pub fn about(&self, kind: ResourceType, name: &str) -> impl Iterator<Item = &Arc<Acl>> {
        let section = self.0.get(&kind);
        let prefixes = section.into_iter().flat_map(move |section| {
            let prefix = |length: &usize| section.prefixed.get(name.get(..*length)?);
            section.lengths.keys().filter_map(prefix)
        });
        let literal = section.into_iter().flat_map(move |section| {
            let wildcard = (name != WILDCARD).then(|| section.literal.get(WILDCARD)).flatten();
            section.literal.get(name).into_iter().chain(wildcard)
        });
        literal.chain(prefixes).flatten()
    }

    /// Every entry about a kind of resource.
    pub fn of_type(&self, kind: ResourceType) -> impl Iterator<Item = &Arc<Acl>> {
        let section = self.0.get(&kind).into_iter();
        section.flat_map(|section| section.literal.values().chain(section.prefixed.values())).flatten()
    }
}
