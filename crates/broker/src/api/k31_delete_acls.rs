//! DeleteAcls (key 31), versions 1–3.
//!
//! Removes the entries of access control that match the filters, and returns them. Without an
//! authorizer each filter is refused. Checks Alter on the cluster.

use levada_wire::messages::delete_acls_request::DeleteAclsFilter;
use levada_wire::messages::delete_acls_response::{DeleteAclsFilterResult, DeleteAclsMatchingAcl};
use levada_wire::messages::{DeleteAclsRequest, DeleteAclsResponse, StrBytes};

use crate::api::access::forbidden;
use crate::api::changes::Before;
use crate::api::{Context, text};
use crate::error_code::{ErrorCode, Failure};
use crate::security::acl::{Acl, AclFilter, Operation};

const NO_AUTHORIZER: &str = "No Authorizer is configured.";

pub(crate) async fn answer(context: &Context, request: DeleteAclsRequest) -> DeleteAclsResponse {
    let refused = if !context.broker().access().has_authorizer() {
        Some(Failure::new(ErrorCode::SecurityDisabled, NO_AUTHORIZER))
    } else {
        let may = context.may_cluster(Operation::Alter);
        (!may).then(|| forbidden(ErrorCode::ClusterAuthorizationFailed))
    };
    if let Some(failure) = refused {
        let results = request.filters.iter().map(|_| show(Err(failure.clone())));
        return message!(DeleteAclsResponse { filter_results: results.collect() });
    }
    let mut known: Vec<AclFilter> = Vec::new();
    let are_known = request.filters.into_iter().map(|asked| filter(&asked).map(|filter| known.push(filter)));
    let are_known: Vec<bool> = are_known.map(|known| known.is_some()).collect();
    let deleted =
        if known.is_empty() { Vec::new() } else { context.broker().controller().delete_acls(known).await };
    Before::acls(context, deleted.iter().flatten().flatten(), false);
    let mut deleted = deleted.into_iter();
    let results = are_known.into_iter().map(|is_known| {
        if is_known {
            show(deleted.next().expect("one result for each filter"))
        } else {
            show(Err(Failure::new(ErrorCode::InvalidRequest, "Unknown entryFilter.")))
        }
    });
    message!(DeleteAclsResponse { filter_results: results.collect() })
}

fn filter(filter: &DeleteAclsFilter) -> Option<AclFilter> {
    let given = |text: &Option<StrBytes>| text.as_ref().map(|text| text.as_str().to_owned());
    let codes =
        [filter.resource_type_filter, filter.pattern_type_filter, filter.operation, filter.permission_type];
    Some(AclFilter {
        resource_name: given(&filter.resource_name_filter),
        principal: given(&filter.principal_filter),
        host: given(&filter.host_filter),
        ..AclFilter::from_codes(codes)?
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
