//! Manners that the programs `levada` and `levada-lab` share on a terminal: results go to stdout as
//! tables or JSON, messages go to stderr, and a command ends with a [`Failure`](failure::Failure)
//! that names the problem, the next step and the exit code. Text of other parties never steers the
//! terminal.
//!
//! | room | holds | uses |
//! |---|---|---|
//! | [`escapes`] | text made harmless for a terminal | |
//! | [`colour`] | colours, where the terminal has them | |
//! | [`stderr`] | messages | `escapes` |
//! | [`failure`] | why a command failed, with its exit code | `colour`, `stderr` |
//! | [`kafka_error`] | meaning of Kafka's error codes, and the next step | `failure` |
//! | `client_error` | errors of the client as failures | `kafka_error` |
//! | [`output`] | tables and JSON on stdout | all of the above |
//! | [`lab`] | the arguments of `levada lab`, which both programs read | `output` |

mod client_error;
pub mod colour;
pub mod escapes;
pub mod failure;
pub mod kafka_error;
#[allow(missing_docs, reason = "doc comments are the text of --help, and would be shown twice")]
pub mod lab;
pub mod output;
pub mod stderr;

/// Prints a line on stderr, as `eprintln!` does, but without a panic if nothing reads it.
#[macro_export]
macro_rules! tell {
    ($($message:tt)*) => { $crate::stderr::tell(format_args!($($message)*)) };
}
