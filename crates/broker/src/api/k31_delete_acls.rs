//! DeleteAcls (key 31), versions 1–3.
//!
//! Version 1 has prefixed patterns (KIP-290), 2 is flexible (KIP-482), and 3 has entries about
//! users (KIP-373).
//!
//! Removes the entries of access control that match the filters, and returns them. Without an
//! authorizer each filter is refused, and so is each filter of a request that has one with UNKNOWN
//! (0) as a type, an operation or a permission; Kafka closes the connection in this case. Checks
//! Alter on the cluster.

use levada_security::acl::{Acl, AclFilter, Operation};
use levada_wire::error_code::{ErrorCode, Failure};
use levada_wire::messages::delete_acls_request::DeleteAclsFilter;
use levada_wire::messages::delete_acls_response::{DeleteAclsFilterResult, DeleteAclsMatchingAcl};
use levada_wire::messages::{DeleteAclsRequest, DeleteAclsResponse, StrBytes};

use crate::api::access::forbidden;
use crate::api::changes::Before;
use crate::api::{Context, text};

const NO_AUTHORIZER: &str = "No Authorizer is configured.";

/// Kafka's number for no type, operation or permission.
const UNKNOWN: i8 = 0;
/// Kafka's number for all of them.
const ANY: i8 = 1;

pub(crate) async fn answer(context: &Context, request: DeleteAclsRequest) -> DeleteAclsResponse {
    let refused = if !context.broker().access().has_authorizer() {
        Some(Failure::new(ErrorCode::SecurityDisabled, NO_AUTHORIZER))
    } else {
        let may = context.may_cluster(Operation::Alter);
        let is_unset = || request.filters.iter().any(|filter| codes(filter).contains(&UNKNOWN));
        if !may {
            Some(forbidden(ErrorCode::ClusterAuthorizationFailed))
        } else if is_unset() {
            Some(Failure::new(ErrorCode::InvalidRequest, "Filters contain UNKNOWN elements."))
        } else {
            None
        }
    };
    if let Some(failure) = refused {
        let results = request.filters.iter().map(|_| show(Err(failure.clone())));
        return message!(DeleteAclsResponse { filter_results: results.collect() });
    }
    let mut known: Vec<AclFilter> = Vec::new();
    let are_known = request.filters.into_iter().map(|asked| filter(&asked).map(|filter| known.push(filter)));
    let are_known: Vec<Result<(), &str>> = are_known.collect();
    let deleted =
        if known.is_empty() { Vec::new() } else { context.broker().controller().delete_acls(known).await };
    Before::acls(context, deleted.iter().flatten().flatten(), false);
    let mut deleted = deleted.into_iter();
    let results = are_known.into_iter().map(|is_known| match is_known {
        Ok(()) => show(deleted.next().expect("one result for each filter")),
        Err(unknown) => show(Err(Failure::new(ErrorCode::InvalidRequest, unknown))),
    });
    message!(DeleteAclsResponse { filter_results: results.collect() })
}

fn codes(filter: &DeleteAclsFilter) -> [i8; 4] {
    [filter.resource_type_filter, filter.pattern_type_filter, filter.operation, filter.permission_type]
}

/// The filter.
///
/// # Errors
/// Kafka's message about the part of the filter that is unknown.
fn filter(filter: &DeleteAclsFilter) -> Result<AclFilter, &'static str> {
    let given = |text: &Option<StrBytes>| text.as_ref().map(|text| text.as_str().to_owned());
    let codes = codes(filter);
    let Some(known) = AclFilter::from_codes(codes) else {
        let [resource_type, pattern_type, ..] = codes;
        let has_pattern = AclFilter::from_codes([resource_type, pattern_type, ANY, ANY]).is_some();
        return Err(if has_pattern { "Unknown entryFilter." } else { "Unknown patternFilter." });
    };
    Ok(AclFilter {
        resource_name: given(&filter.resource_name_filter),
        principal: given(&filter.principal_filter),
        host: given(&filter.host_filter),
        ..known
    })
}

fn show(deleted: Result<Vec<Acl>, Failure>) -> DeleteAclsFilterResult {
    let mut result = message!(DeleteAclsFilterResult { error_message: None });
    match deleted {
        Ok(acls) => result.matching_acls = acls.iter().map(show_one).collect(),
        Err(failure) => {
            result.error_code = failure.code.code();
            result.error_message = failure.message.map(text);
        }
    }
    result
}

fn show_one(acl: &Acl) -> DeleteAclsMatchingAcl {
    message!(DeleteAclsMatchingAcl {
        error_message: None,
        resource_type: acl.resource_type.code(),
        resource_name: StrBytes::from(&*acl.resource_name),
        pattern_type: acl.pattern_type.code(),
        principal: StrBytes::from(&*acl.principal),
        host: StrBytes::from(&*acl.host),
        operation: acl.operation.code(),
        permission_type: acl.permission.code(),
    })
}
