//! Requests of share groups with any numbers in them.
//!
//! Soak: seed random, repeated

use levada_testing::{scaled, seeds};
use levada_wire::messages::{share_acknowledge_request, share_fetch_request};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;

/// Numbers that break arithmetic, and small ones.
fn number(random: &mut StdRng) -> i64 {
    match random.random_range(0..8) {
        0 => i64::MIN,
        1 => i64::MAX,
        2 => i64::from(i32::MAX),
        3 => -1,
        _ => random.random_range(0..12),
    }
}

fn int(random: &mut StdRng) -> i32 {
    number(random).clamp(i32::MIN.into(), i32::MAX.into()) as i32
}

fn types(random: &mut StdRng) -> Vec<i8> {
    (0..random.random_range(0..4)).map(|_| random.random_range(-1..6)).collect()
}

fn topic_id(random: &mut StdRng) -> Uuid {
    if random.random_range(0..6) == 0 { Uuid::from_bytes([9; 16]) } else { SHARED }
}

fn fetch(random: &mut StdRng, member: &Member<'_>) -> ShareFetchRequest {
    let mut request = member.request(&[], 0);
    let partition = |random: &mut StdRng| {
        let mut partition = share_fetch_request::FetchPartition::default();
        partition.partition_index = if random.random_range(0..4) == 0 { int(random) } else { 0 };
        let batches = (0..random.random_range(0..4)).map(|_| {
            let mut batch = share_fetch_request::AcknowledgementBatch::default();
            (batch.first_offset, batch.last_offset) = (number(random), number(random));
            batch.acknowledge_types = types(random);
            batch
        });
        partition.acknowledgement_batches = batches.collect();
        partition
    };
    request.topics[0].topic_id = topic_id(random);
    request.topics[0].partitions = (0..random.random_range(0..4)).map(|_| partition(random)).collect();
    if member.epoch == 0 {
        let partitions = request.topics.iter_mut().flat_map(|topic| &mut topic.partitions);
        partitions.for_each(|partition| partition.acknowledgement_batches.clear());
    }
    let mut forgotten = share_fetch_request::ForgottenTopic::default();
    (forgotten.topic_id, forgotten.partitions) = (topic_id(random), vec![int(random)]);
    request.forgotten_topics_data = vec![forgotten];
    (request.max_bytes, request.min_bytes) = (int(random), int(random));
    (request.max_records, request.batch_size) = (int(random), int(random));
    request.share_acquire_mode = int(random) as i8;
    request.is_renew_ack = random.random_range(0..8) == 0;
    request
}

fn acknowledgement(random: &mut StdRng, member: &Member<'_>) -> ShareAcknowledgeRequest {
    let mut request = ShareAcknowledgeRequest::default();
    (request.group_id, request.member_id) = (Some("g".into()), Some(member.id.into()));
    request.share_session_epoch = if random.random_range(0..6) == 0 { int(random) } else { member.epoch };
    request.is_renew_ack = random.random_range(0..2) == 0;
    let batches = (0..random.random_range(0..4)).map(|_| {
        let mut batch = share_acknowledge_request::AcknowledgementBatch::default();
        (batch.first_offset, batch.last_offset) = (number(random), number(random));
        batch.acknowledge_types = types(random);
        batch
    });
    let mut partition = share_acknowledge_request::AcknowledgePartition::default();
    partition.acknowledgement_batches = batches.collect();
    let mut topic = share_acknowledge_request::AcknowledgeTopic::default();
    (topic.topic_id, topic.partitions) = (topic_id(random), vec![partition]);
    request.topics = vec![topic];
    request
}

#[test]
fn share_partitions_survive_random_requests() {
    let rig = start(&[("share.delivery.count.limit", "10")], &[]);
    let mut random = StdRng::seed_from_u64(seeds(1).start);
    rig.run(async {
        let clock = tokio::task::spawn_local(share::partitions::run_clock(rig.broker.clone()));
        rig.initialize().await;
        let mut members = ["a", "b"].map(|id| Member::new(&rig, id));
        for _ in 0..scaled(400_u32) {
            let member = &mut members[random.random_range(0..2)];
            match random.random_range(0..6) {
                0 => rig.produce_shared(1 + random.random_range(0..4)).await,
                1 => *member = Member::new(&rig, member.id),
                2 | 3 => {
                    let request = acknowledgement(&mut random, member);
                    let response: ShareAcknowledgeResponse =
                        rig.exchange(&member.connection, VERSION, &request).await;
                    if response.error_code == OK {
                        member.epoch = request.share_session_epoch.max(-1) + 1;
                    }
                }
                _ => {
                    let request = fetch(&mut random, member);
                    let response: ShareFetchResponse =
                        rig.exchange(&member.connection, VERSION, &request).await;
                    if response.error_code == OK {
                        member.epoch += 1;
                    }
                }
            }
        }
        // All records are released, and a new member gets the remaining ones.
        drop(members);
        rig.produce_shared(1).await;
        let end = rig.broker.replicas().partition("shared", 0).unwrap().log().log_end();
        let mut last = Member::new(&rig, "last");
        let (mut acks, mut start) = (Vec::new(), 0);
        while start < end {
            let (ranges, _) = last.fetch(&acks, LONG_MS).await;
            acks = ranges.iter().map(|(first, last, _)| (*first, *last, ACCEPT)).collect();
            start = ranges.iter().map(|(_, last, _)| last + 1).max().unwrap_or(start).max(start);
        }
        clock.abort();
    });
}
