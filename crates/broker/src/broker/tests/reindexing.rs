//! Indexes that a start trusts and that turn out to be wrong.

use std::fs;
use std::sync::Arc;

use levada_base::Append;
use levada_base::batch::Builder;
use levada_log::crash_disk::Recorder;
use levada_metadata::controller::NewTopic;

use super::crash::directory;
use super::crash::life::{Incarnation, Ways};
use crate::quota::MutationQuota;

#[test]
fn misleading_index_is_rebuilt_while_broker_runs() {
    let home = directory();
    let begin =
        || Incarnation::begin(Arc::new(Recorder::new(home.path())), home.path(), Ways::default()).unwrap();
    let now = begin();
    let topic =
        NewTopic { name: "t".to_owned(), partitions: 1, replication_factor: 1, ..NewTopic::default() };
    assert!(
        now.run(now.broker.controller().create_topics(vec![topic], MutationQuota::default(), false))
            .pop()
            .unwrap()
            .is_ok()
    );
    let partition = now.broker.replicas().partition("t", 0).unwrap();
    for _ in 0..40 {
        let mut batch = Builder::new();
        batch.push(0, None, Some(&[7; 3000]));
        let append = Append::client(batch.build().unwrap());
        now.run(async { partition.append(append, 0).wait().await }).unwrap();
    }
    partition.lane().with_writer(|writer| writer.roll(0)).unwrap().unwrap();
    now.broker.close();
    drop((partition, now));

    let index = home.path().join("t-0/00000000000000000000.index");
    let right = fs::read(&index).unwrap();
    let mut wrong = right.clone();
    wrong[..right.len() - 8].fill(0);
    fs::write(&index, &wrong).unwrap();

    let now = begin();
    let partition = now.broker.replicas().partition("t", 0).unwrap();
    now.run(now.broker.keep_house());
    assert_eq!(fs::read(&index).unwrap(), wrong, "nobody has been misled yet");
    let read_all = || {
        for offset in 0..40 {
            assert_eq!(partition.log().read(offset, 1, 40, true).unwrap().base_offset, offset);
        }
    };
    read_all();
    now.run(now.broker.keep_house());
    assert_eq!(fs::read(&index).unwrap(), right);
    read_all();
    assert!(!partition.log().has_misleading_index());
}
