//! Whole consumer groups, driven through a coordinator.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use levada_base::Now;
use levada_base::Requester;
use levada_wire::Uuid;

use crate::group::config::{ConsumerConfig, GroupConfig, OwnSetting, OwnSettings};
use crate::group::coordinator::{Coordinator, DescribedConsumerGroup, ListFilter};
use crate::group::error::GroupError;
use crate::group::event::Event;
use crate::group::records::Partitions;
use crate::group::records::tests::golden;
use crate::group::request::{
    CommitRequest, ConsumerBeat, ConsumerHeartbeatRequest, DeleteRequest, FetchRequest, JoinRequest,
    OffsetDeleteRequest,
};
use crate::group::tests::rig::{GROUP, Rig, commit, commit_as, config, fetch};
use crate::group::topics::{Topics, Visible};
use crate::machine::PersistFailure;
use crate::pattern::tests::COMPILATIONS;

/// Topics by name, with their number of partitions; a topic's id follows from its name.
#[derive(Clone, Debug, Default)]
pub(in crate::group) struct Catalogue(pub(in crate::group) BTreeMap<String, i32>);

pub(in crate::group) fn id_of(name: &str) -> Uuid {
    let mut id = [0; 16];
    for (to, from) in id.iter_mut().zip(name.bytes()) {
        *to = from;
    }
    Uuid::from_bytes(id)
}

impl Topics for Catalogue {
    fn by_name(&self, name: &str) -> Option<(Uuid, i32)> {
        Some((id_of(name), *self.0.get(name)?))
    }

    fn by_id(&self, id: Uuid) -> Option<(String, i32)> {
        let found = self.0.iter().find(|(name, _)| id_of(name) == id);
        found.map(|(name, count)| (name.clone(), *count))
    }

    fn names(&self) -> Vec<Arc<str>> {
        self.0.keys().map(|name| Arc::from(&**name)).collect()
    }

    fn version(&self) -> i64 {
        7
    }
}

pub(in crate::group) fn catalogue(topics: &[(&str, i32)]) -> Event {
    let topics = topics.iter().map(|(name, count)| ((*name).to_owned(), *count));
    Event::Topics(Arc::new(Catalogue(topics.collect())))
}

fn rig() -> Rig {
    let mut rig = Rig::new(config());
    rig.step(catalogue(&[("t", 4), ("u", 2)]));
    rig
}

/// A heartbeat that says nothing new.
pub(in crate::group) fn beat(member_id: &str, epoch: i32) -> ConsumerHeartbeatRequest {
    ConsumerHeartbeatRequest {
        api_version: 1,
        group_id: GROUP.into(),
        member_id: member_id.into(),
        member_epoch: epoch,
        instance_id: None,
        rack_id: None,
        client_id: "client".into(),
        client_host: "/127.0.0.1".into(),
        rebalance_timeout_ms: -1,
        topics: None,
        regex: None,
        assignor: None,
        owned: None,
        visible: Visible::default(),
    }
}

pub(in crate::group) fn enter(member_id: &str, topics: &[&str]) -> ConsumerHeartbeatRequest {
    ConsumerHeartbeatRequest {
        rebalance_timeout_ms: 60_000,
        topics: Some(topics.iter().map(|&topic| topic.into()).collect()),
        owned: Some(Partitions::new()),
        ..beat(member_id, 0)
    }
}

fn owning(member_id: &str, epoch: i32, owned: &Partitions) -> ConsumerHeartbeatRequest {
    ConsumerHeartbeatRequest { owned: Some(owned.clone()), ..beat(member_id, epoch) }
}

fn named(instance: &str, request: ConsumerHeartbeatRequest) -> ConsumerHeartbeatRequest {
    ConsumerHeartbeatRequest { instance_id: Some(instance.into()), ..request }
}

fn parts(topic: &str, partitions: &[i32]) -> Partitions {
    [(id_of(topic), partitions.iter().copied().collect::<BTreeSet<i32>>())].into()
}

fn group(rig: &Rig) -> DescribedConsumerGroup {
    rig.coordinator.describe_consumer(GROUP).unwrap()
}

/// Number of partitions that a response assigns.
fn count(beat: &ConsumerBeat) -> Option<usize> {
    let assigned = beat.assigned.as_ref()?;
    Some(assigned.values().map(BTreeSet::len).sum())
}

fn ok(rig: &mut Rig, request: ConsumerHeartbeatRequest) -> ConsumerBeat {
    rig.ask(request).unwrap()
}

/// Two members with two partitions each; returns their epoch.
fn pair(rig: &mut Rig) -> i32 {
    ok(rig, enter("a", &["t"]));
    ok(rig, enter("b", &["t"]));
    let gives_up = ok(rig, beat("a", 2));
    let kept = gives_up.assigned.unwrap();
    assert_eq!(kept[&id_of("t")].len(), 2);
    assert_eq!(ok(rig, owning("a", 2, &kept)).member_epoch, 3);
    let took = ok(rig, beat("b", 3)).assigned.unwrap();
    assert_eq!(took[&id_of("t")].len(), 2);
    assert_eq!(group(rig).state, "Stable");
    3
}

#[test]
fn absent_static_member_is_removed_after_its_session() {
    let mut rig = rig();
    let static_member = ConsumerHeartbeatRequest { rebalance_timeout_ms: 10_000, ..enter("a", &["t"]) };
    ok(&mut rig, named("i", static_member));
    ok(&mut rig, enter("b", &["t"]));
    let gives_up = ok(&mut rig, named("i", beat("a", 2)));
    assert_eq!(gives_up.assigned.unwrap()[&id_of("t")].len(), 2);
    ok(&mut rig, named("i", beat("a", -2)));
    let is_member = |rig: &Rig| group(rig).members.iter().any(|member| member.member_id == "a");
    rig.pass(20_000);
    assert!(is_member(&rig), "the time to revoke partitions ends no session");
    let back = ConsumerHeartbeatRequest { rebalance_timeout_ms: 10_000, ..enter("a2", &["t"]) };
    ok(&mut rig, named("i", back));
    ok(&mut rig, named("i", beat("a2", -2)));
    let session_ms = i64::from(rig.config.consumer.session_timeout_ms);
    rig.pass(session_ms + 1_000);
    assert_eq!(group(&rig).members.len(), 0, "sessions end");
}

#[test]
fn group_metadata_hash_matches_kafka() {
    #[derive(Debug)]
    struct Golden;
    impl Topics for Golden {
        fn by_name(&self, name: &str) -> Option<(Uuid, i32)> {
            let id = Uuid::from_bytes(0x6e1e_9abb_6f11_4728_8bf8_8f29_6b40_e9fa_u128.to_be_bytes());
            (name == "t").then_some((id, 2))
        }
        fn by_id(&self, _: Uuid) -> Option<(String, i32)> {
            None
        }
        fn names(&self) -> Vec<Arc<str>> {
            Vec::new()
        }
        fn version(&self) -> i64 {
            0
        }
    }
    let names = ["t".to_owned(), "gone".to_owned()].into();
    assert_eq!(super::hash::metadata_hash(&names, &Golden).cast_unsigned(), 0xb1b8_190f_5aa9_f691);
    assert_eq!(super::hash::metadata_hash(&["gone".to_owned()].into(), &Golden), 0);
}

#[test]
fn kafka_consumer_group_is_read_step_by_step() {
    let mut coordinator = Coordinator::new(config());
    let records = golden().into_iter().filter(|(partition, _)| *partition == 1);
    let mut states = Vec::new();
    for (_, record) in records {
        coordinator.replay(record).unwrap();
        let mut loaded = Coordinator::new(config());
        std::mem::swap(&mut loaded, &mut coordinator);
        loaded.step(Event::Loaded, Now::default());
        let seen = loaded.describe_consumer("modern").unwrap();
        states.push((seen.state, seen.epoch, seen.target_epoch, seen.members.len()));
        // Once loaded it takes no more records: start over with those read so far.
        coordinator = Coordinator::new(config());
        let read = golden().into_iter().filter(|(partition, _)| *partition == 1).take(states.len());
        read.for_each(|(_, record)| coordinator.replay(record).unwrap());
    }
    assert_eq!(states[1], ("Assigning", 2, 0, 1));
    assert_eq!(states[4], ("Stable", 2, 2, 1));
    assert_eq!(states[10], ("Empty", 3, 2, 0));
}

#[test]
fn second_member_takes_half_once_first_revokes_it() {
    let mut rig = rig();
    let first = ok(&mut rig, enter("a", &["t"]));
    assert_eq!((first.member_epoch, first.heartbeat_interval_ms), (2, 5_000));
    assert_eq!(first.assigned.unwrap(), parts("t", &[0, 1, 2, 3]));
    assert_eq!(ok(&mut rig, beat("a", 2)).assigned, None, "nothing new");
    let second = ok(&mut rig, enter("b", &["t"]));
    assert_eq!((second.member_epoch, second.assigned), (3, Some(Partitions::new())));
    assert_eq!(group(&rig).state, "Reconciling");
    let told = ok(&mut rig, beat("a", 2));
    let kept = told.assigned.unwrap();
    assert_eq!(told.member_epoch, 2, "not before it has given up");
    let shown = group(&rig).members.remove(0);
    assert_eq!(shown.assigned, parts("t", &[0, 1, 2, 3]), "with what it has yet to give up");
    assert_eq!(shown.target, kept);
    assert_eq!(ok(&mut rig, beat("b", 3)).assigned, None, "not free yet");
    let all = parts("t", &[0, 1, 2, 3]);
    assert_eq!(ok(&mut rig, owning("a", 2, &all)).member_epoch, 2, "still has them");
    assert_eq!(ok(&mut rig, owning("a", 2, &kept)).member_epoch, 3);
    let taken = ok(&mut rig, beat("b", 3)).assigned.unwrap();
    assert!(taken[&id_of("t")].is_disjoint(&kept[&id_of("t")]));
    let before = group(&rig);
    rig.restart();
    assert_eq!(group(&rig), before, "a restart changes nothing");
    rig.step(catalogue(&[("t", 4), ("u", 2)]));
    assert_eq!(ok(&mut rig, beat("b", 3)).assigned, None);
    assert_eq!(group(&rig), before);
}

#[test]
fn member_epochs_fence_except_after_lost_response() {
    let mut rig = rig();
    let epoch = pair(&mut rig);
    let fenced = |received| Err(GroupError::fenced("consumer", received, epoch));
    assert_eq!(rig.ask(beat("a", epoch + 1)), fenced(epoch + 1));
    assert_eq!(rig.ask(beat("a", epoch - 1)), fenced(epoch - 1), "it does not say what it has");
    let some = parts("t", &[0]);
    assert_eq!(ok(&mut rig, owning("a", epoch - 1, &some)).member_epoch, epoch, "the answer was lost");
    assert_eq!(rig.ask(owning("a", epoch - 1, &parts("t", &[3]))), fenced(epoch - 1), "not its own");
    assert_eq!(rig.ask(owning("a", epoch - 2, &some)), fenced(epoch - 2));
    assert_eq!(rig.ask(beat("c", epoch)), Err(GroupError::UnknownMemberId));
    let again = ok(&mut rig, enter("a", &["t"]));
    assert_eq!((again.member_epoch, again.assigned.is_some()), (epoch, true), "0 always joins");
    let elsewhere = ConsumerHeartbeatRequest { group_id: "none".into(), ..beat("a", 1) };
    assert_eq!(rig.ask(elsewhere), Err(GroupError::GroupIdNotFound));
}

#[test]
fn malformed_heartbeats_are_refused() {
    let mut rig = rig();
    let base = || enter("a", &["t"]);
    for request in [
        ConsumerHeartbeatRequest { member_id: " ".into(), ..base() },
        ConsumerHeartbeatRequest { group_id: String::new(), ..base() },
        ConsumerHeartbeatRequest { instance_id: Some(String::new()), ..base() },
        ConsumerHeartbeatRequest { rack_id: Some(String::new()), ..base() },
        ConsumerHeartbeatRequest { rebalance_timeout_ms: -1, ..base() },
        ConsumerHeartbeatRequest { owned: None, ..base() },
        ConsumerHeartbeatRequest { owned: Some(parts("t", &[0])), ..base() },
        ConsumerHeartbeatRequest { topics: None, ..base() },
        ConsumerHeartbeatRequest { member_epoch: -2, ..base() },
        ConsumerHeartbeatRequest { member_epoch: -3, ..base() },
    ] {
        let refused = rig.ask(request.clone());
        assert!(matches!(refused, Err(GroupError::InvalidRequest(_))), "{request:?} {refused:?}");
    }
    let other = ConsumerHeartbeatRequest { assignor: Some("sticky".into()), ..base() };
    assert_eq!(rig.ask(other), Err(GroupError::UnsupportedAssignor));
    let broken = ConsumerHeartbeatRequest { regex: Some("a(".into()), ..base() };
    assert_eq!(rig.ask(broken), Err(GroupError::InvalidRegularExpression));
    assert_eq!(rig.coordinator.list(&ListFilter::default()), Ok(Vec::new()), "nothing came into being");
}

#[test]
fn leaving_or_silent_member_frees_its_partitions() {
    let mut rig = rig();
    let epoch = pair(&mut rig);
    assert_eq!(ok(&mut rig, beat("a", -1)).member_epoch, -1);
    assert_eq!(group(&rig).state, "Assigning");
    let all = ok(&mut rig, beat("b", epoch));
    assert_eq!((all.member_epoch, all.assigned), (epoch + 1, Some(parts("t", &[0, 1, 2, 3]))));
    assert_eq!(rig.ask(beat("a", -1)), Err(GroupError::UnknownMemberId));
    rig.pass(44_999);
    assert_eq!(group(&rig).members.len(), 1);
    rig.pass(1);
    assert_eq!((group(&rig).members.len(), group(&rig).state), (0, "Empty"));
    assert_eq!(rig.ask(beat("b", epoch + 1)), Err(GroupError::UnknownMemberId));
}

#[test]
fn member_that_keeps_revoked_partitions_is_removed() {
    let mut rig = rig();
    ok(&mut rig, enter("a", &["t"]));
    ok(&mut rig, enter("b", &["t"]));
    ok(&mut rig, beat("a", 2));
    for _ in 0..5 {
        rig.pass(11_000);
        for (member, epoch) in [("a", 2), ("b", 3)] {
            ok(&mut rig, beat(member, epoch));
        }
    }
    rig.pass(5_000);
    assert_eq!(rig.ask(beat("a", 2)), Err(GroupError::UnknownMemberId));
    assert_eq!(ok(&mut rig, beat("b", 3)).assigned, Some(parts("t", &[0, 1, 2, 3])));
}

#[test]
fn next_heartbeat_notices_new_grown_and_deleted_topics() {
    let mut rig = rig();
    ok(&mut rig, enter("a", &["t", "new"]));
    rig.step(catalogue(&[("t", 5), ("other", 1)]));
    let grown = ok(&mut rig, beat("a", 2));
    assert_eq!((grown.member_epoch, grown.assigned), (3, Some(parts("t", &[0, 1, 2, 3, 4]))));
    rig.step(catalogue(&[("t", 5), ("other", 2)]));
    assert_eq!(ok(&mut rig, beat("a", 3)).member_epoch, 3, "none of its topics");
    rig.step(catalogue(&[("t", 5), ("new", 1)]));
    let come = ok(&mut rig, beat("a", 3)).assigned.unwrap();
    assert_eq!(come[&id_of("new")], [0].into());
    rig.step(catalogue(&[("new", 1)]));
    let gone = ok(&mut rig, beat("a", 4));
    assert_eq!((gone.member_epoch, gone.assigned), (4, Some(parts("new", &[0]))), "it gives up first");
    assert_eq!(ok(&mut rig, owning("a", 4, &parts("new", &[0]))).member_epoch, 5);
}

#[test]
fn regular_expression_matches_new_topics() {
    let mut rig = rig();
    let by = |regex: &str, request| ConsumerHeartbeatRequest {
        regex: Some(regex.into()),
        topics: None,
        ..request
    };
    let first = ok(&mut rig, by("[tv]", enter("a", &[])));
    assert_eq!((first.member_epoch, first.assigned), (1, Some(Partitions::new())), "it is matched later");
    let first = ok(&mut rig, beat("a", 1));
    let all = Some(parts("t", &[0, 1, 2, 3]));
    assert_eq!((first.member_epoch, first.assigned), (2, all), "the whole name must match");
    rig.step(catalogue(&[("t", 4), ("v", 1), ("vt", 1)]));
    assert_eq!(ok(&mut rig, beat("a", 2)).assigned, None, "they are matched again later");
    let more = ok(&mut rig, beat("a", 2)).assigned.unwrap();
    assert_eq!(more.keys().copied().collect::<Vec<_>>(), [id_of("t"), id_of("v")]);
    let before = group(&rig);
    rig.restart();
    rig.step(catalogue(&[("t", 4), ("v", 1), ("vt", 1)]));
    assert_eq!(group(&rig), before);
    assert_eq!(ok(&mut rig, beat("a", 3)).member_epoch, 3, "the same topics");
    let kept = ok(&mut rig, by("v.*", owning("a", 3, &Partitions::new())));
    assert_eq!((kept.member_epoch, kept.assigned), (3, None), "until the other one has been matched");
    for _ in 0..2 {
        ok(&mut rig, owning("a", 3, &Partitions::new()));
    }
    let assigned = group(&rig).members.remove(0).assigned;
    assert_eq!(assigned.into_keys().collect::<Vec<_>>(), [id_of("v"), id_of("vt")]);
    let removal = OffsetDeleteRequest { group_id: GROUP.into(), topics: vec![("vt".into(), vec![0])] };
    let used = rig.ask(removal).unwrap()[0].partitions[0].1;
    assert_eq!(used, Some(GroupError::GroupSubscribedToTopic));
    assert_eq!(rig.ask(by("v(", beat("a", 4))), Err(GroupError::InvalidRegularExpression));
}

#[test]
fn new_regex_is_resolved_after_heartbeat_response() {
    let mut rig = rig();
    let request = ConsumerHeartbeatRequest { regex: Some("t".into()), topics: None, ..enter("a", &[]) };
    rig.hold_appends = true;
    let waiting = rig.send(request);
    rig.finish_append(None);
    let answered = rig.answer::<ConsumerHeartbeatRequest>(waiting).unwrap().unwrap();
    assert_eq!((answered.member_epoch, group(&rig).epoch), (1, 1));
    // Its matches cannot be written: the next heartbeat has it matched again.
    rig.finish_append(Some(PersistFailure::Unavailable));
    assert_eq!(group(&rig).epoch, 1);
    rig.hold_appends = false;
    assert_eq!(ok(&mut rig, beat("a", 1)).member_epoch, 1);
    assert_eq!((group(&rig).epoch, group(&rig).state), (2, "Assigning"));
    let assigned = ok(&mut rig, beat("a", 1));
    assert_eq!((assigned.member_epoch, assigned.assigned), (2, Some(parts("t", &[0, 1, 2, 3]))));

    // Another member with an expression that is known gets its share immediately.
    let same = ConsumerHeartbeatRequest { regex: Some("t".into()), topics: None, ..enter("b", &[]) };
    assert_eq!(ok(&mut rig, same).member_epoch, 3);
}

#[test]
fn new_regex_of_large_group_compiles_alone() {
    let mut rig = rig();
    let before = COMPILATIONS.get();
    for number in 0..100 {
        let own = ConsumerHeartbeatRequest {
            regex: Some(format!("t|x{number}")),
            topics: None,
            ..enter(&format!("m{number}"), &[])
        };
        ok(&mut rig, own);
    }
    // Other tests may displace a few from the cache.
    assert!((100..200).contains(&(COMPILATIONS.get() - before)), "{}", COMPILATIONS.get() - before);
    let before = COMPILATIONS.get();
    rig.step(catalogue(&[("t", 4), ("x7", 1)]));
    let epoch = group(&rig).epoch;
    let known = group(&rig).members.into_iter().find(|member| member.member_id == "m7").unwrap();
    ok(&mut rig, beat("m7", known.epoch));
    assert!(group(&rig).epoch > epoch, "the expressions are matched again");
    assert!(COMPILATIONS.get() - before < 100, "{}", COMPILATIONS.get() - before);
}

#[test]
fn regex_matching_runs_once_and_delays_no_heartbeat() {
    let mut rig = rig();
    for number in 0..3 {
        let regex = Some(format!("t|y{number}"));
        ok(&mut rig, ConsumerHeartbeatRequest { regex, topics: None, ..enter(&format!("m{number}"), &[]) });
    }
    let beat_all = |rig: &mut Rig| {
        group(rig).members.into_iter().for_each(|one| drop(ok(rig, beat(&one.member_id, one.epoch))));
    };
    rig.hold_works = true;
    rig.step(catalogue(&[("t", 4), ("y1", 1)]));
    let epoch = group(&rig).epoch;
    for _ in 0..3 {
        beat_all(&mut rig);
    }
    let wanted: Vec<_> = rig.works.iter().map(|work| work.patterns.len()).collect();
    assert_eq!((wanted, group(&rig).epoch), (vec![3], epoch));
    // Topics change meanwhile: the result holds, and the next heartbeat has the expressions
    // compared with the new ones.
    rig.step(catalogue(&[("t", 4), ("y2", 1)]));
    assert!(rig.finish_work() && rig.works.is_empty());
    assert_eq!(group(&rig).epoch, epoch + 1);
    beat_all(&mut rig);
    assert!(rig.finish_work() && rig.works.is_empty());
    for _ in 0..4 {
        beat_all(&mut rig);
    }
    assert!(rig.works.is_empty(), "no topic has changed since");
    let targets = group(&rig).members.into_iter().map(|member| member.target.contains_key(&id_of("y2")));
    assert_eq!(targets.collect::<Vec<_>>(), [false, false, true]);

    // A comparison that is lost with the term is begun again.
    rig.step(catalogue(&[("t", 4), ("y0", 1)]));
    beat_all(&mut rig);
    rig.restart();
    rig.hold_works = false;
    rig.step(catalogue(&[("t", 4), ("y0", 1)]));
    for _ in 0..4 {
        beat_all(&mut rig);
    }
    let targets = group(&rig).members.into_iter().map(|member| member.target.contains_key(&id_of("y0")));
    assert_eq!(targets.collect::<Vec<_>>(), [true, false, false]);
}

#[test]
fn regex_matches_only_topics_visible_to_its_member() {
    let mut rig = rig();
    rig.step(catalogue(&[("t", 1), ("tx", 1)]));
    let by = |visible: Visible, request| ConsumerHeartbeatRequest {
        regex: Some("t.*".into()),
        topics: None,
        visible,
        ..request
    };
    let known = || Visible::by(Requester::at([127, 0, 0, 1].into()), |name| name != "tx");
    ok(&mut rig, by(known(), enter("a", &[])));
    let first = ok(&mut rig, beat("a", 1));
    assert_eq!(first.assigned, Some(parts("t", &[0])));
    // Members share an expression: the topics that one member may describe count until another
    // heartbeat has the expression evaluated again.
    rig.step(catalogue(&[("t", 1), ("tx", 1), ("ty", 1)]));
    let again = |rig: &mut Rig| ok(rig, by(known(), beat("a", first.member_epoch)));
    again(&mut rig);
    let more = again(&mut rig);
    let more: Vec<_> = more.assigned.unwrap().into_keys().collect();
    assert!(more.contains(&id_of("ty")) && !more.contains(&id_of("tx")), "{more:?}");
}

#[test]
fn static_member_returns_to_its_former_assignment() {
    let mut rig = rig();
    let first = ok(&mut rig, named("i", enter("a", &["t"])));
    let other = rig.ask(named("i", enter("b", &["t"])));
    assert_eq!(other, Err(GroupError::UnreleasedInstanceId));
    assert_eq!(rig.ask(named("i", beat("b", 2))), Err(GroupError::FencedInstanceId));
    assert_eq!(rig.ask(named("j", beat("a", 2))), Err(GroupError::UnknownMemberId));
    assert_eq!(ok(&mut rig, named("i", beat("a", -2))).member_epoch, -2);
    assert_eq!(group(&rig).members.len(), 1, "its place is kept");
    let back = ok(&mut rig, named("i", enter("b", &["t"])));
    assert_eq!((back.member_epoch, back.assigned), (first.member_epoch, first.assigned), "no rebalance");
    assert_eq!(rig.ask(named("i", beat("a", 2))), Err(GroupError::FencedInstanceId));
    rig.pass(44_000);
    ok(&mut rig, named("i", beat("b", 2)));
    rig.restart();
    rig.step(catalogue(&[("t", 4)]));
    assert_eq!(ok(&mut rig, named("i", beat("b", 2))).member_epoch, 2);
    ok(&mut rig, named("i", beat("b", -1)));
    assert_eq!(group(&rig).state, "Empty");
}

#[test]
fn full_group_refuses_new_members() {
    let consumer = ConsumerConfig { max_size: 1, ..ConsumerConfig::default() };
    let mut rig = Rig::new(GroupConfig { consumer, ..config() });
    ok(&mut rig, enter("a", &["t"]));
    assert_eq!(rig.ask(enter("b", &["t"])), Err(GroupError::GroupMaxSizeReached));
    ok(&mut rig, enter("a", &["t"]));
}

#[test]
fn assignments_keep_their_interval() {
    let consumer = ConsumerConfig { assignment_interval_ms: 1_000, ..ConsumerConfig::default() };
    let mut rig = Rig::new(GroupConfig { consumer, ..config() });
    rig.step(catalogue(&[("t", 4)]));
    let first = ok(&mut rig, enter("a", &["t"]));
    assert_eq!((first.member_epoch, count(&first)), (2, Some(4)), "nothing delays the first assignment");
    // The next member raises the group's epoch and waits for its partitions.
    let second = ok(&mut rig, enter("b", &["t"]));
    assert_eq!((second.member_epoch, count(&second), group(&rig).epoch), (2, Some(0), 3));
    rig.pass(999);
    assert_eq!(ok(&mut rig, beat("b", 2)).member_epoch, 2);
    assert_eq!(ok(&mut rig, beat("a", 2)).assigned, None);
    assert_eq!(group(&rig).epoch, 3, "the epoch rises once");
    rig.pass(1);
    assert_eq!(count(&ok(&mut rig, beat("a", 2))), Some(2));
    // A group's own interval counts, and a restart does not begin it again.
    let own = OwnSetting { consumer_assignment_interval_ms: Some(60_000), ..OwnSetting::default() };
    rig.restart();
    rig.step(catalogue(&[("t", 4)]));
    rig.step(Event::OwnSettings(Arc::new(OwnSettings::from([(GROUP.to_owned(), own)]))));
    rig.pass(20_000);
    ok(&mut rig, beat("a", -1));
    let early = ok(&mut rig, beat("b", 2));
    assert_eq!((group(&rig).epoch, group(&rig).target_epoch, early.member_epoch), (4, 3, 3));
    rig.pass(39_999);
    ok(&mut rig, beat("b", 3));
    assert_eq!(group(&rig).target_epoch, 3);
    rig.pass(1);
    assert_eq!(ok(&mut rig, beat("b", 3)).member_epoch, 4);
    // The clock is set back: nothing waits for it.
    rig.ahead_ms = -3_600_000;
    ok(&mut rig, enter("c", &["t"]));
    assert_eq!(group(&rig).target_epoch, 5);
}

#[test]
fn a_group_sets_its_own_times() {
    let mut rig = rig();
    let (session_timeout_ms, heartbeat_interval_ms) = (Some(60_000), Some(7_000));
    let own = OwnSetting { session_timeout_ms, heartbeat_interval_ms, ..OwnSetting::default() };
    rig.step(Event::OwnSettings(Arc::new(OwnSettings::from([(GROUP.to_owned(), own)]))));
    let first = ok(&mut rig, enter("a", &["t"]));
    assert_eq!(first.heartbeat_interval_ms, 7_000);
    rig.pass(59_999);
    assert_eq!(group(&rig).members.len(), 1, "longer than the coordinator's 45 seconds");
    rig.step(Event::OwnSettings(Arc::default()));
    rig.pass(1);
    assert_eq!(group(&rig).members.len(), 0, "the session that had begun keeps its length");
    let again = ok(&mut rig, enter("a", &["t"]));
    assert_eq!(again.heartbeat_interval_ms, 5_000);
    rig.pass(45_000);
    assert_eq!(group(&rig).members.len(), 0);
}

#[test]
fn commits_need_epoch_of_the_partition_assignment() {
    let mut rig = rig();
    let epoch = pair(&mut rig);
    let by = |member: &str, epoch, index: i32| {
        let mut request = CommitRequest { api_version: 9, ..commit_as(member, epoch, 5) };
        request.topics[0].partitions[0].index = index;
        request
    };
    let kept = *group(&rig).members[0].assigned[&id_of("t")].first().unwrap();
    let taken = *group(&rig).members[1].assigned[&id_of("t")].first().unwrap();
    for (request, expected) in [
        (by("a", epoch, kept), None),
        (by("a", epoch - 1, kept), None),
        (by("a", epoch + 1, kept), Some(GroupError::StaleMemberEpoch)),
        (by("b", epoch - 1, taken), Some(GroupError::StaleMemberEpoch)),
        (by("a", epoch - 1, taken), Some(GroupError::StaleMemberEpoch)),
        (by("c", epoch, kept), Some(GroupError::UnknownMemberId)),
        (by("", -1, kept), Some(GroupError::UnknownMemberId)),
        (CommitRequest { api_version: 8, ..by("a", epoch, kept) }, Some(GroupError::UnsupportedVersion)),
    ] {
        assert_eq!(rig.commit(request.clone()).err(), expected, "{request:?}");
    }
    let look = |member: Option<&str>, member_epoch| FetchRequest {
        member_id: member.map(Into::into),
        member_epoch,
        ..fetch(GROUP, "t", true)
    };
    assert_eq!(rig.ask(look(None, -1)).err(), None);
    assert_eq!(rig.ask(look(Some("a"), epoch)).err(), None);
    assert_eq!(rig.ask(look(Some("a"), epoch - 1)).err(), Some(GroupError::StaleMemberEpoch));
    assert_eq!(rig.ask(look(Some("c"), epoch)).err(), Some(GroupError::UnknownMemberId));
}

#[test]
fn empty_group_is_deletable_and_switches_protocol() {
    let mut rig = rig();
    let delete = || DeleteRequest { group_ids: vec![GROUP.into()] };
    ok(&mut rig, enter("a", &["t"]));
    assert_eq!(rig.ask(delete())[0].1, Some(GroupError::NonEmptyGroup));
    ok(&mut rig, beat("a", -1));
    rig.commit(commit(GROUP, "t", 5)).unwrap();
    let joined = rig.ask(JoinRequest { api_version: 3, ..rig.join("") });
    assert_eq!((joined.error, rig.state()), (None, "CompletingRebalance"));
    assert_eq!(rig.committed(GROUP, "t"), 5, "offsets stay");
    rig.leave(&[(&joined.member_id, None)]);
    ok(&mut rig, enter("a", &["t"]));
    rig.restart();
    let listed = rig.coordinator.list(&ListFilter::default()).unwrap();
    assert_eq!((listed.len(), listed[0].group_type), (1, "consumer"));
    rig.step(catalogue(&[("t", 4)]));
    ok(&mut rig, beat("a", -1));
    assert_eq!(rig.ask(delete())[0].1, None);
    rig.restart();
    assert_eq!(rig.coordinator.list(&ListFilter::default()), Ok(Vec::new()));
}

#[test]
fn failed_heartbeat_write_changes_nothing() {
    let mut rig = rig();
    ok(&mut rig, enter("a", &["t"]));
    let before = group(&rig);
    rig.hold_appends = true;
    let first = rig.send(enter("b", &["t"]));
    let second = rig.send(enter("c", &["t"]));
    assert_eq!((group(&rig), rig.held.len()), (before.clone(), 1), "one at a time");
    rig.finish_append(Some(PersistFailure::Unavailable));
    let refused = rig.answer::<ConsumerHeartbeatRequest>(first).unwrap();
    assert_eq!(refused, Err(GroupError::CoordinatorNotAvailable));
    assert_eq!(group(&rig), before);
    rig.finish_append(None);
    assert!(rig.answer::<ConsumerHeartbeatRequest>(second).unwrap().is_ok());
    assert_eq!(group(&rig).members.len(), 2);
    let silent = rig.send(beat("c", -1));
    rig.pass(50_000);
    rig.step(Event::Unload);
    assert_eq!(rig.answer::<ConsumerHeartbeatRequest>(silent).unwrap(), Err(GroupError::NotCoordinator));
    assert!(rig.waiting.is_empty());
}
