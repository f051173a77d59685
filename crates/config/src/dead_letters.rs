//! Configuration of dead letter queues: `errors.deadletterqueue.*`.

use super::reader::Reader;
use super::table::{DEAD_LETTER_TOPIC_PREFIX, DEAD_LETTER_TOPICS_CREATED};

/// Dead letter topics of share groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetterConfig {
    /// `errors.deadletterqueue.auto.create.topics.enable`.
    pub creates_topics: bool,
    /// `errors.deadletterqueue.topic.name.prefix`.
    pub prefix: String,
}

impl Reader<'_> {
    pub(crate) fn dead_letters(&self) -> DeadLetterConfig {
        DeadLetterConfig {
            creates_topics: self.is_true(DEAD_LETTER_TOPICS_CREATED),
            prefix: self.text(DEAD_LETTER_TOPIC_PREFIX).to_owned(),
        }
    }
}
