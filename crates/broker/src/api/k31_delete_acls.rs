//! DeleteAcls (key 31), versions 1–3.
//!
//! Refused filter by filter: there is no authorizer to ask.

use levada_wire::messages::delete_acls_response::DeleteAclsFilterResult;
use levada_wire::messages::{DeleteAclsRequest, DeleteAclsResponse};

use crate::api::Context;
use crate::error_code::ErrorCode;

pub(crate) async fn answer(_: &Context, request: DeleteAclsRequest) -> DeleteAclsResponse {
    let refused = |_| {
        message!(DeleteAclsFilterResult {
            error_code: ErrorCode::SecurityDisabled.code(),
            error_message: Some("No Authorizer is configured.".into()),
        })
    };
    message!(DeleteAclsResponse { filter_results: request.filters.into_iter().map(refused).collect() })
}
