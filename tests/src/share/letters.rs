//! Dead letters of a share group as the console consumer prints them, and a group that has
//! completed all records.

use crate::await_some;
use crate::cluster::{LIMIT, Tools};

/// Configuration of a topic that takes dead letters.
pub const ALLOWED: &str = "errors.deadletterqueue.group.enable=true";
/// Number of deliveries of a record, and the text about its end.
pub type Reason = (u32, &'static str);
/// A member has rejected the record when it was delivered first.
pub const REJECTED: Reason = (1, "Offset rejected by client.");
/// The record was delivered twice, and the group allows no more.
pub const EXCEEDED: Reason = (2, "Offset delivery count exceeded the threshold.");

/// Waits for this number of dead letters in a topic. Each is a line: partition, headers, key and
/// value; in order of the lines.
pub fn letters(tools: &mut Tools, queue: &str, count: usize) -> Vec<String> {
    let said = tools.run(&format!(
        "ConsoleConsumer --from-beginning --timeout-ms 60000 --max-messages {count} --topic {queue} \
         --formatter-property print.partition=true --formatter-property print.headers=true \
         --formatter-property print.key=true"
    ));
    let lines = said.lines().filter(|line| line.contains("__dlq.errors")).map(str::to_owned);
    let mut letters: Vec<String> = lines.collect();
    letters.sort_unstable();
    assert_eq!(letters.len(), count, "{said}");
    letters
}

/// The line of a letter in this partition of the queue: of the record at a place (partition and
/// offset) of topic `t`, for group `g`.
pub fn letter(partition: u32, place: (u32, u32), reason: Reason, copy: &str) -> String {
    let ((source, offset), (count, text)) = (place, reason);
    format!(
        "Partition:{partition}\t__dlq.errors.topic:t,__dlq.errors.partition:{source},\
         __dlq.errors.offset:{offset},__dlq.errors.group:g,__dlq.errors.delivery.count:{count},\
         __dlq.errors.message:{text}\t{copy}"
    )
}

/// Waits until group `g` has completed all records.
pub fn await_no_lag(tools: &mut Tools) {
    await_some("a group without lag", LIMIT, || {
        let said = tools.run("ShareGroupCommand --describe --group g");
        let mut lags = said.lines().filter(|line| line.starts_with("g ")).peekable();
        (lags.peek().is_some() && lags.all(|line| line.ends_with(" 0"))).then_some(())
    });
}
