//! The metadata log on a real disk.
