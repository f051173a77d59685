//! The leader of the metadata topic, to which the brokers of a history connect.

use std::sync::Arc;

use levada_base::batch::records;
use levada_client::fake_broker::{Asked, FakeBroker};
use levada_tiered::record::decode;
use levada_wire::ApiKey;
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::fetch_response::{FetchableTopicResponse, PartitionData};
use levada_wire::messages::list_offsets_response::{ListOffsetsPartitionResponse, ListOffsetsTopicResponse};
use levada_wire::messages::produce_response::{PartitionProduceResponse, TopicProduceResponse};
use levada_wire::messages::{
    FetchRequest, FetchResponse, ListOffsetsRequest, ListOffsetsResponse, ProduceRequest, ProduceResponse,
};
use parking_lot::Mutex;

use super::world::{Answer, World};

/// A listener for the histories of one thread, one after the other: each listener lasts until the
/// end of the process.
pub(super) struct Board {
    fake: FakeBroker,
    world: Arc<Mutex<Option<Arc<World>>>>,
}

impl Board {
    pub(super) fn start() -> Self {
        let world = Arc::new(Mutex::new(None::<Arc<World>>));
        let current = world.clone();
        let fake = FakeBroker::start(move |asked| {
            let world = current.lock().clone()?;
            match asked.header.api {
                ApiKey::Produce => produced(asked, &world),
                ApiKey::Fetch => asked.answer(&fetched(&asked.decoded(), &world)),
                ApiKey::ListOffsets => asked.answer(&ended(&asked.decoded(), &world)),
                _ => None,
            }
        });
        Self { fake, world }
    }

    /// Requests are those of another history from now on.
    pub(super) fn serve(&self, world: &Arc<World>) {
        *self.world.lock() = Some(world.clone());
    }

    pub(super) fn port(&self) -> u16 {
        self.fake.address().rsplit(':').next().unwrap().parse().unwrap()
    }
}

/// Appends the only record of a request. A process that has ended gets no answer.
fn produced(asked: &Asked, world: &World) -> Option<bytes::Bytes> {
    let request = asked.decoded::<ProduceRequest>();
    let batch = request.topic_data[0].partition_data[0].records.clone().unwrap();
    let record = records(&batch).unwrap().next().unwrap().unwrap();
    let offset = world.records() as i64;
    let answer = world.append(decode(record.value.unwrap()).unwrap())?;
    let mut partition = PartitionProduceResponse::default();
    (partition.base_offset, partition.error_code) = match answer {
        Answer::Done => (offset, 0),
        Answer::Refused => (-1, ErrorCode::NotLeaderOrFollower.code()),
        Answer::Lost => (-1, ErrorCode::RequestTimedOut.code()),
    };
    let mut topic = TopicProduceResponse::default();
    (topic.name, topic.partition_responses) = (request.topic_data[0].name.clone(), vec![partition]);
    let mut response = ProduceResponse::default();
    response.responses = vec![topic];
    asked.answer(&response)
}

fn fetched(request: &FetchRequest, world: &World) -> FetchResponse {
    let asked = &request.topics[0];
    let wanted = &asked.partitions[0];
    let mut partition = PartitionData::default();
    match world.diverging(wanted.last_fetched_epoch, wanted.fetch_offset) {
        Some((epoch, end)) => {
            (partition.diverging_epoch.epoch, partition.diverging_epoch.end_offset) = (epoch, end);
        }
        None => {
            let (batches, end) = world.read(wanted.fetch_offset);
            (partition.records, partition.high_watermark) = (Some(batches), end);
        }
    }
    let mut topic = FetchableTopicResponse::default();
    (topic.topic_id, topic.partitions) = (asked.topic_id, vec![partition]);
    let mut response = FetchResponse::default();
    response.responses = vec![topic];
    response
}

fn ended(request: &ListOffsetsRequest, world: &World) -> ListOffsetsResponse {
    let mut partition = ListOffsetsPartitionResponse::default();
    partition.offset = world.told_end();
    let mut topic = ListOffsetsTopicResponse::default();
    (topic.name, topic.partitions) = (request.topics[0].name.clone(), vec![partition]);
    let mut response = ListOffsetsResponse::default();
    response.topics = vec![topic];
    response
}
