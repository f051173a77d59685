//! What the documentation says about figures, held against records: hidden commands of the program write these pages.

pub mod claims;
pub mod goals;
