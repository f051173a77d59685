//! Tests of plans: tables, and random clusters with the invariants of every plan.

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use super::*;

fn share(partition: i32, replicas: &[i32], bytes: u64) -> Share {
    let place = ("t".to_owned(), partition);
    Share { place, replicas: replicas.to_vec(), bytes, is_movable: true }
}

/// A planner of brokers in racks, all of which may get replicas.
fn planner(racks: &[(i32, Option<&str>)], shares: Vec<Share>) -> Planner {
    let racks: BTreeMap<i32, Option<String>> =
        racks.iter().map(|(id, rack)| (*id, rack.map(str::to_owned))).collect();
    let candidates = racks.keys().copied().collect();
    Planner::new(racks, &candidates, shares)
}

fn without_racks(brokers: i32) -> Vec<(i32, Option<&'static str>)> {
    (1..=brokers).map(|id| (id, None)).collect()
}

fn counts(planner: &Planner, count: impl Fn(&Load) -> u64) -> Vec<u64> {
    planner.loads().values().map(count).collect()
}

fn range(counts: &[u64]) -> u64 {
    counts.iter().max().unwrap() - counts.iter().min().unwrap()
}

fn copied(moves: &[Move]) -> u64 {
    moves.iter().map(|one| one.bytes.unwrap() * one.adding().count() as u64).sum()
}

#[test]
fn balanced_cluster_needs_no_moves() {
    let shares = vec![share(0, &[1, 2], 10), share(1, &[2, 3], 10), share(2, &[3, 1], 10)];
    let mut planner = planner(&without_racks(3), shares);
    planner.balance();
    assert_eq!(planner.moves(), []);
}

#[test]
fn new_broker_gets_its_share_of_replicas() {
    let shares = (0..30).map(|index| share(index, &[1 + index % 2, 2 - index % 2], 100)).collect();
    let mut planner = planner(&without_racks(3), shares);
    planner.balance();
    assert_eq!(counts(&planner, |load| load.replicas as u64), [20, 20, 20]);
    assert_eq!(counts(&planner, |load| load.leaders as u64), [10, 10, 10]);
    assert_eq!(copied(&planner.moves()), 20 * 100);
}

#[test]
fn planner_swaps_large_partitions_with_small_ones() {
    let large = (0..4).map(|index| share(index, &[1], 1000));
    let small = (4..8).map(|index| share(index, &[2], 10));
    let mut planner = planner(&without_racks(2), large.chain(small).collect());
    planner.balance();
    assert_eq!(counts(&planner, |load| load.replicas as u64), [4, 4]);
    assert_eq!(counts(&planner, |load| load.bytes), [2020, 2020]);
    assert_eq!(copied(&planner.moves()), 2 * 1010);
}

#[test]
fn planner_moves_leadership_without_copies() {
    let shares = (0..9).map(|index| share(index, &[1, 2, 3], 100)).collect();
    let mut planner = planner(&without_racks(3), shares);
    planner.even_leaders();
    assert_eq!(counts(&planner, |load| load.leaders as u64), [3, 3, 3]);
    assert_eq!(copied(&planner.moves()), 0);
    // Broker 1 can hand leaderships to broker 3 through broker 2 alone.
    let chain = [[1, 2], [1, 2], [1, 2], [2, 3], [2, 3]];
    let shares = (0..).zip(chain).map(|(index, replicas)| share(index, &replicas, 1)).collect();
    let mut planner = self::planner(&without_racks(3), shares);
    planner.even_leaders();
    assert_eq!(counts(&planner, |load| load.leaders as u64).iter().sum::<u64>(), 5);
    assert_eq!(range(&counts(&planner, |load| load.leaders as u64)), 1);
}

#[test]
fn planner_reorders_replicas_to_balance_leaders() {
    // Broker 1 leads partitions without another replica, and broker 2 only follows.
    let shares = vec![share(0, &[1], 10), share(1, &[1], 10), share(2, &[3, 2], 10), share(3, &[3, 2], 10)];
    let mut planner = planner(&without_racks(3), shares);
    planner.balance();
    assert_eq!(counts(&planner, |load| load.replicas as u64), [2, 2, 2]);
    assert!(range(&counts(&planner, |load| load.leaders as u64)) <= 1, "{:?}", planner.loads());
}

#[test]
fn replicas_leave_a_rack_that_they_share() {
    let racks = [(1, Some("a")), (2, Some("a")), (3, Some("b")), (4, Some("b"))];
    let mut planner = planner(&racks, vec![share(0, &[1, 2], 5), share(1, &[4, 3], 5)]);
    planner.balance();
    for one in planner.moves() {
        let is_in_a = |id: &i32| *id <= 2;
        assert_eq!(one.to.iter().filter(|id| is_in_a(id)).count(), 1, "{one:?}");
    }
    assert_eq!(planner.moves().len(), 2);
    assert_eq!(copied(&planner.moves()), 10);
}

#[test]
fn pinned_partitions_count_as_load() {
    let mut shares: Vec<Share> = (0..6).map(|index| share(index, &[1], 10)).collect();
    shares.iter_mut().take(5).for_each(|share| share.is_movable = false);
    let mut planner = planner(&without_racks(2), shares);
    planner.balance();
    let moved: Vec<i32> = planner.moves().iter().map(|one| one.partition).collect();
    assert_eq!(moved, [5]);
}

#[test]
fn drain_empties_the_broker_and_keeps_racks() {
    let racks = [(1, Some("a")), (2, Some("b")), (3, Some("b")), (4, Some("c"))];
    let shares = (0..12).map(|index| share(index, &[2, 1], 10)).collect();
    let racks: BTreeMap<i32, Option<String>> =
        racks.iter().map(|(id, rack)| (*id, rack.map(str::to_owned))).collect();
    let mut planner = Planner::new(racks, &BTreeSet::from([1, 3, 4]), shares);
    planner.drain(2).unwrap();
    let moves = planner.moves();
    assert_eq!(moves.len(), 12);
    assert!(moves.iter().all(|one| !one.to.contains(&2) && one.to.len() == 2), "{moves:?}");
    assert!(moves.iter().all(|one| one.to[0] == 1), "the kept replica leads: {moves:?}");
    assert_eq!(counts(&planner, |load| load.replicas as u64), [12, 6, 6]);
}

#[test]
fn a_drain_names_partitions_without_another_broker() {
    let candidates = BTreeSet::from([1]);
    let shares = vec![share(0, &[1, 2], 1), share(1, &[2], 1)];
    let mut planner = Planner::new(BTreeMap::new(), &candidates, shares);
    assert_eq!(planner.drain(2), Err(vec![("t".to_owned(), 0)]));
}

/// A random cluster, and the seed of which it was made.
fn random(seed: u64) -> (Vec<(i32, Option<&'static str>)>, Vec<Share>) {
    let mut random = StdRng::seed_from_u64(seed);
    let brokers = random.random_range(1..8);
    let has_racks = random.random_bool(0.5);
    let rack = |random: &mut StdRng| has_racks.then(|| ["a", "b", "c"][random.random_range(0..3)]);
    let racks: Vec<_> = (1..=brokers).map(|id| (id, rack(&mut random))).collect();
    let shares = (0..random.random_range(0..60)).map(|index| {
        let mut replicas: Vec<i32> = (1..=brokers).collect();
        // Some brokers hold more than others.
        replicas.sort_by_key(|id| random.random_range(0..10) + id * i32::from(index % 3 == 0));
        replicas.truncate(random.random_range(1..=brokers.min(3)) as usize);
        share(index, &replicas, random.random_range(0..1_000_000))
    });
    let shares = shares.collect();
    (racks, shares)
}

#[test]
fn random_move_plans_keep_their_invariants() {
    for seed in levada_testing::seeds(levada_testing::scaled(300)) {
        let (racks, shares) = random(seed);
        let mut planner = planner(&racks, shares.clone());
        let bytes_before = range(&counts(&planner, |load| load.bytes));
        planner.balance();
        keeps_factors_and_racks(&planner, seed);
        if racks.iter().all(|(_, rack)| rack.is_none()) {
            assert!(range(&counts(&planner, |load| load.replicas as u64)) <= 1, "seed {seed}");
            no_leader_is_in_excess(&planner, seed);
            let largest = shares.iter().map(|share| share.bytes).max().unwrap_or(0);
            let bytes = range(&counts(&planner, |load| load.bytes));
            assert!(bytes <= bytes_before.max(4 * largest), "seed {seed}: {bytes_before} to {bytes}");
        }
        let balanced: Vec<Share> = planner.shares.clone();
        let mut again = self::planner(&racks, balanced);
        again.balance();
        assert!(again.moves().is_empty(), "seed {seed}: a balanced cluster stays: {:?}", again.moves());
    }
}

#[test]
fn random_drain_plans_empty_the_broker() {
    for seed in levada_testing::seeds(levada_testing::scaled(300)) {
        let (racks, shares) = random(seed);
        let leaving = 1;
        let racks: BTreeMap<i32, Option<String>> =
            racks.iter().map(|(id, rack)| (*id, rack.map(str::to_owned))).collect();
        let candidates: BTreeSet<i32> = racks.keys().copied().filter(|id| *id != leaving).collect();
        let mut planner = Planner::new(racks, &candidates, shares);
        let stuck = planner.drain(leaving).err().unwrap_or_default();
        for share in &planner.shares {
            let distinct: BTreeSet<i32> = share.replicas.iter().copied().collect();
            assert_eq!(distinct.len(), share.replicas.len(), "seed {seed}: {share:?}");
            let stays = share.replicas.contains(&leaving);
            assert_eq!(stays, stuck.contains(&share.place), "seed {seed}: {share:?}");
            assert!(!stays || share.replicas.len() > candidates.len(), "seed {seed}: {share:?}");
        }
    }
}

fn keeps_factors_and_racks(planner: &Planner, seed: u64) {
    for (share, before) in planner.shares.iter().zip(&planner.before) {
        let distinct: BTreeSet<i32> = share.replicas.iter().copied().collect();
        assert_eq!(distinct.len(), before.len(), "seed {seed}: {before:?} to {share:?}");
        assert!(planner.spread(&share.replicas) >= planner.spread(before), "seed {seed}: {share:?}");
    }
    let held: usize = planner.shares.iter().map(|share| share.replicas.len()).sum();
    assert_eq!(counts(planner, |load| load.replicas as u64).iter().sum::<u64>(), held as u64);
}

/// No partition has a replica on a broker that leads two fewer than its leader.
fn no_leader_is_in_excess(planner: &Planner, seed: u64) {
    for share in &planner.shares {
        let led = |id: &i32| planner.loads[id].leaders;
        let least = share.replicas.iter().map(led).min().unwrap();
        assert!(led(&share.replicas[0]) < least + 2, "seed {seed}: {share:?}");
    }
}
