//! Tests of the ids of events.

use super::*;

#[test]
fn tail_event_id_restores_positions() {
    let places = BTreeMap::from([(0, 12), (7, 0), (63, i64::MAX)]);
    assert_eq!(id(&places), "0:12,7:0,63:9223372036854775807");
    assert_eq!(positions(&id(&places)), places);
    assert_eq!(positions(""), BTreeMap::new());
    assert_eq!(positions("x:1,2,3:4:5,6:-,8:9"), BTreeMap::from([(8, 9)]));
}
