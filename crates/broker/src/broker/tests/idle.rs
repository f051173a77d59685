//! Writes to the device by an idle broker.

use std::sync::Arc;

use levada_base::Append;
use levada_base::batch::Builder;
use levada_log::crash_disk::Recorder;

use super::crash::directory;
use super::crash::life::Ways;
use super::upkeep::begin_on;

#[test]
fn idle_broker_makes_no_disk_changes() {
    let home = directory();
    let disk = Arc::new(Recorder::new(home.path()));
    let (now, partition) = begin_on(disk.clone(), &home, Ways::default());
    let keep_house = || {
        let before = disk.count();
        now.run(now.broker.keep_house());
        disk.count() - before
    };
    assert!(keep_house() > 0, "the first checkpoints");
    assert_eq!(keep_house(), 0);
    let append = || {
        let mut batch = Builder::new();
        batch.push(0, None, Some(b"one"));
        let append = Append::client(batch.build().unwrap());
        now.run(async { partition.append(append, 0).wait().await }).unwrap();
    };
    append();
    assert!(keep_house() > 0, "another high watermark");
    assert_eq!(keep_house(), 0);
    append();
    let checkpoint = home.path().join("replication-offset-checkpoint");
    let is_written = || std::fs::read_to_string(&checkpoint).unwrap().contains("t 0 2");
    let obstacle = home.path().join("replication-offset-checkpoint.tmp");
    std::fs::create_dir(&obstacle).unwrap();
    keep_house();
    assert!(!is_written());
    std::fs::remove_dir(&obstacle).unwrap();
    keep_house();
    assert!(is_written(), "the checkpoint that could not be written before");
    assert_eq!(keep_house(), 0);
}
