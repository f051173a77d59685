//! Coordinators of groups and transactions.

use levada_wire::StrBytes;
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::FindCoordinatorRequest;

use crate::error::LabError;
use crate::experiments::broker::harness::connection::Connection;
use crate::experiments::broker::harness::node::Node;

/// Key types of FindCoordinator.
pub(crate) const GROUP: i8 = 0;
pub(crate) const TRANSACTION: i8 = 1;

/// Finds the coordinator of a key, which creates the topic of its state. The coordinator may still
/// be loading when this function returns.
pub(crate) fn find(node: &Node, (kind, key): (i8, &str)) -> Result<(), LabError> {
    let mut request = FindCoordinatorRequest::default();
    request.key_type = kind;
    request.coordinator_keys = vec![StrBytes::from(key)];
    // The response may be that no coordinator exists yet.
    Connection::open(node.address())?.ask(4, &request).map(drop)
}

/// True if the error code says that the coordinator is loading its state or is not available yet.
pub(crate) fn is_loading(code: i16) -> bool {
    let codes =
        [ErrorCode::CoordinatorNotAvailable, ErrorCode::CoordinatorLoadInProgress, ErrorCode::NotCoordinator];
    codes.iter().any(|one| one.code() == code)
}
