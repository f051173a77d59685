//! Text form of access control entries.

use levada_broker::security::acl::{Operation, PatternType, Permission, ResourceType};
use levada_wire::messages::describe_acls_response::DescribeAclsResource;
use serde::Serialize;

/// Printed form of an entry.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub(super) struct Row {
    resource_type: String,
    pattern: String,
    name: String,
    principal: String,
    host: String,
    operation: String,
    permission: String,
}

impl Row {
    /// The entries about one resource.
    pub(super) fn of(resource: &DescribeAclsResource) -> Vec<Self> {
        // A value of a newer broker is shown by its number.
        fn shown<T>(known: Option<T>, name: fn(T) -> &'static str, code: i8) -> String {
            known.map_or_else(|| code.to_string(), |known| word(name(known)))
        }
        let (kind, pattern) = (resource.resource_type, resource.pattern_type);
        let entries = resource.acls.iter().map(|acl| Self {
            resource_type: shown(ResourceType::from_code(kind), ResourceType::name, kind),
            pattern: shown(PatternType::from_code(pattern), PatternType::name, pattern),
            name: resource.resource_name.as_str().to_owned(),
            principal: acl.principal.as_str().to_owned(),
            host: acl.host.as_str().to_owned(),
            operation: shown(Operation::from_code(acl.operation), Operation::name, acl.operation),
            permission: shown(
                Permission::from_code(acl.permission_type),
                Permission::name,
                acl.permission_type,
            ),
        });
        entries.collect()
    }

    pub(super) fn cells(self) -> Vec<String> {
        vec![
            self.resource_type,
            self.pattern,
            self.name,
            self.principal,
            self.host,
            self.operation,
            self.permission,
        ]
    }
}

/// Command-line form of Kafka's name: `ALTER_CONFIGS` is `alter-configs`.
fn word(name: &str) -> String {
    name.to_lowercase().replace('_', "-")
}

/// An operation by its word.
pub(super) fn operation(text: &str) -> Result<Operation, String> {
    let found =
        Operation::ALL.iter().find(|known| word(known.name()) == text.to_lowercase().replace('_', "-"));
    found.copied().ok_or_else(|| {
        let words: Vec<String> = Operation::ALL.iter().map(|known| word(known.name())).collect();
        format!("no operation; expected {}", words.join(", "))
    })
}

/// A principal with its type.
pub(super) fn principal(text: &str) -> String {
    if text.starts_with("User:") { text.to_owned() } else { format!("User:{text}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_mean_operations_and_principals() {
        assert_eq!(operation("alter-configs"), Ok(Operation::AlterConfigs));
        assert_eq!(operation("ALTER_CONFIGS"), Ok(Operation::AlterConfigs));
        assert_eq!(operation("read"), Ok(Operation::Read));
        assert!(operation("reed").is_err());
        assert_eq!(principal("alice"), "User:alice");
        assert_eq!(principal("User:CN=a"), "User:CN=a");
        assert_eq!(principal("*"), "User:*");
    }
}
