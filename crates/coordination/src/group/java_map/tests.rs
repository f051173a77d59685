//! Orders as Java's `HashMap` has them.

use levada_wire::Uuid;

use super::{JavaHash, JavaMap};

#[test]
fn hashes_are_those_of_java() {
    assert_eq!("".java_hash(), 0);
    assert_eq!("topic".java_hash(), 110_546_223);
    assert_eq!("ü".java_hash(), 252);
    assert_eq!("a rather long name of a topic".java_hash(), {
        let chars = "a rather long name of a topic".bytes();
        chars.fold(0_i32, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()))
    });
    let id = Uuid::from_bytes([0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0, 8]);
    assert_eq!((id.java_hash(), (id, 5).java_hash()), (15, 15 * 31 + 5));
}

fn keys(map: &JavaMap<i32, ()>) -> Vec<i32> {
    map.keys().copied().collect()
}

#[test]
fn keys_are_in_buckets_in_order_of_insertion() {
    let mut map = JavaMap::new();
    for key in [33, 16, 1, 0, 17] {
        map.insert(key, ());
    }
    assert_eq!(keys(&map), [16, 0, 33, 1, 17]);
    assert!(map.remove(&33) && !map.remove(&33));
    map.insert(33, ());
    assert_eq!(keys(&map), [16, 0, 1, 17, 33]);
    // The thirteenth key doubles the table.
    for key in 2..9 {
        map.insert(key, ());
    }
    assert_eq!(keys(&map)[..4], [16, 0, 1, 17]);
    map.insert(9, ());
    assert_eq!(keys(&map), [0, 1, 33, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17]);
}

#[test]
fn computed_keys_come_first_in_their_buckets() {
    let mut map = JavaMap::new();
    for key in [0, 16, 32] {
        *map.entry(key, || 0) += 1;
    }
    *map.entry(16, || 0) += 1;
    assert_eq!(map.keys().copied().collect::<Vec<i32>>(), [32, 16, 0]);
    assert_eq!(map.get(&16), Some(&2));
}

#[test]
fn full_tables_double_before_the_next_computed_key() {
    let mut map = JavaMap::new();
    for key in [16, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12] {
        map.entry(key, || ());
    }
    assert_eq!(keys(&map)[0], 16, "thirteen keys in sixteen buckets");
    map.entry(12, || ());
    assert_eq!(keys(&map)[12], 16, "a look at any key doubles the table");
}

#[test]
fn a_long_bucket_doubles_a_small_table() {
    let mut map = JavaMap::new();
    for number in 0..8 {
        map.insert(16 * number, ());
    }
    assert_eq!(keys(&map), [0, 16, 32, 48, 64, 80, 96, 112]);
    map.insert(128, ());
    assert_eq!(keys(&map), [0, 32, 64, 96, 128, 16, 48, 80, 112]);
}

#[test]
fn table_size_follows_the_expected_key_count() {
    let mut map: JavaMap<i32, ()> = JavaMap::for_keys(2);
    map.insert(8, ());
    map.insert(7, ());
    // (2 + 1) / 0.75 + 1 is 5: eight buckets.
    assert_eq!(keys(&map), [8, 7]);
    let copy: JavaMap<i32, ()> = JavaMap::copy_of([31, 32, 33].into_iter());
    assert_eq!((keys(&copy), copy.len()), (vec![32, 33, 31], 3));
}
