//! Figures in the documentation, compared with records. Hidden commands of the program generate
//! these pages.

pub mod claims;
pub mod copying;
pub mod goals;
