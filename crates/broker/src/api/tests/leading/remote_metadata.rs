//! The end of the metadata of remote segments, up to which a broker reads before it takes what it
//! knows for all.

use levada_base::Append;
use levada_base::batch::Builder;
use levada_metadata::records::PartitionChangeRecord;
use levada_tiered::record::METADATA_TOPIC;
use levada_wire::Uuid;

use super::rig::{Rig, change};

const TOPIC: Uuid = Uuid::from_bytes([8; 16]);

#[test]
fn metadata_end_is_unknown_until_epoch_replicates() {
    let mut rig = Rig::start();
    rig.create(TOPIC, METADATA_TOPIC);
    let tiers = rig.broker.tiers().clone();
    assert_eq!(tiers.feed_end(0), Some(0));
    let partition = rig.broker.replicas().partition(METADATA_TOPIC, 0).unwrap();
    let mut batch = Builder::new();
    batch.push(0, None, Some(b"a record"));
    let append = Append::client(batch.build().unwrap());
    rig.run(async { partition.append(append, 0).wait().await.unwrap() });
    let node = rig.node;
    rig.publish(&[PartitionChangeRecord { leader: node, ..change(TOPIC) }.into()]);
    assert_eq!(tiers.feed_end(0), None, "the high watermark is older than the election");
    rig.publish(&[PartitionChangeRecord { isr: Some(vec![node]), ..change(TOPIC) }.into()]);
    assert_eq!(tiers.feed_end(0), Some(1));
}
