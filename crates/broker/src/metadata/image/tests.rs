//! Images made of records.
