//! Tests of tiered storage as a whole, and the ids of segments in them.

use std::cell::RefCell;

use levada_metadata::uuid;
use levada_wire::Uuid;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

mod simulation;

thread_local! {
    static IDS: RefCell<Option<Ids>> = const { RefCell::new(None) };
}

/// Ids that follow from a seed.
struct Ids {
    random: StdRng,
    last: Uuid,
    is_repeated: bool,
}

/// Id of a new segment: random, or one that follows from the seed of this thread.
pub(super) fn new_id() -> Uuid {
    IDS.with_borrow_mut(|ids| {
        let Some(ids) = ids else { return uuid::random() };
        if !std::mem::take(&mut ids.is_repeated) {
            ids.last = Uuid::from_bytes(ids.random.random());
        }
        ids.last
    })
}

/// From now on the ids of this thread follow from a seed.
fn seed_ids(seed: u64) {
    let random = StdRng::seed_from_u64(seed);
    IDS.set(Some(Ids { random, last: Uuid::ZERO, is_repeated: false }));
}

/// The next id of this thread is the last one.
fn repeat_id() {
    IDS.with_borrow_mut(|ids| ids.iter_mut().for_each(|ids| ids.is_repeated = ids.last != Uuid::ZERO));
}
