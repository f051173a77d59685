//! Static members, required tags, and offsets of tasks: all that Kafka has since 4.4.

use super::{active, beat, codes, enter, group, ok, owning, rig, rig_with};
use crate::group::config::{OwnSetting, OwnSettings, OwnStreamsSetting};
use crate::group::error::GroupError;
use crate::group::event::Event;
use crate::group::records::Endpoint;
use crate::group::request::{StreamsHeartbeatRequest, StreamsStatus, TaskOffsets};
use crate::group::tests::rig::{GROUP, Rig};

fn named(request: StreamsHeartbeatRequest) -> StreamsHeartbeatRequest {
    StreamsHeartbeatRequest { instance_id: Some("i".into()), ..request }
}

fn offsets(offsets: &[(i32, i64)]) -> TaskOffsets {
    [("0".to_owned(), offsets.iter().copied().collect())].into()
}

#[test]
fn returning_static_streams_member_causes_no_rebalance() {
    let mut rig = rig();
    ok(&mut rig, named(enter("a")));
    assert_eq!(rig.ask(named(enter("b"))), Err(GroupError::UnreleasedInstanceId));
    assert_eq!(rig.ask(named(beat("b", 2))), Err(GroupError::FencedInstanceId));
    let away = ok(&mut rig, named(beat("a", -2)));
    assert_eq!((away.member_epoch, away.acceptable_recovery_lag), (-2, -1));
    assert_eq!(group(&rig).members[0].epoch, -2);
    assert_eq!(rig.ask(named(beat("a", 2))), Err(GroupError::fenced("streams", 2, -2)));
    let request = StreamsHeartbeatRequest { process_id: Some("process-a".into()), ..named(enter("b")) };
    let back = ok(&mut rig, request);
    assert_eq!((back.member_epoch, back.assigned), (2, active(&[0, 1, 2, 3])));
    let described = group(&rig);
    assert_eq!((described.epoch, described.members.len(), described.state), (2, 1, "Stable"));
    assert_eq!(rig.ask(named(beat("a", 2))), Err(GroupError::FencedInstanceId));
    rig.restart();
    assert_eq!(ok(&mut rig, named(beat("b", 2))).member_epoch, 2);
}

#[test]
fn a_changed_static_member_is_assigned_anew() {
    let mut rig = rig();
    ok(&mut rig, named(enter("a")));
    ok(&mut rig, named(beat("a", -2)));
    assert_eq!(ok(&mut rig, named(enter("b"))).member_epoch, 3, "another process");
}

#[test]
fn static_streams_member_leaves_permanently() {
    let mut rig = rig();
    ok(&mut rig, named(enter("a")));
    assert_eq!(
        rig.ask(StreamsHeartbeatRequest { instance_id: Some("j".into()), ..beat("a", -1) }),
        Err(GroupError::UnknownMemberId)
    );
    ok(&mut rig, named(beat("a", -1)));
    assert_eq!(group(&rig).members, []);
    assert_eq!(rig.ask(named(beat("a", -2))), Err(GroupError::UnknownMemberId));
}

#[test]
fn absent_static_streams_member_is_removed() {
    let mut rig = rig();
    ok(&mut rig, enter("b"));
    ok(&mut rig, named(enter("a")));
    ok(&mut rig, named(beat("a", -2)));
    // Its session goes on; that of the other one is renewed.
    rig.pass(40_000);
    ok(&mut rig, owning("b", 2, &[0, 1]));
    rig.pass(5_000);
    assert_eq!(group(&rig).members.len(), 1);
}

#[test]
fn static_members_rejoin_full_streams_groups() {
    let mut rig = rig_with(|config| config.max_size = 1);
    ok(&mut rig, named(enter("a")));
    ok(&mut rig, named(beat("a", -2)));
    assert_eq!(rig.ask(enter("b")), Err(GroupError::GroupMaxSizeReached));
    ok(&mut rig, named(enter("b")));
}

fn require(rig: &mut Rig, tags: &str) {
    let streams = OwnStreamsSetting { rack_aware_tags: Some(tags.into()), ..OwnStreamsSetting::default() };
    let own = OwnSetting { streams, ..OwnSetting::default() };
    rig.step(Event::OwnSettings(OwnSettings::from([(GROUP.to_owned(), own)]).into()));
}

#[test]
fn missing_client_tags_are_reported() {
    let mut rig = rig();
    require(&mut rig, "zone,rack,cell");
    let tags = [("rack".to_owned(), "r".to_owned())];
    let request = StreamsHeartbeatRequest { client_tags: Some(tags.into()), ..enter("a") };
    let told = ok(&mut rig, request).status;
    let expected = "Missing required client tags for rack-aware standby assignment: [zone, cell]. \
                    Configure them via 'client.tag.<tagKey>' in your Streams config.";
    assert_eq!((told[0].code, told[0].detail.as_str()), (StreamsStatus::MISSING_CLIENT_TAGS, expected));
    let settled = ok(&mut rig, beat("a", 2));
    assert_eq!(codes(&settled), [StreamsStatus::MISSING_CLIENT_TAGS]);
    let older = StreamsHeartbeatRequest { knows_missing_tags: false, ..beat("a", 2) };
    assert_eq!(codes(&ok(&mut rig, older)), Vec::<i8>::new());
    require(&mut rig, "");
    let free = ok(&mut rig, beat("a", 2));
    assert_eq!((free.member_epoch, free.status.len()), (3, 0));
}

#[test]
fn reported_offsets_are_shown_until_the_member_leaves() {
    let mut rig = rig();
    ok(&mut rig, enter("a"));
    let shown = |rig: &Rig| {
        let member = &group(rig).members[0];
        (TaskOffsets::clone(&member.task_offsets), TaskOffsets::clone(&member.task_end_offsets))
    };
    let ends = Some(offsets(&[(0, 9), (3, 9)]));
    ok(&mut rig, StreamsHeartbeatRequest { task_end_offsets: ends, ..beat("a", 2) });
    ok(&mut rig, StreamsHeartbeatRequest { task_offsets: Some(offsets(&[(0, 5)])), ..beat("a", 2) });
    assert_eq!(shown(&rig), (offsets(&[(0, 5)]), offsets(&[(0, 9), (3, 9)])));
    assert_eq!(ok(&mut rig, beat("a", 2)).member_epoch, 2, "no rebalance");
    ok(&mut rig, beat("a", -1));
    ok(&mut rig, enter("a"));
    assert_eq!(shown(&rig), Default::default());
}

#[test]
fn rejoin_clears_the_member_endpoint() {
    let mut rig = rig();
    let endpoint = Endpoint { host: "host".into(), port: 1 };
    ok(&mut rig, StreamsHeartbeatRequest { user_endpoint: Some(endpoint), ..enter("a") });
    let again = StreamsHeartbeatRequest { endpoint_epoch: -1, ..enter("a") };
    let told = ok(&mut rig, again);
    assert_eq!((told.endpoint_epoch, told.endpoints), (1, Some(Vec::new())));
}
