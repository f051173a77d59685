//! The shape of topics that a cluster creates on demand.

use levada_config::{BrokerConfig, Sources};

use super::own_shape;

#[test]
fn the_controller_decides_what_the_file_of_the_broker_leaves_open() {
    let shape =
        |flags: &[&str]| own_shape(&BrokerConfig::load(&Sources::flags(flags.iter().copied())).unwrap());
    assert_eq!(shape(&[]), (-1, -1));
    assert_eq!(shape(&["num.partitions=1"]), (1, -1), "the default, but set");
    assert_eq!(shape(&["default.replication.factor=3"]), (-1, 3));
    assert_eq!(shape(&["num.partitions=6", "default.replication.factor=2"]), (6, 2));
}
