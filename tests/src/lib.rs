//! Support for the black-box tests.
