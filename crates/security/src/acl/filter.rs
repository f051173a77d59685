//! Filters over ACLs, as in DescribeAcls and DeleteAcls.

use crate::acl::{Acl, Operation, PatternType, Permission, ResourceType, WILDCARD};

/// Filter of entries. A field that is left out matches all.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AclFilter {
    /// Kind of the resource.
    pub resource_type: Option<ResourceType>,
    /// Name of the resource.
    pub resource_name: Option<String>,
    /// Comparison of the name.
    pub pattern: PatternFilter,
    /// Type and name of the principal.
    pub principal: Option<String>,
    /// Host.
    pub host: Option<String>,
    /// Operation.
    pub operation: Option<Operation>,
    /// Permission.
    pub permission: Option<Permission>,
}

/// Comparison of a filter's name with an entry's.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum PatternFilter {
    /// Equal, in entries of either kind.
    #[default]
    Any,
    /// Entries for a resource of that name.
    Match,
    /// Equal, in entries of that kind.
    Only(PatternType),
}

const ANY: i8 = 1;
const MATCH: i8 = 2;

impl AclFilter {
    /// A filter from the numbers of the protocol: resource type, pattern type, operation,
    /// permission. None if one is unknown.
    pub fn from_codes([resource_type, pattern, operation, permission]: [i8; 4]) -> Option<Self> {
        fn optional<T>(code: i8, known: fn(i8) -> Option<T>) -> Option<Option<T>> {
            if code == ANY { Some(None) } else { known(code).map(Some) }
        }
        let pattern = match pattern {
            ANY => PatternFilter::Any,
            MATCH => PatternFilter::Match,
            code => PatternFilter::Only(PatternType::from_code(code)?),
        };
        Some(Self {
            resource_type: optional(resource_type, ResourceType::from_code)?,
            pattern,
            operation: optional(operation, Operation::from_code)?,
            permission: optional(permission, Permission::from_code)?,
            ..Self::default()
        })
    }

    /// The exact name of the matching entries, if the filter selects a single name.
    pub fn exact_name(&self) -> Option<&str> {
        self.resource_name.as_deref().filter(|_| self.pattern != PatternFilter::Match)
    }

    /// True if the filter means this entry.
    pub fn matches(&self, acl: &Acl) -> bool {
        fn same<T: PartialEq>(wanted: Option<T>, found: T) -> bool {
            wanted.is_none_or(|wanted| wanted == found)
        }
        same(self.resource_type, acl.resource_type)
            && self.matches_name(acl)
            && same(self.principal.as_deref(), &acl.principal)
            && same(self.host.as_deref(), &acl.host)
            && same(self.operation, acl.operation)
            && same(self.permission, acl.permission)
    }

    fn matches_name(&self, acl: &Acl) -> bool {
        if let PatternFilter::Only(kind) = self.pattern
            && kind != acl.pattern_type
        {
            return false;
        }
        let Some(name) = &self.resource_name else { return true };
        match (self.pattern, acl.pattern_type) {
            (PatternFilter::Match, PatternType::Literal) => {
                acl.resource_name == *name || acl.resource_name == WILDCARD
            }
            (PatternFilter::Match, PatternType::Prefixed) => name.starts_with(&acl.resource_name),
            _ => acl.resource_name == *name,
        }
    }
}
