//! Messages on stderr about events in the client, and signals that end its waits.

use levada_client::{BatchLabel, ClientError, Notice, Watch};
use levada_terminal::failure::Failure;
use levada_terminal::output::{counted, stdout_is_closed};

use crate::interrupt;

/// Reports to the terminal until a signal arrives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reporter;

/// Like [`Reporter`], but also ends once nothing reads the output.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutputReporter;

impl Watch<Failure> for Reporter {
    fn is_asked_to_stop(&self) -> bool {
        interrupt::is_asked()
    }

    fn notice(&self, notice: Notice<'_, Failure>) {
        report(notice, |failure| failure.line().to_owned());
    }
}

impl Watch<ClientError> for Reporter {
    fn is_asked_to_stop(&self) -> bool {
        interrupt::is_asked()
    }

    fn notice(&self, notice: Notice<'_, ClientError>) {
        report(notice, |error| Failure::from(error).line().to_owned());
    }
}

impl Watch<Failure> for OutputReporter {
    fn is_asked_to_stop(&self) -> bool {
        interrupt::is_asked() || stdout_is_closed()
    }

    fn notice(&self, notice: Notice<'_, Failure>) {
        Reporter.notice(notice);
    }
}

/// Prints a notice; `line` is the text of an error.
fn report<E>(notice: Notice<'_, E>, line: impl Fn(&E) -> String) {
    match notice {
        Notice::Lost(error) => tell!("{}; connecting again", line(error)),
        Notice::Refused(error) => tell!("{}; trying again", line(error)),
        Notice::Connected => tell!("connected again"),
        Notice::Waits { batch, error } => tell!("{}; trying again: {}", line(error), records(batch)),
        Notice::NotAcknowledged { batch, is_in_doubt } => {
            let doubt = if is_in_doubt { "; the broker may have stored them anyway" } else { "" };
            tell!("not acknowledged: {} for {}/{}{doubt}", records(batch), batch.topic, batch.partition);
        }
        Notice::NotSent { batch } => {
            tell!("not sent: {} for {}/{}", records(batch), batch.topic, batch.partition);
        }
        Notice::Deleted { place: (topic, partition), position, start } => tell!(
            "{topic}/{partition}: offsets {position} to {} are deleted; reading continues at {start}",
            start - 1
        ),
        Notice::Beyond { place: (topic, partition), position, end } => tell!(
            "{topic}/{partition}: the log ends at {end}, before the reached offset {position}; reading continues at {end}"
        ),
        Notice::Shortened { place: (topic, partition), end } => {
            tell!("{topic}/{partition}: the log has become shorter, and ends at {end}");
        }
    }
}

/// Text with the number of records, and their lines.
fn records(batch: &BatchLabel) -> String {
    let records = counted(batch.records, "record", "records");
    match (batch.first, batch.last) {
        (first, last) if first == last => format!("{records} (line {first})"),
        (first, last) => format!("{records} (lines {first} to {last})"),
    }
}
