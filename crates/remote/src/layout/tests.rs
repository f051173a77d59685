//! Tests of the names of objects.

use super::*;

const ID: &str = "MWJ6FHTfRYy67jzwZdeqSQ";
const SEGMENT: &str = "tqimKeZwStOEOwRzT3L5oQ";

#[test]
fn names_of_both_layouts_are_read() {
    let file = format!("00000000000000001234-{SEGMENT}.log");
    for (layout, key) in [
        (StoreLayout::Aiven, format!("a-b-3-{ID}/7/{file}")),
        (StoreLayout::Local, format!("a-b-3-7-{ID}/{file}")),
    ] {
        let name = object_name(layout, &key).unwrap();
        assert_eq!((&*name.id.partition.topic, name.id.partition.partition), ("a-b-3", 7), "{key}");
        assert_eq!((name.start_offset, &*name.suffix), (1234, "log"));
        assert_eq!(name.id.partition.topic_id.to_bytes(), parse_id(ID).unwrap());
        assert_eq!(name.id.id.to_bytes(), parse_id(SEGMENT).unwrap());
    }
}

#[test]
fn foreign_object_names_are_ignored() {
    for key in [
        format!("t-{ID}/7/1234-{SEGMENT}.log"),
        format!("t-{ID}/7/0000000000000000123x-{SEGMENT}.log"),
        format!("t-{ID}/7/99999999999999999999-{SEGMENT}.log"),
        format!("t-{ID}/x/00000000000000001234-{SEGMENT}.log"),
        format!("t-{ID}/7/00000000000000001234-{SEGMENT}"),
        format!("t-{ID}/7/00000000000000001234-short.log"),
        format!("{ID}/7/00000000000000001234-{SEGMENT}.log"),
        format!("00000000000000001234-{SEGMENT}.log"),
        String::new(),
        "\u{e4}/\u{e4}.\u{e4}".to_owned(),
    ] {
        for layout in [StoreLayout::Aiven, StoreLayout::Local] {
            assert_eq!(object_name(layout, &key), None, "{key}");
        }
    }
}
