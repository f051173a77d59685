//! DescribeAcls (key 29), versions 1–3.
//!
//! Version 1 has prefixed patterns (KIP-290), 2 is flexible (KIP-482), and 3 has entries about
//! users (KIP-373).
//!
//! The entries of access control that match a filter, by resource. A filter with a number that
//! Kafka does not know matches no entry; 0, which stands for such numbers, is refused. Without an
//! authorizer the response has an error, as in Kafka. Checks Describe on the cluster.

use std::borrow::Cow;
use std::collections::BTreeMap;

use levada_security::acl::{Acl, AclFilter, Operation};
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::describe_acls_response::{AclDescription, DescribeAclsResource};
use levada_wire::messages::{DescribeAclsRequest, DescribeAclsResponse, StrBytes};

use crate::api::access::forbidden;
use crate::api::{Context, text};

/// Error message of every ACL request without an authorizer; tools compare this text.
pub(super) const NO_AUTHORIZER: &str = "No Authorizer is configured on the broker";

/// Kafka's number for elements that it does not know.
const UNKNOWN: i8 = 0;

pub(crate) async fn answer(context: &Context, request: DescribeAclsRequest) -> DescribeAclsResponse {
    let refuse = |error: ErrorCode, why: Option<Cow<'static, str>>| {
        message!(DescribeAclsResponse { error_code: error.code(), error_message: why.map(text) })
    };
    if !context.broker().access().has_authorizer() {
        return refuse(ErrorCode::SecurityDisabled, Some(NO_AUTHORIZER.into()));
    }
    if !context.may_cluster(Operation::Describe) {
        let forbidden = forbidden(ErrorCode::ClusterAuthorizationFailed);
        return refuse(forbidden.code, forbidden.message);
    }
    let filter = match filter(&request) {
        Ok(filter) => filter,
        Err(unset) => return refuse(ErrorCode::InvalidRequest, Some(unset.into())),
    };
    let matches = |acl: &Acl| filter.as_ref().is_some_and(|filter| filter.matches(acl));
    let image = context.broker().metadata().image();
    let mut resources: BTreeMap<(i8, &str, i8), Vec<AclDescription>> = BTreeMap::new();
    for (_, acl) in image.acls().iter().filter(|(_, acl)| matches(acl)) {
        let key = (acl.resource_type.code(), &*acl.resource_name, acl.pattern_type.code());
        resources.entry(key).or_default().push(message!(AclDescription {
            principal: StrBytes::from(&*acl.principal),
            host: StrBytes::from(&*acl.host),
            operation: acl.operation.code(),
            permission_type: acl.permission.code(),
        }));
    }
    let resources = resources.into_iter().map(|((resource_type, name, pattern_type), acls)| {
        message!(DescribeAclsResource {
            resource_type: resource_type,
            resource_name: name.into(),
            pattern_type: pattern_type,
            acls: acls,
        })
    });
    message!(DescribeAclsResponse { resources: resources.collect(), error_message: Some("".into()) })
}

/// The filter; `None` if it has a number that no entry has.
///
/// # Errors
/// The message about a number that is 0.
fn filter(request: &DescribeAclsRequest) -> Result<Option<AclFilter>, &'static str> {
    let given = |text: &Option<StrBytes>| text.as_ref().map(|text| text.as_str().to_owned());
    let codes = [
        request.resource_type_filter,
        request.pattern_type_filter,
        request.operation,
        request.permission_type,
    ];
    if codes.contains(&UNKNOWN) {
        return Err("The filter has an element that is unknown.");
    }
    Ok(AclFilter::from_codes(codes).map(|known| AclFilter {
        resource_name: given(&request.resource_name_filter),
        principal: given(&request.principal_filter),
        host: given(&request.host_filter),
        ..known
    }))
}

#[cfg(test)]
mod tests;
