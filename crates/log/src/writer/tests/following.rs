//! A follower that gets the log of its leader in pieces of any size has the same log.

use levada_testing::scaled;
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::partition::Partition;

/// One thing that a leader does.
#[derive(Clone, Debug)]
enum Step {
    /// Records without a producer.
    Plain(u8),
    /// The next records of a producer, in a transaction if it is one of the first two.
    Next(u8, u8),
    /// End of the transaction of a producer.
    End(u8, bool),
    NextEpoch,
    Roll,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        2 => (1_u8..5).prop_map(Step::Plain),
        6 => (0_u8..4, 1_u8..5).prop_map(|(producer, records)| Step::Next(producer, records)),
        2 => (0_u8..2, any::<bool>()).prop_map(|(producer, aborts)| Step::End(producer, aborts)),
        1 => Just(Step::NextEpoch),
        1 => Just(Step::Roll),
    ];
    vec(step, 1..60)
}

fn lead(kit: &Kit, steps: &[Step]) -> Writer {
    let mut writer = kit.open(0);
    writer.lead(0).unwrap();
    let mut next = [0; 4];
    for step in steps {
        match step {
            Step::Plain(count) => {
                append(&mut writer, records(Builder::new(), (*count).into())).unwrap();
            }
            Step::Next(producer, count) => {
                let sequence = &mut next[usize::from(*producer)];
                let builder = Builder::new().producer((*producer).into(), 0, *sequence);
                let builder = if *producer < 2 { builder.transactional() } else { builder };
                append(&mut writer, records(builder, (*count).into())).unwrap();
                *sequence += i32::from(*count);
            }
            Step::End(producer, aborts) => {
                let marker = if *aborts { Marker::Abort } else { Marker::Commit };
                let end = EndMarker {
                    marker,
                    producer_id: (*producer).into(),
                    producer_epoch: 0,
                    coordinator_epoch: 0,
                    timestamp_ms: 5,
                };
                let mut group = [Append::coordinator(end.build().unwrap())];
                writer.append(&mut group, NOW_MS).pop().unwrap().unwrap();
            }
            Step::NextEpoch => {
                writer.lead(writer.leader_epoch() + 1).unwrap();
            }
            Step::Roll => writer.roll(NOW_MS).unwrap(),
        }
    }
    writer
}

fn contents(partition: &Partition) -> Vec<u8> {
    let (mut bytes, mut at) = (Vec::new(), 0);
    while at < partition.log_end() {
        let read = partition.read_batches(at, 1).unwrap();
        at = BatchView::parse(&read).unwrap().last_offset() + 1;
        bytes.extend_from_slice(&read);
    }
    bytes
}

/// The bytes of all transaction indexes, in the order of the segments.
fn aborted(dir: &Path) -> Vec<u8> {
    let paths = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<_> =
        paths.filter(|path| path.extension().is_some_and(|end| end == "txnindex")).collect();
    paths.sort();
    paths.iter().flat_map(|path| fs::read(path).unwrap()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: scaled(64), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_follower_has_the_log_of_its_leader(steps in steps(), cuts in vec(1_usize..2_000, 1..20), segment_bytes in 600_u32..4_000) {
        let (kit, home) = (Kit::new(), Kit::new());
        let leader = lead(&kit, &steps);
        let config = LogConfig { segment_bytes, index_interval_bytes: 100, ..LogConfig::default() };
        let options = || OpenOptions { config: config.clone(), ..OpenOptions::new(home.dir.path()) };
        let mut follower = Writer::open(options(), NOW_MS).unwrap().0;
        follower.resign();
        let (bytes, mut at) = (contents(leader.partition()), 0);
        let mut cuts = cuts.into_iter().cycle();
        // A fetch returns a whole batch at least.
        while let Ok(batch) = BatchView::parse(&bytes[at..]) {
            let piece = cuts.next().unwrap().max(batch.size_bytes()).min(bytes.len() - at);
            let epoch = leader.leader_epoch();
            at += follower.append_replica(&bytes[at..at + piece], from_leader(epoch), NOW_MS).unwrap().bytes as usize;
        }
        let compare = |follower: &Writer| {
            let (one, other) = (leader.partition(), follower.partition());
            assert_eq!(contents(other), bytes);
            assert_eq!(other.log_end(), one.log_end());
            for epoch in (0..=leader.leader_epoch()).filter(|_| !bytes.is_empty()) {
                let (found, end) = one.epoch_end_offset(epoch);
                // The last epochs of the leader may be without a batch.
                if end < one.log_end() && found >= 0 {
                    assert_eq!(other.epoch_end_offset(epoch), (found, end), "epoch {epoch}");
                }
            }
            other.raise_high_watermark(other.log_end());
            assert_eq!(other.last_stable(), one.last_stable());
            assert_eq!(aborted(home.dir.path()), aborted(kit.dir.path()));
            assert_eq!(follower.producer_states(), leader.producer_states());
        };
        compare(&follower);
        drop(follower);
        let mut reopened = Writer::open(options(), NOW_MS).unwrap().0;
        reopened.resign();
        compare(&reopened);
    }
}
