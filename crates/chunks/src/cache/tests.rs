//! The cache on a real file system: fetches, remains of crashes, eviction, failing disks.

use std::collections::BTreeSet;
use std::os::unix::fs::FileExt;
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc;
use std::thread;

use levada_base::id_text;

use super::*;

const SEGMENT: IdBytes = [3; 16];

type TestCache = Cache<&'static str>;

fn key(number: u32) -> ChunkKey {
    ChunkKey { segment: SEGMENT, part: Part::Records(number) }
}

fn open(dir: &Path, parts: u64) -> (TestCache, Opened) {
    Cache::open(dir.join("cache"), parts * 100).unwrap()
}

fn content(number: u32) -> Vec<u8> {
    (0..100).map(|at| (at * 7 + number) as u8).collect()
}

/// The part, which is fetched if necessary; true if it was fetched.
fn obtain(cache: &TestCache, number: u32) -> (Vec<u8>, bool) {
    let mut fetched = false;
    let chunk = cache.obtain(key(number), Some(100), |into| {
        fetched = true;
        into.write_all(&content(number)).map_err(|_| "cannot write")
    });
    (bytes(&chunk.unwrap()), fetched)
}

fn bytes(chunk: &Chunk) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(chunk.len).unwrap()];
    chunk.file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

fn names(dir: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(dir.join("cache")).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn part_is_fetched_once() {
    let dir = tempfile::tempdir().unwrap();
    let (cache, opened) = open(dir.path(), 4);
    assert_eq!(opened, Opened::default());
    assert!(cache.there(key(1)).is_none());
    assert_eq!(obtain(&cache, 1), (content(1), true));
    assert_eq!(obtain(&cache, 1), (content(1), false));
    assert_eq!(bytes(&cache.there(key(1)).unwrap()), content(1));
    let counts = cache.counts();
    assert_eq!((counts.hits, counts.misses, counts.fetched_bytes), (2, 1, 100));
    assert_eq!((counts.bytes, counts.parts), (100, 1));
}

#[test]
fn parts_survive_a_restart_after_a_check() {
    let dir = tempfile::tempdir().unwrap();
    let (cache, _) = open(dir.path(), 4);
    for number in 0..3 {
        obtain(&cache, number);
    }
    drop(cache);
    let (cache, opened) = open(dir.path(), 4);
    assert_eq!(opened, Opened { parts: 3, removed: 0 });
    assert!(cache.has(key(0)) && cache.there(key(0)).is_none(), "its bytes were not compared yet");
    for number in 0..3 {
        assert_eq!(obtain(&cache, number), (content(number), false));
    }
    assert!(cache.there(key(0)).is_some());
    assert_eq!(cache.counts().misses, 0);
}

#[test]
fn damaged_parts_are_fetched_again() {
    let dir = tempfile::tempdir().unwrap();
    for damage in ["bit", "trailer", "zeroes", "other"] {
        let (cache, _) = open(dir.path(), 4);
        obtain(&cache, 1);
        drop(cache);
        let path = dir.path().join("cache").join(key(1).file_name());
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        match damage {
            "bit" => file.write_all_at(&[content(1)[50] ^ 1], 50).unwrap(),
            "trailer" => file.write_all_at(&[0; 10], 110).unwrap(),
            "zeroes" => {
                file.set_len(0).unwrap();
                file.set_len(148).unwrap();
            }
            _ => fs::rename(&path, dir.path().join("cache").join(key(2).file_name())).unwrap(),
        }
        let (cache, opened) = open(dir.path(), 4);
        assert_eq!(opened.parts, 1, "{damage}");
        let number = if damage == "other" { 2 } else { 1 };
        assert_eq!(obtain(&cache, number), (content(number), true), "{damage}");
    }
}

#[test]
fn cache_start_removes_incomplete_parts() {
    let dir = tempfile::tempdir().unwrap();
    let (cache, _) = open(dir.path(), 4);
    obtain(&cache, 1);
    drop(cache);
    let at = |name: &str| dir.path().join("cache").join(name);
    fs::write(at(&key(2).unfinished_name()), b"half").unwrap();
    fs::write(at(&key(3).file_name()), b"short").unwrap();
    let kafkas = format!("12_{}.index", id_text(SEGMENT));
    fs::write(at(&kafkas), b"of another broker").unwrap();
    let huge = File::create(at(&key(4).file_name())).unwrap();
    huge.set_len(CHUNK_BYTES + TRAILER_LEN as u64 + 1).unwrap();
    let (cache, opened) = open(dir.path(), 4);
    assert_eq!(opened, Opened { parts: 1, removed: 3 });
    assert_eq!(names(dir.path()), BTreeSet::from([key(1).file_name(), kafkas]));
    assert_eq!(cache.counts().bytes, 100);
}

#[test]
fn smaller_cache_keeps_the_newest_parts() {
    let dir = tempfile::tempdir().unwrap();
    let (cache, _) = open(dir.path(), 4);
    for number in 0..4 {
        obtain(&cache, number);
        let file = File::open(dir.path().join("cache").join(key(number).file_name())).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(u64::from(number)))
            .unwrap();
    }
    drop(cache);
    let (cache, opened) = open(dir.path(), 2);
    assert_eq!(opened, Opened { parts: 2, removed: 2 });
    assert!(cache.has(key(2)) && cache.has(key(3)));
}

#[test]
fn evicted_part_stays_readable_by_its_holder() {
    let dir = tempfile::tempdir().unwrap();
    let (cache, _) = open(dir.path(), 2);
    let held = cache.obtain(key(0), Some(100), |into| into.write_all(&content(0)).map_err(|_| "no")).unwrap();
    for number in 1..4 {
        obtain(&cache, number);
    }
    assert!(!cache.has(key(0)));
    assert_eq!(names(dir.path()), BTreeSet::from([key(2).file_name(), key(3).file_name()]));
    assert_eq!(bytes(&held), content(0));
    assert_eq!((cache.counts().evictions, cache.counts().bytes), (2, 200));
}

#[test]
fn concurrent_readers_share_a_fetch_and_its_error() {
    let dir = tempfile::tempdir().unwrap();
    let (cache, _) = open(dir.path(), 4);
    for (round, fails) in [true, false].into_iter().enumerate() {
        let fetches = AtomicUsize::new(0);
        let (begun, begins) = mpsc::channel();
        let (go, goes) = mpsc::channel();
        let results: Vec<_> = thread::scope(|scope| {
            let first = scope.spawn(|| {
                let goes = goes;
                cache.obtain(key(1), Some(100), |into| {
                    begun.send(()).unwrap();
                    goes.recv().unwrap();
                    fetches.fetch_add(1, Ordering::Relaxed);
                    into.write_all(&content(1)).unwrap();
                    if fails { Err("gone") } else { Ok(()) }
                })
            });
            begins.recv().unwrap();
            let waiting = (0..3).map(|_| {
                let asked = cache.counts().hits;
                let waiter = scope.spawn(|| cache.obtain(key(1), Some(100), |_| panic!("a second fetch")));
                while cache.counts().hits == asked {
                    thread::yield_now();
                }
                waiter
            });
            let waiting: Vec<_> = waiting.collect();
            go.send(()).unwrap();
            waiting.into_iter().chain([first]).map(|one| one.join().unwrap()).collect()
        });
        assert_eq!(fetches.into_inner(), 1, "round {round}");
        for result in results {
            match result {
                Ok(chunk) => assert_eq!((bytes(&chunk), fails), (content(1), false)),
                Err(error) => assert!(fails && matches!(error, ChunkError::Fetch("gone")), "{error}"),
            }
        }
        assert_eq!(cache.has(key(1)), !fails);
    }
}

#[test]
fn panicking_fetch_does_not_block_the_part() {
    let dir = tempfile::tempdir().unwrap();
    let (cache, _) = open(dir.path(), 4);
    let fetch = || cache.obtain(key(1), Some(100), |_| panic!("the fetch ends"));
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(fetch)).is_err());
    assert_eq!(cache.counts().bytes, 0);
    assert_eq!(obtain(&cache, 1), (content(1), true));
}

#[test]
fn fetches_of_wrong_lengths_are_errors() {
    let dir = tempfile::tempdir().unwrap();
    let (cache, _) = open(dir.path(), 4);
    let send = |count: usize| {
        let fetch = move |into: &mut dyn Write| into.write_all(&vec![1; count]).map_err(|_| "cannot write");
        cache.obtain(key(1), Some(100), fetch)
    };
    assert!(matches!(send(99), Err(ChunkError::Length { found: 99, expected: 100, .. })));
    assert!(matches!(send(101), Err(ChunkError::Fetch("cannot write"))));
    assert_eq!(names(dir.path()), BTreeSet::new());
    assert_eq!(cache.counts().bytes, 0);
}

#[test]
fn cached_index_may_have_any_length() {
    let dir = tempfile::tempdir().unwrap();
    let (cache, _) = open(dir.path(), 4);
    let empty = ChunkKey { segment: SEGMENT, part: Part::Aborted };
    assert_eq!(cache.obtain(empty, None, |_| Ok(())).unwrap().len, 0);
    assert_eq!(cache.there(empty).unwrap().len, 0);
    let index = ChunkKey { segment: SEGMENT, part: Part::Offsets };
    let fetched = cache.obtain(index, None, |into| into.write_all(&[7; 300]).map_err(|_| "no")).unwrap();
    assert_eq!(bytes(&fetched), vec![7; 300]);
}

#[test]
fn lost_directory_fails_only_the_fetch() {
    let dir = tempfile::tempdir().unwrap();
    let (cache, _) = open(dir.path(), 4);
    obtain(&cache, 1);
    fs::remove_dir_all(dir.path().join("cache")).unwrap();
    let lost = cache.obtain(key(2), Some(100), |_| panic!("there is no file to write to"));
    let message = lost.unwrap_err().to_string();
    assert!(message.contains("cannot create a part of the remote cache"), "{message}");
    assert!(cache.there(key(1)).is_none());
    fs::create_dir(dir.path().join("cache")).unwrap();
    assert_eq!(obtain(&cache, 1), (content(1), true));
}

#[test]
fn forgotten_segment_loses_its_cached_files() {
    let dir = tempfile::tempdir().unwrap();
    let (cache, _) = open(dir.path(), 4);
    obtain(&cache, 1);
    obtain(&cache, 2);
    cache.forget([4; 16]);
    assert_eq!(cache.counts().parts, 2);
    cache.forget(SEGMENT);
    assert_eq!((cache.counts().parts, cache.counts().bytes), (0, 0));
    assert_eq!(names(dir.path()), BTreeSet::new());
}
