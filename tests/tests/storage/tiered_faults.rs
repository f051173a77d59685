//! Tiered storage under faults: a broker that is killed in each step of a copy and of a deletion, a
//! full disk below the cache of remote records, and objects that were truncated or changed.
//!
//! Suite: short; 15 s; needs s3; share tiers

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use levada_tests::sick_store::{ObjectServer, SickStore, Sickness};
use levada_tests::tiers::{
    EARLIEST, EARLIEST_LOCAL, LATEST, LATEST_TIERED, TieredNode, await_segments, segments,
};
use levada_tests::{await_some, not_run, paths, process};

const LIMIT: Duration = Duration::from_secs(60);
const UNKNOWN_SERVER_ERROR: i16 = -1;
/// Runs a broker whose cache directory is a small separate file system.
const ON_SMALL_CACHE: &str = r#"mkdir -p "$0" && mount -t tmpfs -o size=1m tmpfs "$0" && exec "$@""#;

/// A request to the store: a method, a part of the path, and the number of such requests before it.
type Step = (&'static str, &'static str, usize);

/// Has a request hang, does something that leads to it, and kills the broker meanwhile.
fn kill_at(tiered: &mut TieredNode, sick: &SickStore, step: Step, lead: impl FnOnce(&TieredNode)) {
    println!("---- killed at {step:?}");
    let (method, path, before) = step;
    if before > 0 {
        // Whole answers.
        sick.fail(method, path, Sickness::Cut(1 << 20), before);
    }
    sick.fail(method, path, Sickness::Silence, 1);
    lead(tiered);
    let what = format!("{step:?}: {}", tiered.node.talk());
    await_some(&what, LIMIT, || (sick.left() == 0).then_some(()));
    tiered.node.kill();
    tiered.node.start();
}

#[test]
fn killed_broker_leaves_no_orphans_or_gaps() {
    if !paths::object_server().exists() {
        return not_run("a server of the S3 protocol is not installed: cargo xtask deps s3");
    }
    let server = ObjectServer::start();
    let sick = SickStore::before(server.address());
    let Some(mut tiered) = TieredNode::in_bucket(&sick.url()) else { return };
    tiered.node.start();
    tiered.create(1);
    let mut end = 1;
    tiered.fill(0, 0..end);
    for object in [".log", ".indexes", ".rsm-manifest"] {
        kill_at(&mut tiered, &sick, ("PUT", object, 0), |tiered| tiered.fill(0, end..end + 1));
        end += 1;
        tiered.await_listed(LATEST_TIERED, end - 2);
        tiered.await_listed(EARLIEST_LOCAL, end - 1);
        assert_eq!([EARLIEST, LATEST].map(|time| tiered.listed(0, time)), [0, end]);
    }
    tiered.fill(0, end..8);
    tiered.await_listed(LATEST_TIERED, 6);
    let all = tiered.replay(0..8);
    tiered.assert_sound(7);
    // Of each segment, the manifest is deleted first, then the records, then the indexes.
    for start in 1..4 {
        let before = usize::try_from(start - 1).expect("a small number");
        kill_at(&mut tiered, &sick, ("POST", "?delete", before), |tiered| {
            tiered.node.levada(&format!("topic trim clicks --to {start} --yes")).run();
        });
        let bucket = server.file("broker");
        let left = 6 - before;
        await_some("the objects are gone", LIMIT, || (objects(&bucket) == 3 * left).then_some(()));
        tiered.await_listed(EARLIEST, start);
        assert!(all.ends_with(&tiered.replay(start..8)), "the records from {start} on");
        await_some("the deletion in the metadata", LIMIT, || {
            let said = tiered.storage("check").outcome().1;
            said.stdout.contains(&format!("{left} segments with")).then_some(())
        });
        await_some("the end of the deletion", LIMIT, || {
            tiered.storage("check").outcome().1.stdout.contains(" 0 unfinished").then_some(())
        });
        tiered.assert_sound(left);
    }
}

/// Number of objects of segments below a directory of the server.
fn objects(dir: &Path) -> usize {
    let mut count = 0;
    for path in fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()) {
        let is_ours = path
            .extension()
            .is_some_and(|end| ["log", "indexes", "rsm-manifest"].iter().any(|own| end == *own));
        count += if path.is_dir() { objects(&path) } else { usize::from(is_ours) };
    }
    count
}

#[test]
fn full_cache_disk_fails_only_remote_reads() {
    if !process::namespaces_allowed() {
        return not_run("a full disk: there are no user namespaces");
    }
    let dir = tempfile::tempdir().expect("a directory");
    let store = dir.path();
    let Some(mut tiered) = TieredNode::in_directory(store, "aiven") else { return };
    let cache = tiered.node.data().join("remote-log-index-cache");
    let shown = cache.display().to_string();
    let namespace = ["unshare", "--user", "--map-root-user", "--mount", "--fork", "sh", "-c"];
    tiered.node.wrap(&[&namespace[..], &[ON_SMALL_CACHE, &shown]].concat());
    tiered.node.start();
    tiered.create(1);
    tiered.fill(0, 0..5);
    tiered.await_listed(EARLIEST_LOCAL, 4);
    let inside = PathBuf::from(format!("/proc/{}/root{shown}", tiered.node.pid()));
    let ballast = inside.join("ballast");
    let mut file = fs::File::create(&ballast).expect("a file");
    while file.write_all(&[0; 4096]).is_ok() {}
    await_some("an error for remote records", LIMIT, || {
        let (error, records) = tiered.fetch(0);
        assert!(records.is_empty());
        (error == UNKNOWN_SERVER_ERROR).then_some(())
    });
    let (error, records) = tiered.fetch(4);
    assert!(error == 0 && !records.is_empty(), "local records are served");
    tiered.fill(0, 5..6);
    drop(file);
    fs::remove_file(&ballast).expect("the ballast is there");
    assert!(!tiered.replay(0..6).is_empty());
}

#[test]
fn changed_object_fails_only_its_own_reads() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = dir.path();
    let Some(mut tiered) = TieredNode::in_directory(store, "aiven") else { return };
    tiered.node.start();
    tiered.create(1);
    tiered.fill(0, 0..6);
    await_segments(&tiered, store, 5);
    tiered.await_listed(EARLIEST_LOCAL, 5);
    let objects = segments(store);
    let log = fs::read(&objects[1]).expect("an object");
    fs::write(&objects[1], &log[..log.len() / 2]).expect("a write");
    // A manifest whose offset index has four gigabytes.
    let path = objects[3].with_extension("rsm-manifest");
    let manifest = fs::read_to_string(&path).expect("a manifest");
    let mut manifest: serde_json::Value = serde_json::from_str(&manifest).expect("JSON");
    manifest["segmentIndexes"]["offset"]["size"] = serde_json::json!(u32::MAX);
    fs::write(&path, manifest.to_string()).expect("a write");
    for (offset, is_whole) in [(0, true), (1, false), (2, true), (3, false), (4, true), (5, true)] {
        await_some(&format!("an answer for offset {offset}"), LIMIT, || {
            let (error, records) = tiered.fetch(offset);
            let expected = if is_whole { 0 } else { UNKNOWN_SERVER_ERROR };
            (error == expected && records.is_empty() != is_whole).then_some(())
        });
    }
    tiered.node.assert_running("after damaged objects");
    let (code, said) = tiered.storage("check").outcome();
    assert!(code == Some(1) && said.stdout.contains("DAMAGED"), "{said:?}");
}
