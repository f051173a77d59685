//! CreateAcls (key 30), versions 1–3.
//!
//! Refused entry by entry: there is no authorizer to keep them.

use levada_wire::messages::create_acls_response::AclCreationResult;
use levada_wire::messages::{CreateAclsRequest, CreateAclsResponse};

use crate::api::Context;
use crate::api::k29_describe_acls::NO_AUTHORIZER;
use crate::error_code::ErrorCode;

pub(crate) async fn answer(_: &Context, request: CreateAclsRequest) -> CreateAclsResponse {
    let refused = |_| {
        message!(AclCreationResult {
            error_code: ErrorCode::SecurityDisabled.code(),
            error_message: Some(NO_AUTHORIZER.into()),
        })
    };
    message!(CreateAclsResponse { results: request.creations.into_iter().map(refused).collect() })
}
