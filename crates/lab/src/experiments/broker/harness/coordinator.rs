//! Coordinators of groups and transactions.

use levada_wire::StrBytes;
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::FindCoordinatorRequest;

use crate::error::LabError;
use crate::experiments::broker::harness::connection::Connection;
use crate::experiments::broker::harness::node::Node;

/// Kinds of keys.
pub(crate) const GROUP: i8 = 0;
pub(crate) const TRANSACTION: i8 = 1;

/// Asks for the coordinator of a key, which makes the topic with its state. The coordinator may
/// still load when this returns.
pub(crate) fn find(node: &Node, (kind, key): (i8, &str)) -> Result<(), LabError> {
    let mut request = FindCoordinatorRequest::default();
    request.key_type = kind;
    request.coordinator_keys = vec![StrBytes::from(key)];
    // The answer may be that there is none yet.
    Connection::open(node.address())?.ask(4, &request).map(drop)
}

/// True if a coordinator that loads its state answers with this code.
pub(crate) fn is_loading(code: i16) -> bool {
    let codes =
        [ErrorCode::CoordinatorNotAvailable, ErrorCode::CoordinatorLoadInProgress, ErrorCode::NotCoordinator];
    codes.iter().any(|one| one.code() == code)
}
