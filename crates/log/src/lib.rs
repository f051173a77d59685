//! A partition on disk.
