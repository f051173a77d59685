//! Errors of remote stores: the kind decides about the reaction, the text names operation and
//! object.

use std::fmt;
use std::io;

/// Failure of an operation on a remote store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteError {
    /// Kind of the failure.
    pub kind: RemoteErrorKind,
    /// Operation and its object, such as `cannot read s3://logs/orders-…/0/….log`.
    pub operation: String,
    /// Cause in one line, without credentials.
    pub cause: String,
}

/// Kind of a failure: the caller's reaction to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RemoteErrorKind {
    /// The store has no such object.
    NotFound,
    /// The store does not accept the credentials or their permissions. A repetition fails too.
    Refused,
    /// The store accepts the credentials, which do not permit the operation.
    Forbidden,
    /// The clock of this machine differs too much from that of the store.
    Skewed,
    /// The bucket or container does not exist.
    NoBucket,
    /// The store receives more requests than it permits. A repetition may succeed.
    Throttled,
    /// The store does not respond in time, or reports that it cannot serve now. A repetition may
    /// succeed.
    Unavailable,
    /// An object contradicts its metadata: truncated, too long or not readable.
    Damaged,
    /// The objects use a form that Levada does not support, or the configuration is not valid.
    Unsupported,
    /// A file of this broker cannot be read or written.
    Local,
    /// The store has the objects of another cluster: nothing may be written or deleted.
    Foreign,
}

impl RemoteError {
    /// A failure of `operation`.
    pub fn new(kind: RemoteErrorKind, operation: impl fmt::Display, cause: impl fmt::Display) -> Self {
        Self { kind, operation: operation.to_string(), cause: cause.to_string() }
    }

    /// True if a repetition of the operation may succeed.
    pub fn is_retriable(&self) -> bool {
        matches!(self.kind, RemoteErrorKind::Unavailable | RemoteErrorKind::Throttled)
    }

    /// True if the store as a whole is not usable now: the error is not of this object.
    pub fn is_of_store(&self) -> bool {
        use RemoteErrorKind::{Forbidden, NoBucket, Refused, Skewed};
        self.is_retriable() || matches!(self.kind, Refused | Forbidden | Skewed | NoBucket)
    }

    pub(crate) fn local(operation: impl fmt::Display, cause: &io::Error) -> Self {
        Self::new(RemoteErrorKind::Local, operation, cause)
    }
}

impl RemoteErrorKind {
    /// Next step for the operator.
    pub fn advice(self) -> &'static str {
        match self {
            Self::NotFound => "compare the store with the metadata: levada storage remote check",
            Self::Refused => "check the credentials and their permissions on the store",
            Self::Forbidden => {
                "give the credentials the permissions on the store that docs/operating/tiered-storage.md names"
            }
            Self::Skewed => "set the clock of this machine: the store refuses requests of another time",
            Self::NoBucket => "create the bucket, or correct its name (levada.remote.store)",
            Self::Throttled => {
                "lower remote.log.manager.copy.max.bytes.per.second or raise the limit of the store; the broker tries again"
            }
            Self::Unavailable => "check that the store is reachable; the broker tries again",
            Self::Damaged => "compare the store with the metadata: levada storage remote check",
            Self::Unsupported => "read docs/operating/tiered-storage.md about supported stores",
            Self::Local => "check the broker's disks",
            Self::Foreign => "give each cluster a directory or prefix of its own (levada.remote.store)",
        }
    }
}

impl fmt::Display for RemoteError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}; {}", self.operation, self.cause, self.kind.advice())
    }
}

impl std::error::Error for RemoteError {}
