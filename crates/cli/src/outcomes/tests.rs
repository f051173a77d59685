//! Tests of outcomes without a reader of the output.

use std::io;

use super::*;

/// Stdout whose reader has closed the pipe.
struct Closed;

impl Write for Closed {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Err(io::ErrorKind::BrokenPipe.into())
    }
}

#[test]
fn a_closed_pipe_does_not_hide_a_failure() {
    let mut outcomes = Outcomes::new(FormatArgs { format: Format::Json });
    outcomes.fail(("topic", "t"), Failure::new("refused"));
    let ended = outcomes.end(&mut Closed);
    assert!(matches!(ended, Err(Failure::Told)), "exit code 1: {ended:?}");
    let asked = [Err::<(), _>(Failure::new("refused"))].into_iter();
    let as_json = |out: &mut dyn Write, all: &[()]| output::json(out, &all);
    let ended = output::descriptions(&mut Closed, Format::Json, asked, as_json, |(), _| Ok(()));
    assert!(matches!(ended, Err(Failure::Told)), "exit code 1: {ended:?}");
}
