//! Lookups of host names in a binary without shared libraries.

/// Limits lookups of hosts and accounts to files and DNS in a statically linked binary, where the
/// modules that `/etc/nsswitch.conf` names may be made for another C library. Changes nothing
/// elsewhere. Call it before the first lookup.
pub fn limit_to_built_in() {
    crate::sys::lookups::limit_to_built_in();
}
