//! Text form of access control entries.

use levada_security::acl::{Operation, PatternType, Permission, ResourceType};
use levada_wire::messages::describe_acls_response::DescribeAclsResource;
use serde::Serialize;

use levada_terminal::failure::Failure;

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

/// Operations, except ALL, that some request needs on resources of this type, as in `kafka-acls`,
/// and Delete on the cluster, which DeleteTopics needs.
fn operations(kind: ResourceType) -> Vec<Operation> {
    let further = (kind == ResourceType::Cluster).then_some(Operation::Delete);
    let mut all: Vec<Operation> = kind.operations().iter().copied().chain(further).collect();
    all.sort_by_key(|one| one.code());
    all
}

/// Fails for an operation that no request needs on resources of this type.
pub(super) fn check_effect(kind: ResourceType, operation: Operation) -> Result<(), Failure> {
    let known = operations(kind);
    if operation == Operation::All || known.contains(&operation) {
        return Ok(());
    }
    let words: Vec<String> = known.iter().chain([&Operation::All]).map(|one| word(one.name())).collect();
    let (operation, kind) = (word(operation.name()), word(kind.name()).replace('-', " "));
    Err(Failure::Usage(format!(
        "no request needs {operation} on a {kind}; the operations on a {kind} are {}",
        words.join(", ")
    )))
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
    fn acl_words_map_to_operations_and_principals() {
        assert_eq!(operation("alter-configs"), Ok(Operation::AlterConfigs));
        assert_eq!(operation("ALTER_CONFIGS"), Ok(Operation::AlterConfigs));
        assert_eq!(operation("read"), Ok(Operation::Read));
        assert!(operation("reed").is_err());
        assert_eq!(principal("alice"), "User:alice");
        assert_eq!(principal("User:CN=a"), "User:CN=a");
        assert_eq!(principal("*"), "User:*");
    }

    #[test]
    fn acl_accepts_documented_and_refuses_ineffective_operations() {
        let failure = check_effect(ResourceType::Cluster, Operation::Write).unwrap_err();
        assert_eq!(
            failure.line(),
            "no request needs write on a cluster; the operations on a cluster are create, delete, alter, \
             describe, cluster-action, describe-configs, alter-configs, idempotent-write, all"
        );
        let page = include_str!("../../../../docs/operating/authorization.md");
        let (mut checked, lower) = (0, |text: &str| text.to_lowercase().replace(['_', ' ', '-'], ""));
        for line in page.lines() {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            let [_, key, _, asked, on, ..] = cells[..] else { continue };
            if key.parse::<u16>().is_err() {
                continue;
            }
            let kind = ResourceType::ALL.iter().find(|kind| lower(kind.name()) == lower(on));
            let operation = Operation::ALL.iter().find(|known| lower(known.name()) == lower(asked));
            let done = check_effect(*kind.expect(line), *operation.expect(line));
            assert!(done.is_ok(), "{line}: {done:?}");
            checked += 1;
        }
        assert!(checked > 80, "the page has {checked} questions");
    }
}
