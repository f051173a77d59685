//! Differences of images, against a model of what a broker has acted on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use levada_metadata::image::{Position, QuotaEntity, QuotaLimits, Topic};
use levada_metadata::records::{
    ClientQuotaRecord, ConfigRecord, PartitionChangeRecord, PartitionRecord, Record, RemoveTopicRecord,
    TopicRecord,
};
use levada_testing::scaled;
use proptest::prelude::*;

use super::*;
use crate::replica::Leadership;

const NODE: i32 = 1;

/// One change of the metadata; names are few, so that they come again.
#[derive(Clone, Debug)]
enum Operation {
    /// Creates a topic; each item is a partition, true if this node has a replica.
    Create(u8, Vec<bool>),
    Delete(u8),
    Grow(u8, Vec<bool>),
    /// Gives each partition of a topic a leader, in a new epoch.
    Elect(u8, i32),
    /// Gives one partition of a topic other replicas; true if this node is among them.
    Reassign(u8, i32, bool),
    Configure(ResourceKind, u8, Option<u8>),
    Limit(u8, Option<u8>),
}

fn operation() -> impl Strategy<Value = Operation> {
    let replicas = || prop::collection::vec(any::<bool>(), 1..4);
    let kinds = [ResourceKind::Topic, ResourceKind::Broker, ResourceKind::Group, ResourceKind::ClientMetrics];
    prop_oneof![
        3 => (0..3_u8, replicas()).prop_map(|(name, ours)| Operation::Create(name, ours)),
        2 => (0..3_u8).prop_map(Operation::Delete),
        2 => (0..3_u8, replicas()).prop_map(|(name, ours)| Operation::Grow(name, ours)),
        2 => (0..3_u8, -1..3_i32).prop_map(|(name, leader)| Operation::Elect(name, leader)),
        3 => (0..3_u8, 0..3, any::<bool>())
            .prop_map(|(name, index, is_ours)| Operation::Reassign(name, index, is_ours)),
        4 => (prop::sample::select(kinds.to_vec()), 0..3_u8, prop::option::of(0..2_u8))
            .prop_map(|(kind, name, value)| Operation::Configure(kind, name, value)),
        1 => (0..2_u8, prop::option::of(0..2_u8)).prop_map(|(user, limit)| Operation::Limit(user, limit)),
    ]
}

fn topic_name(name: u8) -> String {
    format!("topic-{name}")
}

/// The resource of that number; brokers are the default of all, this one and another one.
fn resource(kind: ResourceKind, name: u8) -> ConfigResource {
    match (kind, name) {
        (ResourceKind::Topic, name) => ConfigResource::topic(topic_name(name)),
        (ResourceKind::Broker, 0) => ConfigResource::all_brokers(),
        (ResourceKind::Broker, name) => ConfigResource::broker(i32::from(name)),
        (kind, name) => ConfigResource { kind, name: name.to_string() },
    }
}

fn replicas(is_ours: bool) -> Vec<i32> {
    if is_ours { vec![2, NODE] } else { vec![2] }
}

/// The operation's records; none if the image does not allow it.
fn records(image: &Image, operation: &Operation) -> Vec<Record> {
    let partitions = |topic_id, first: usize, ours: &[bool]| -> Vec<Record> {
        let of = |(at, is_ours): (usize, &bool)| PartitionRecord {
            topic_id,
            partition_id: (first + at) as i32,
            replicas: replicas(*is_ours),
            ..PartitionRecord::default()
        };
        ours.iter().enumerate().map(|one| of(one).into()).collect()
    };
    match operation {
        Operation::Create(name, ours) if image.topic(&topic_name(*name)).is_none() => {
            let topic_id = Uuid::from_bytes([(image.offset() + 2) as u8; 16]);
            let topic = TopicRecord { name: topic_name(*name), topic_id };
            [vec![topic.into()], partitions(topic_id, 0, ours)].concat()
        }
        Operation::Create(..) => Vec::new(),
        Operation::Delete(name) => {
            let topic = image.topic(&topic_name(*name));
            topic.map(|topic| RemoveTopicRecord { topic_id: topic.id() }.into()).into_iter().collect()
        }
        Operation::Grow(name, ours) => image
            .topic(&topic_name(*name))
            .map_or_else(Vec::new, |topic| partitions(topic.id(), topic.partition_count(), ours)),
        Operation::Elect(name, leader) => {
            let topic = image.topic(&topic_name(*name)).into_iter();
            let change = |topic_id, partition_id| PartitionChangeRecord {
                topic_id,
                partition_id,
                leader: *leader,
                ..PartitionChangeRecord::default()
            };
            let of = |topic: &Arc<Topic>| -> Vec<Record> {
                topic.partitions().map(|(index, _)| change(topic.id(), index).into()).collect()
            };
            topic.flat_map(of).collect()
        }
        Operation::Reassign(name, index, is_ours) => {
            let topic = image.topic(&topic_name(*name));
            let topic = topic.filter(|topic| topic.partition(*index).is_some());
            let change = |topic: &Arc<Topic>| PartitionChangeRecord {
                topic_id: topic.id(),
                partition_id: *index,
                replicas: Some(replicas(*is_ours)),
                ..PartitionChangeRecord::default()
            };
            topic.map(change).map(Record::from).into_iter().collect()
        }
        Operation::Configure(ResourceKind::Topic, name, _) if image.topic(&topic_name(*name)).is_none() => {
            Vec::new()
        }
        Operation::Configure(kind, name, value) => vec![set(&resource(*kind, *name), *value)],
        Operation::Limit(user, limit) => {
            let record = ClientQuotaRecord {
                entity: vec![("user".to_owned(), Some(user.to_string()))],
                key: "request_percentage".to_owned(),
                value: limit.unwrap_or_default().into(),
                remove: limit.is_none(),
            };
            vec![record.into()]
        }
    }
}

fn set(resource: &ConfigResource, value: Option<u8>) -> Record {
    let record = ConfigRecord {
        resource_type: resource.kind.id(),
        resource_name: resource.name.clone(),
        name: "key".to_owned(),
        value: value.map(|value| value.to_string()),
    };
    record.into()
}

/// The images after each operation.
fn images(operations: &[Operation]) -> Vec<Image> {
    let mut images = vec![Image::empty()];
    for operation in operations {
        let before = images.last().unwrap();
        images.push(after(before, &records(before, operation)));
    }
    images
}

fn after(image: &Image, records: &[Record]) -> Image {
    let mut next = image.clone();
    for record in records {
        let position = Position { offset: next.offset() + 1, ..Position::default() };
        next.apply(record, position).unwrap();
    }
    next
}

type Values = BTreeMap<String, String>;

/// All that a broker has acted on.
#[derive(Clone, Debug, Default, PartialEq)]
struct Model {
    served: BTreeMap<(Uuid, i32), Option<Values>>,
    led: BTreeMap<(Uuid, i32), Leadership>,
    broker: [Option<Values>; 2],
    groups: BTreeMap<String, Values>,
    subscriptions: BTreeMap<String, Values>,
    quotas: Vec<(QuotaEntity, QuotaLimits)>,
    announced: BTreeMap<String, (Uuid, usize)>,
}

/// Settings of the resources of a kind.
fn of_kind(image: &Image, kind: ResourceKind) -> BTreeMap<String, Values> {
    let all = image.config_resources().filter(|(one, _)| one.kind == kind);
    all.map(|(one, values)| (one.name.clone(), values.clone())).collect()
}

impl Model {
    /// The state of a broker that starts with this image.
    fn of(image: &Image) -> Self {
        let mut model = Self::default();
        let all: Vec<Uuid> = image.topics().iter().map(|topic| topic.id()).collect();
        for change in [
            Change::BrokerConfig,
            Change::GroupConfigs,
            Change::ClientMetrics,
            Change::Quotas,
            Change::Serve(all),
            Change::Topics,
        ] {
            model.apply(&change, image);
        }
        model
    }

    fn apply(&mut self, change: &Change, image: &Image) {
        let configs = |resource| image.configs(&resource).map(|values| (**values).clone());
        let topic_config = |id| configs(ConfigResource::topic(&**image.topic_by_id(id).unwrap().name()));
        match change {
            Change::Delete(topics) => {
                let gone =
                    topics.iter().flat_map(|topic| topic.partitions.iter().map(|index| (topic.id, *index)));
                gone.for_each(|key| {
                    self.served.remove(&key);
                    self.led.remove(&key);
                });
            }
            Change::Stop(replicas) => replicas.iter().for_each(|key| {
                assert!(self.served.remove(key).is_some(), "{key:?} is not served");
                self.led.remove(key);
            }),
            Change::BrokerConfig => {
                self.broker = [ConfigResource::broker(NODE), ConfigResource::all_brokers()].map(configs);
            }
            Change::GroupConfigs => self.groups = of_kind(image, ResourceKind::Group),
            Change::ClientMetrics => self.subscriptions = of_kind(image, ResourceKind::ClientMetrics),
            Change::Quotas => {
                self.quotas =
                    image.quotas().iter().map(|(one, limits)| (one.clone(), limits.clone())).collect();
            }
            Change::Lead(partitions) => {
                let led =
                    partitions.iter().map(|(id, index)| ((*id, *index), leadership(image, *id, *index)));
                self.led.extend(led);
            }
            Change::Serve(topics) => {
                for id in topics {
                    let partitions = image.topic_by_id(*id).unwrap().partitions();
                    let ours = partitions.filter(|(_, partition)| partition.replicas.contains(&NODE));
                    for (index, _) in ours {
                        // One that is served already keeps its configuration.
                        self.served.entry((*id, index)).or_insert_with(|| topic_config(*id));
                        self.led.entry((*id, index)).or_insert_with(|| leadership(image, *id, index));
                    }
                }
            }
            Change::TopicConfigs(topics) => {
                for ((id, _), config) in self.served.iter_mut().filter(|((id, _), _)| topics.contains(id)) {
                    *config = topic_config(*id);
                }
            }
            Change::Topics => {
                let topics = image.topics().iter();
                let told =
                    topics.map(|topic| (topic.name().to_string(), (topic.id(), topic.partition_count())));
                self.announced = told.collect();
            }
        }
    }
}

fn leadership(image: &Image, topic: Uuid, index: i32) -> Leadership {
    Leadership::of(image.topic_by_id(topic).unwrap().partition(index).unwrap(), NODE)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(scaled(200)))]

    /// Any images may be left out: the broker ends in the state of the last one.
    #[test]
    fn image_differences_reproduce_any_later_image(
        operations in prop::collection::vec(operation(), 0..12),
    ) {
        let images = images(&operations);
        for (at, from) in images.iter().enumerate() {
            prop_assert_eq!(diff(from, from, NODE), []);
            for to in &images[at..] {
                let mut model = Model::of(from);
                diff(from, to, NODE).iter().for_each(|change| model.apply(change, to));
                prop_assert_eq!(model, Model::of(to));
            }
        }
    }

    /// Each kind of change comes once and in order, and none for what is as it was.
    #[test]
    fn differences_name_only_what_has_changed(
        operations in prop::collection::vec(operation(), 0..12),
    ) {
        let images = images(&operations);
        for (from, to) in images.iter().zip(&images[1..]) {
            let (before, after) = (Model::of(from), Model::of(to));
            let changes = diff(from, to, NODE);
            let order: BTreeSet<usize> = changes.iter().map(place).collect();
            prop_assert_eq!(changes.iter().map(place).collect::<Vec<_>>(), Vec::from_iter(order.clone()));
            prop_assert_eq!(order.contains(&place(&Change::Quotas)), before.quotas != after.quotas);
            prop_assert_eq!(order.contains(&place(&Change::GroupConfigs)), before.groups != after.groups);
            prop_assert_eq!(order.contains(&place(&Change::Topics)), before.announced != after.announced);
        }
        // The same image made again shares nothing with the first, and only a broker looks at its
        // files again.
        let (last, again) = (images.last().unwrap(), self::images(&operations).pop().unwrap());
        let repeated = diff(last, &again, NODE);
        prop_assert!(repeated.iter().all(|change| *change == Change::BrokerConfig), "{:?}", repeated);
    }
}

/// The place of a change among the others.
fn place(change: &Change) -> usize {
    match change {
        Change::Delete(_) => 0,
        Change::Stop(_) => 1,
        Change::BrokerConfig => 2,
        Change::GroupConfigs => 3,
        Change::ClientMetrics => 4,
        Change::Quotas => 5,
        Change::Lead(_) => 6,
        Change::Serve(_) => 7,
        Change::TopicConfigs(_) => 8,
        Change::Topics => 9,
    }
}

#[test]
fn repeated_broker_setting_reloads_key_stores() {
    let own = ConfigResource::broker(NODE);
    let once = after(&Image::empty(), &[set(&own, Some(1))]);
    assert_eq!(diff(&once, &after(&once, &[set(&own, Some(1))]), NODE), [Change::BrokerConfig]);
    let other = ConfigResource::broker(NODE + 1);
    assert_eq!(diff(&once, &after(&once, &[set(&other, Some(1))]), NODE), []);
}

#[test]
fn recreated_topic_replaces_deleted_one() {
    let first = images(&[Operation::Create(0, vec![true, true])]).pop().unwrap();
    let former = first.topic("topic-0").unwrap().id();
    let gone = after(&first, &records(&first, &Operation::Delete(0)));
    let second = after(&gone, &records(&gone, &Operation::Create(0, vec![true])));
    let latter = second.topic("topic-0").unwrap().id();
    let deleted = DeletedTopic { id: former, name: "topic-0".to_owned(), partitions: vec![0, 1] };
    let expected = [Change::Delete(vec![deleted]), Change::Serve(vec![latter]), Change::Topics];
    assert_eq!(diff(&first, &second, NODE), expected);
}

#[test]
fn removed_replica_stops_and_added_one_serves() {
    let first = images(&[Operation::Create(0, vec![true, true])]).pop().unwrap();
    let topic = first.topic("topic-0").unwrap().id();
    let left = after(&first, &records(&first, &Operation::Reassign(0, 1, false)));
    assert_eq!(diff(&first, &left, NODE), [Change::Stop(vec![(topic, 1)])]);
    let back = after(&left, &records(&left, &Operation::Reassign(0, 1, true)));
    assert_eq!(diff(&left, &back, NODE), [Change::Serve(vec![topic])]);
    assert_eq!(diff(&first, &back, NODE), [Change::Lead(vec![(topic, 1)])], "it has its log all the time");
}
