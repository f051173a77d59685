//! `levada lab`: runs the laboratory, a separate program in the same directory, after the arguments
//! have been checked.

use std::io::ErrorKind;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use levada_terminal::failure::Failure;

/// Replaces this process by the laboratory; returns only if that fails.
pub(crate) fn run() -> Failure {
    let program = match std::env::current_exe() {
        Ok(this) => this.with_file_name("levada-lab"),
        Err(error) => return Failure::new(format!("cannot find the file of this program: {error}")),
    };
    let error = Command::new(&program).args(std::env::args_os().skip(2)).exec();
    let what = format!("cannot run the laboratory, {}: {error}", program.display());
    match error.kind() {
        ErrorKind::NotFound => Failure::with_next(
            what,
            "`cargo build --release` in a clone makes levada and levada-lab; packages have both: install them together",
        ),
        _ => Failure::new(what),
    }
}
