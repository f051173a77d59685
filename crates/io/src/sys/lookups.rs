//! Lookups of names by the C library.

/// Limits lookups of hosts and accounts to the databases that a statically linked C library
/// contains.
#[cfg(all(target_env = "gnu", target_feature = "crt-static"))]
pub(crate) fn limit_to_built_in() {
    use std::ffi::{CStr, c_char, c_int};

    // SAFETY: glibc has had this function with these types since 1996 (`nss.h`).
    unsafe extern "C" {
        fn __nss_configure_lookup(database: *const c_char, services: *const c_char) -> c_int;
    }

    let limits: [(&CStr, &CStr); 2] = [(c"hosts", c"files dns"), (c"passwd", c"files")];
    for (database, services) in limits {
        // SAFETY: both arguments are constant strings with a zero byte at the end, and the library
        // copies what it keeps. It takes a lock, so that other threads may look up names at the
        // same time.
        let outcome = unsafe { __nss_configure_lookup(database.as_ptr(), services.as_ptr()) };
        debug_assert_eq!(outcome, 0, "the library knows both databases");
    }
}

/// Does nothing: a shared C library loads the modules that are made for it.
#[cfg(not(all(target_env = "gnu", target_feature = "crt-static")))]
pub(crate) fn limit_to_built_in() {}
