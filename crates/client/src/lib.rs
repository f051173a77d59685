//! A blocking client of Kafka's protocol, which outlasts restarts of brokers: it finds leaders and
//! coordinators, logs in by TLS and SASL, reads each record once, and stores each record once.
//!
//! ```text
//!   Member      Fetcher       Producer      groups, records in, records out
//!      │           │          │      │
//!  committed       │          │   Outage     what to do after a failure
//!      │           │          │      │
//!      └───────────┴─ Cluster ┴──────┘      leaders, coordinators, offsets by time
//!                       │
//!                     Login                 TLS and SASL, by Kafka's client properties
//!                       │
//!                  Connection               one socket: versions, requests, responses
//! ```
//!
//! | room | holds | uses |
//! |---|---|---|
//! | [`connection`] | [`Connection`] to one broker | |
//! | [`properties`] | names and values of Kafka's client properties | |
//! | [`login`] | [`Login`]: encrypted and authenticated connections | `connection`, `properties` |
//! | [`refusal`] | [`Refusal`]: an error code, and the [`Operation`] that it refuses | |
//! | [`error`] | [`ClientError`], and its [`Cause`], by which callers retry | `login`, `refusal` |
//! | [`health`] | problems of a cluster, in one wording | `error` |
//! | [`notice`] | [`Watch`] and [`Notice`]: events for people, and requests to stop | |
//! | [`cluster`] | [`Cluster`]: the brokers, by leader and coordinator | `error` |
//! | [`outage`] | [`Outage`]: pauses, limits and new connections after a failure | `cluster`, `notice` |
//! | [`committed`] | committed offsets of groups | `cluster` |
//! | [`member`] | [`Member`] of a group of KIP-848 | `committed` |
//! | [`fetcher`] | [`Fetcher`]: records of partitions, in order | `cluster`, `notice` |
//! | [`member_counts`] | numbers of members of many groups | |
//! | [`share_offsets`] | start offsets of share groups | `cluster` |
//! | [`share`] | [`ShareMember`] of a share group: records and their acknowledgements | `fetcher` |
//! | [`producer`] | [`Producer`]: batches, acknowledgements, repetitions | `outage` |
//!
//! Functions that send a request block until its response, at most for the timeout of the
//! [`ConnectionOptions`] per read or write. Nothing runs in the background: a caller calls
//! [`Member::beat`] and [`Producer::tend`] often enough. Nothing is printed. Durations in names end
//! in their unit, offsets are Kafka's, and times are in milliseconds since 1970.
//!
//! ```no_run
//! use std::borrow::Cow;
//!
//! use levada_client::{Cluster, ConnectionOptions, Led, Login, Producer, ProducerOptions, Record, Unwatched};
//!
//! # fn main() -> Result<(), levada_client::ClientError> {
//! let mut cluster = Cluster::connect("localhost:9092", Login::default(), ConnectionOptions::default())?;
//! let clicks = cluster.topic("clicks", true, Led::Every)?;
//! let mut producer = Producer::new(cluster, clicks, ProducerOptions::default(), &Unwatched)?;
//! for number in 1..=3 {
//!     let value = Some(Cow::Borrowed(&b"login"[..]));
//!     producer.push(&Record { value, ..Record::default() }, number)?;
//! }
//! producer.finish()?;
//! assert_eq!(producer.acknowledged_records(), 3);
//! # Ok(())
//! # }
//! ```

pub mod cluster;
pub mod committed;
pub mod connection;
pub mod error;
#[cfg(any(test, feature = "testing"))]
pub mod fake_broker;
pub mod fetcher;
pub mod health;
pub mod login;
pub mod member;
pub mod member_counts;
pub mod notice;
pub mod outage;
pub mod producer;
pub mod properties;
pub mod refusal;
pub mod share;
pub mod share_offsets;

pub use self::cluster::{
    Cluster, EARLIEST, EARLIEST_LOCAL, FoundOffset, Isolation, LATEST, LATEST_TIERED, Led, MAX_TIMESTAMP,
    NO_LEADER, OffsetQuery, Topic, TopicPartition,
};
pub use self::connection::{Channel, Connection, ConnectionError, ConnectionOptions, OfferedVersions};
pub use self::error::{Cause, Caused, ClientError};
pub use self::fetcher::{FetchedRecord, Fetcher, Offsets, Sink, Topics};
pub use self::health::ControllersProblem;
pub use self::login::{Login, LoginError, SettingsError};
pub use self::member::Member;
pub use self::notice::{BatchLabel, Notice, Unwatched, Watch};
pub use self::outage::Outage;
pub use self::producer::{Acks, Producer, ProducerOptions, Record};
pub use self::refusal::{Coordinated, Operation, Refusal};
pub use self::share::{Acknowledgement, AcquiredRecord, ShareMember};
