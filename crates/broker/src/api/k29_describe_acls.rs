//! DescribeAcls (key 29), versions 1–3.
//!
//! Everybody may do everything: there is no authorizer, and the answer says so, as Kafka's does.

use levada_wire::messages::{DescribeAclsRequest, DescribeAclsResponse};

use crate::api::Context;
use crate::error_code::ErrorCode;

/// What every API of access control answers without an authorizer; tools look for this text.
pub(super) const NO_AUTHORIZER: &str = "No Authorizer is configured on the broker";

pub(crate) async fn answer(_: &Context, _: DescribeAclsRequest) -> DescribeAclsResponse {
    message!(DescribeAclsResponse {
        error_code: ErrorCode::SecurityDisabled.code(),
        error_message: Some(NO_AUTHORIZER.into()),
    })
}
