//! The partition for the dead letters of an entry.

use std::sync::Arc;

use levada_config::DeadLetterConfig;
use levada_metadata::image::{ConfigResource, Image};
use levada_wire::Uuid;

use super::fault::Fault;
use crate::broker::Broker;
use crate::replica::log_config::topic_config;
use crate::share_partitions::ShareEntry;

/// Beginning of names of topics that only brokers write to.
const INTERNAL_PREFIX: &str = "__";

/// The partition for the dead letters of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Destination {
    pub(super) topic: String,
    pub(super) topic_id: Uuid,
    pub(super) partition: i32,
    /// Node that leads the partition.
    pub(super) leader: i32,
    /// Largest batch of the topic.
    pub(super) max_bytes: usize,
    /// Dead letters have the key and the value of their record.
    pub(super) copies: bool,
}

impl Destination {
    /// The partition. Has the topic created if it does not exist and brokers may create it.
    ///
    /// # Errors
    /// The topic is missing, has no leader, or does not allow dead letters of this group.
    pub(super) async fn find(broker: &Arc<Broker>, entry: &ShareEntry) -> Result<Self, Fault> {
        let group = broker.share_partitions().group(entry.group());
        let name = group.settings.dead_letter_topic.as_deref();
        let name = name.ok_or_else(|| Fault::NoTopic(entry.group().to_string()))?;
        let config = broker.config().dead_letters.clone();
        check_name(name, entry.partition().topic(), &config)?;
        if broker.metadata().image().topic(name).is_none() {
            if !config.creates_topics {
                return Err(Fault::Missing(name.to_owned()));
            }
            let created = broker.controller().create_dead_letter_topic(name).await;
            created.map_err(|failure| Fault::Refused(failure.code))?;
        }
        let copies = group.settings.dead_letter_copies;
        Self::in_image(broker, &broker.metadata().image(), (name, entry.key().1), copies)
    }

    fn in_image(
        broker: &Broker,
        image: &Image,
        (name, index): (&str, i32),
        copies: bool,
    ) -> Result<Self, Fault> {
        let topic = image.topic(name).ok_or_else(|| Fault::BeingCreated(name.to_owned()))?;
        let own = image.configs(&ConfigResource::topic(name));
        let config = topic_config(&broker.config(), name, own.map(|own| &**own));
        if !config.takes_dead_letters {
            return Err(Fault::NotEnabled(name.to_owned()));
        }
        let count = i32::try_from(topic.partition_count()).unwrap_or(i32::MAX).max(1);
        let partition = index % count;
        let leaderless = || Fault::Leaderless(name.to_owned(), partition);
        let registered = topic.partition(partition).filter(|found| found.has_leader());
        Ok(Self {
            topic: name.to_owned(),
            topic_id: topic.id(),
            partition,
            leader: registered.ok_or_else(leaderless)?.leader,
            max_bytes: usize::try_from(config.max_message_bytes).unwrap_or(usize::MAX),
            copies,
        })
    }
}

/// Checks the name of a topic for dead letters of records in another one.
fn check_name(name: &str, source: &str, config: &DeadLetterConfig) -> Result<(), Fault> {
    if name.starts_with(INTERNAL_PREFIX) {
        return Err(Fault::Internal { topic: name.to_owned(), prefix: INTERNAL_PREFIX });
    }
    if !name.starts_with(&config.prefix) {
        return Err(Fault::Name { topic: name.to_owned(), prefix: config.prefix.clone() });
    }
    if name == source {
        return Err(Fault::OwnTopic(name.to_owned()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dead_letter_topic_names_are_checked() {
        let cases = [
            ("dlq.orders", "orders", "dlq.", true),
            ("dlq.", "orders", "dlq.", true),
            ("orders-dlq", "orders", "dlq.", false),
            ("orders-dlq", "orders", "", true),
            ("__dlq", "orders", "", false),
            ("__dlq", "orders", "__", false),
            ("dlq.orders", "dlq.orders", "dlq.", false),
            ("dlq.orders", "dlq.others", "dlq.", true),
        ];
        for (name, source, prefix, is_valid) in cases {
            let config = DeadLetterConfig { creates_topics: false, prefix: prefix.to_owned() };
            assert_eq!(check_name(name, source, &config).is_ok(), is_valid, "{name} of {source}: {prefix}");
        }
    }
}
