//! Single answers, and what becomes of each.

use super::*;
use crate::observer::download::DownloadLimits;

/// An observer that has been told the leader of epoch 1 and has read the log of the model.
fn reading() -> Rig {
    let mut rig = Rig::new();
    for _ in 0..2 {
        rig.model.append(0, 2, 9);
        rig.model.replicate(0, 1);
    }
    rig.model.replicate(0, 1);
    rig.quiesce();
    rig
}

/// Delivers what `change` makes of the true answer to the request under way.
fn answer(rig: &mut Rig, change: impl FnOnce(&mut FetchResponse<Bytes>)) -> Vec<ObserverAction> {
    let Some(ObserverAction::Fetch(request, to, body)) = rig.sent.pop() else { panic!("nothing was sent") };
    let mut response = rig.model.fetch(to.node.unwrap() as usize, &body, 9, 0);
    change(&mut response);
    rig.observer.step(ObserverEvent::Fetched(request, response), rig.now_ms)
}

fn stops(actions: &[ObserverAction]) -> Option<&str> {
    actions.iter().find_map(|action| match action {
        ObserverAction::Stop(reason) => Some(&**reason),
        _ => None,
    })
}

#[test]
fn first_fetch_reveals_the_leader() {
    let mut rig = Rig::new();
    let actions = rig.observer.step(ObserverEvent::Tick, 0);
    let [ObserverAction::Fetch(1, to, body)] = &actions[..] else { panic!("{actions:?}") };
    assert_eq!((to.node, body.replica_id, body.session_epoch), (Some(0), 9, -1));
    let partition = &body.topics[0].partitions[0];
    assert_eq!((partition.fetch_offset, partition.last_fetched_epoch), (0, 0));
    assert_eq!((partition.current_leader_epoch, partition.high_watermark), (0, -1));
    let response = rig.model.fetch(1, body, 1, 0);
    let actions = rig.observer.step(ObserverEvent::Fetched(1, response), 0);
    assert_eq!(actions[0], ObserverAction::LeaderChanged { epoch: 1, leader: Some(0) });
    let ObserverAction::Fetch(2, to, body) = &actions[1] else { panic!("{actions:?}") };
    assert_eq!((to.node, body.topics[0].partitions[0].current_leader_epoch), (Some(0), 1));
}

#[test]
fn observer_errors_are_classified() {
    for (code, fatal) in [(31, true), (104, true), (42, true), (-1, false), (3, false), (35, false)] {
        for top_level in [true, false] {
            let mut rig = reading();
            let actions = answer(&mut rig, |response| {
                if top_level {
                    response.error_code = code;
                } else {
                    response.topics[0].partitions[0].error_code = code;
                }
            });
            assert_eq!(stops(&actions).is_some(), fatal, "{code}: {actions:?}");
            assert_eq!(rig.observer.deadline().is_none(), fatal);
            assert!(fatal || matches!(actions[0], ObserverAction::Unusable { .. }), "{actions:?}");
        }
    }
}

#[test]
fn divergence_below_the_high_watermark_stops_the_observer() {
    let mut rig = reading();
    let high_watermark = rig.observer.high_watermark();
    let actions = answer(&mut rig, |response| {
        let end = levada_wire::fetch::EpochEnd { epoch: 1, end_offset: high_watermark - 1 };
        response.topics[0].partitions[0].diverging_epoch = Some(end);
    });
    assert!(stops(&actions).unwrap().contains("below the high watermark"), "{actions:?}");
    assert!(rig.observer.step(ObserverEvent::Tick, i64::MAX).is_empty());
}

#[test]
fn observer_tries_other_voters_with_growing_pauses() {
    let mut rig = reading();
    let mut pauses = Vec::new();
    let mut asked = HashSet::new();
    for _ in 0..8 {
        rig.wake();
        let Some(ObserverAction::Fetch(_, to, _)) = rig.sent.last() else { panic!("nothing was sent") };
        asked.insert(to.node.unwrap());
        rig.fail(0);
        pauses.push(rig.observer.deadline().unwrap() - rig.now_ms);
    }
    assert_eq!(asked.len(), 3);
    assert_eq!(pauses[pauses.len() - 3..], [500; 3]);
    assert!(pauses.is_sorted(), "{pauses:?}");
}

#[test]
fn observer_refuses_batch_that_cannot_follow() {
    for (damage, reason) in [(20, "checksum"), (7, "continues at offset"), (15, "has epoch")] {
        let mut rig = reading();
        rig.model.append(0, 1, 9);
        let leader = rig.model.leader().unwrap();
        rig.model.append(leader, 1, 9);
        let before = rig.observer.published();
        let actions = answer(&mut rig, |response| {
            let partition = &mut response.topics[0].partitions[0];
            let mut records = partition.records.take().unwrap().to_vec();
            records[damage] ^= 0x40;
            partition.records = Some(records.into());
        });
        let [ObserverAction::Unusable { reason: found, .. }] = &actions[..] else { panic!("{actions:?}") };
        assert!(found.contains(reason), "{found}");
        assert_eq!(rig.observer.published(), before);
    }
}

/// A download of a snapshot with `change` applied to its bytes, in chunks of `chunk` bytes.
fn download(chunk: usize, change: impl FnOnce(&mut Vec<u8>)) -> Result<Vec<u32>, String> {
    let mut model = Model::new();
    for _ in 0..4 {
        model.append(0, 3, 9);
        model.replicate(0, 1);
    }
    model.replicate(0, 1);
    model.snapshot(0);
    let fetch = super::super::requests::fetch(&ObserverConfig::new(9, Uuid::ZERO), 1, Default::default(), -1);
    let id = model.fetch(0, &fetch, 1, 0).topics[0].partitions[0].snapshot_id.expect("a snapshot");
    let request = super::super::requests::fetch_snapshot(&ObserverConfig::new(9, Uuid::ZERO), 1, id, 0);
    let response = model.fetch_snapshot(0, &request, usize::MAX / 2);
    let mut bytes = response.topics[0].partitions[0].unaligned_records.to_vec();
    change(&mut bytes);
    let limits = DownloadLimits { snapshot_bytes: 4096, batch_bytes: 1024 };
    let mut download = super::super::download::Download::new(id, (Some(0), 1), limits);
    let mut values = Vec::new();
    let size = bytes.len() as i64;
    let mut is_complete = false;
    for chunk in bytes.chunks(chunk) {
        let progress = download.push(size, &Bytes::copy_from_slice(chunk), "CONTROLLER");
        let progress = progress.map_err(|fault| fault.to_string())?;
        values.extend(progress.records.iter().map(|record| number(&record.value)));
        is_complete = progress.is_complete;
    }
    assert!(is_complete);
    Ok(values)
}

#[test]
fn a_snapshot_cut_anywhere_has_the_same_records() {
    for chunk in [1, 7, 60, 61, 62, 100, 10_000] {
        assert_eq!(download(chunk, |_| ()).unwrap(), (1..=12).collect::<Vec<u32>>(), "{chunk}");
    }
}

#[test]
fn a_damaged_snapshot_is_refused() {
    #[track_caller]
    fn refused(change: impl FnOnce(&mut Vec<u8>), reason: &str) {
        let found = download(50, change).unwrap_err();
        assert!(found.contains(reason), "{found}");
    }
    refused(|bytes| bytes.truncate(bytes.len() - 1), "without its footer");
    refused(|bytes| bytes.extend_from_within(..), "not between its header and its footer");
    refused(|bytes| drop(bytes.drain(..83)), "");
    refused(|bytes| bytes[70] ^= 1, "damaged");
    refused(|bytes| bytes[8] = 0x7f, "impossible length");
    refused(|bytes| bytes.resize(5000, 0), "the limit is 4096");
}

#[test]
fn interrupted_snapshot_download_resumes() {
    let mut rig = Rig::new();
    for _ in 0..6 {
        rig.model.append(0, 3, 9);
        rig.model.replicate(0, 1);
    }
    rig.model.snapshot(0);
    let mut positions = Vec::new();
    for round in 0..40 {
        rig.wake();
        match rig.sent.last() {
            Some(ObserverAction::FetchSnapshot(_, _, body)) => {
                positions.push(body.topics[0].partitions[0].position);
                if positions.len() == 3 {
                    rig.fail(0);
                    continue;
                }
            }
            Some(_) => {}
            None => panic!("nothing is under way in round {round}"),
        }
        rig.serve(0, 100);
        rig.deliver(0, false);
        if rig.replayer.through > 0 {
            break;
        }
    }
    assert_eq!(positions[..4], [0, 100, 200, 200]);
    assert!(!rig.replayer.values.is_empty());
}

/// An observer has the level of the last control record, be it in the log or in a snapshot.
#[test]
fn kraft_version_follows_control_records() {
    for is_snapshot in [false, true] {
        let mut rig = Rig::new();
        rig.quiesce();
        assert_eq!(rig.observer.kraft_version(), 0, "no record: the voters are in the configuration");
        for level in [1, 0] {
            rig.model.finalize(0, level);
            rig.model.append(0, 2, 9);
            rig.model.replicate(0, 1);
            rig.model.replicate(0, 1);
            if is_snapshot {
                rig.model.snapshot(0);
            }
            rig.quiesce();
            assert_eq!(rig.observer.kraft_version(), i16::from(level), "snapshot: {is_snapshot}");
        }
    }
}
