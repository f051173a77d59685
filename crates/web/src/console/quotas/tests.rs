//! Quotas in words.

use levada_wire::StrBytes;

use super::*;

fn entity(kind: &'static str, name: Option<&'static str>) -> EntityData {
    let mut entity = EntityData::default();
    (entity.entity_type, entity.entity_name) = (StrBytes::from(kind), name.map(StrBytes::from));
    entity
}

#[test]
fn a_quota_names_its_clients_and_unit() {
    let both = [entity("user", Some("<i>alice")), entity("client-id", None)];
    assert_eq!(clients(&both), "user <i>alice, every other client-id");
    assert_eq!(limit("producer_byte_rate", 1_048_576.0), "1.00 MiB/s");
    assert_eq!(limit("request_percentage", 12.5), "12.5 % of a thread");
    assert_eq!(limit("connection_creation_rate", 5.0), "5/s");
}

#[test]
fn hostile_quota_name_is_escaped() {
    let mut entry = EntryData::default();
    entry.entity = vec![entity("user", Some("<script>"))];
    entry.values = vec![Default::default()];
    let list = list(&[entry]).into_string();
    assert!(list.contains("user &lt;script&gt;") && !list.contains("<script>"), "{list}");
    assert!(super::list(&[]).into_string().contains("No quota"));
}
