//! The replicas that a throttle covers: `leader.replication.throttled.replicas` and
//! `follower.replication.throttled.replicas` of a topic.

use super::words::words;

/// Replicas of one topic whose traffic is throttled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThrottledReplicas(Which);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Which {
    All,
    /// The listed partitions and brokers, in ascending order.
    Some(Box<[(i32, i32)]>),
}

impl Default for Which {
    fn default() -> Self {
        Self::Some(Box::default())
    }
}

impl ThrottledReplicas {
    /// The replicas of a value: `*`, or `PARTITION:BROKER,…`; none if it is neither.
    pub(super) fn parse(value: &str) -> Option<Self> {
        if value.trim() == "*" {
            return Some(Self(Which::All));
        }
        let number =
            |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?;
        let replica = |word: &str| word.split_once(':').map(|(one, other)| (number(one), number(other)));
        let replicas: Option<Vec<_>> = words(value).map(|word| replica(word).and_then(both)).collect();
        let mut replicas = replicas?;
        replicas.sort_unstable();
        Some(Self(Which::Some(replicas.into())))
    }

    /// True if the throttle covers the replica of a partition on this broker.
    pub fn covers(&self, partition: i32, broker: i32) -> bool {
        match &self.0 {
            Which::All => true,
            Which::Some(replicas) => replicas.binary_search(&(partition, broker)).is_ok(),
        }
    }
}

fn both((partition, broker): (Option<i32>, Option<i32>)) -> Option<(i32, i32)> {
    partition.zip(broker)
}

#[cfg(test)]
mod tests {
    use super::ThrottledReplicas;

    #[test]
    fn replicas_are_listed_or_all() {
        let parse = ThrottledReplicas::parse;
        let listed = parse("1:101, 0:102,10:101").unwrap();
        for (partition, broker, expected) in
            [(1, 101, true), (10, 101, true), (0, 101, false), (0, 102, true), (2, 101, false)]
        {
            assert_eq!(listed.covers(partition, broker), expected, "{partition}:{broker}");
        }
        assert!(parse(" * ").unwrap().covers(7, 3));
        assert!(!parse("").unwrap().covers(0, 1));
    }

    #[test]
    fn malformed_throttled_replicas_are_refused() {
        for value in ["1", "1:", ":1", "1:2:3", "*,1:2", "-1:2", "+1:2", "a:b", "99999999999:1"] {
            assert_eq!(ThrottledReplicas::parse(value), None, "{value}");
        }
    }
}
