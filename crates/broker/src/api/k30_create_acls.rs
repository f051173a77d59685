//! CreateAcls (key 30), versions 1–3.
//!
//! Version 1 has prefixed patterns (KIP-290), 2 is flexible (KIP-482), and 3 has entries about
//! users (KIP-373).
//!
//! Adds entries of access control, each independently; they take effect before the response.
//! Without an authorizer each entry is refused. Checks Alter on the cluster.

use levada_metadata::controller::check_acl_host;
use levada_security::acl::{Acl, CLUSTER_NAME, Operation, PatternType, Permission, ResourceType};
use levada_wire::error_code::{ErrorCode, Failure};
use levada_wire::messages::create_acls_request::AclCreation;
use levada_wire::messages::create_acls_response::AclCreationResult;
use levada_wire::messages::{CreateAclsRequest, CreateAclsResponse, StrBytes};

use crate::api::access::forbidden;
use crate::api::changes::Before;
use crate::api::{Context, text};

const NO_AUTHORIZER: &str = "No Authorizer is configured.";

pub(crate) async fn answer(context: &Context, request: CreateAclsRequest) -> CreateAclsResponse {
    let refused = if !context.broker().access().has_authorizer() {
        Some(Failure::new(ErrorCode::SecurityDisabled, NO_AUTHORIZER))
    } else {
        let may = context.may_cluster(Operation::Alter);
        (!may).then(|| forbidden(ErrorCode::ClusterAuthorizationFailed))
    };
    let mut valid: Vec<Acl> = Vec::new();
    let image = context.broker().metadata().image();
    let check = |creation| match &refused {
        Some(failure) => Some(failure.clone()),
        None => check(&creation)
            .and_then(|acl| check_acl_host(&image, &acl.host).map(|()| acl).map_err(Failure::from))
            .map(|acl| valid.push(acl))
            .err(),
    };
    let failures: Vec<Option<Failure>> = request.creations.into_iter().map(check).collect();
    let created = if valid.is_empty() {
        Ok(Vec::new())
    } else {
        context.broker().controller().create_acls(valid).await
    };
    Before::acls(context, created.iter().flatten(), true);
    let failed = created.err();
    let results = failures.into_iter().map(|failure| {
        let mut result = message!(AclCreationResult { error_message: Some(StrBytes::default()) });
        if let Some(failure) = failure.or_else(|| failed.clone()) {
            result.error_code = failure.code.code();
            result.error_message = failure.message.map(text);
        }
        result
    });
    message!(CreateAclsResponse { results: results.collect() })
}

/// Checks a requested entry, and returns it as an ACL.
///
/// # Errors
/// The entry is not valid.
pub(super) fn check(creation: &AclCreation) -> Result<Acl, Failure> {
    let invalid = |text: String| Failure::new(ErrorCode::InvalidRequest, text);
    let name = creation.resource_name.as_str();
    if creation.resource_type == ResourceType::Cluster.code() && name != CLUSTER_NAME {
        return Err(invalid(format!("The only valid name for the CLUSTER resource is {CLUSTER_NAME}")));
    }
    if name.is_empty() {
        return Err(invalid("Invalid empty resource name".to_owned()));
    }
    let principal = creation.principal.as_str();
    // As in Kafka, a kind or a name may be empty: such an entry is for no principal of this broker.
    if !principal.contains(':') {
        return Err(invalid(format!(
            "Could not parse principal from `{principal}` (no colon is present separating the principal type from the \
             principal name)"
        )));
    }
    let unknown = |what: &str| invalid(format!("Invalid {what} {}", what_any(what, creation)));
    Ok(Acl {
        resource_type: ResourceType::from_code(creation.resource_type)
            .ok_or_else(|| unknown("resourceType"))?,
        resource_name: name.to_owned(),
        pattern_type: PatternType::from_code(creation.resource_pattern_type)
            .ok_or_else(|| unknown("patternType"))?,
        principal: principal.to_owned(),
        host: creation.host.as_str().to_owned(),
        operation: Operation::from_code(creation.operation).ok_or_else(|| unknown("operation"))?,
        permission: Permission::from_code(creation.permission_type)
            .ok_or_else(|| unknown("permissionType"))?,
    })
}

/// Kafka's word for a number that means nothing in an entry.
fn what_any(what: &str, creation: &AclCreation) -> &'static str {
    let code = match what {
        "resourceType" => creation.resource_type,
        "patternType" => creation.resource_pattern_type,
        "operation" => creation.operation,
        _ => creation.permission_type,
    };
    match (what, code) {
        (_, 1) => "ANY",
        ("patternType", 2) => "MATCH",
        _ => "UNKNOWN",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acl_principal_without_colon_is_refused() {
        let creation = |principal: &str| {
            message!(AclCreation {
                resource_type: ResourceType::Topic.code(),
                resource_name: "t".into(),
                resource_pattern_type: PatternType::Literal.code(),
                principal: principal.into(),
                host: "*".into(),
                operation: Operation::Read.code(),
                permission_type: Permission::Allow.code(),
            })
        };
        for principal in ["User:a", "User:", ":x", ":", "Group:a:b"] {
            assert_eq!(check(&creation(principal)).unwrap().principal, principal);
        }
        for principal in ["bad", ""] {
            let refused = check(&creation(principal)).unwrap_err();
            let expected = format!(
                "Could not parse principal from `{principal}` (no colon is present separating the principal type from \
                 the principal name)"
            );
            assert_eq!(
                (refused.code, refused.message.unwrap()),
                (ErrorCode::InvalidRequest, expected.into())
            );
        }
    }
}
