//! The resources and keys of a request, each once.

use std::cell::Cell;

use super::*;

#[test]
fn repeated_config_resource_gets_one_result() {
    let ask = |name: &'static str, keys: Option<&'static str>| {
        message!(DescribeConfigsResource {
            resource_type: 2,
            resource_name: name.into(),
            configuration_keys: keys.map(|key| vec![key.into()]),
        })
    };
    let asked =
        vec![ask("a", None), ask("b", None), ask("a", None), ask("a", Some("k")), ask("a", Some("k"))];
    assert_eq!(distinct(asked), [ask("a", None), ask("b", None), ask("a", Some("k"))]);
}

#[test]
fn describe_configs_looks_up_each_resource_once() {
    let ask = |name: &'static str, key: String| {
        message!(DescribeConfigsResource {
            resource_type: 4,
            resource_name: name.into(),
            configuration_keys: Some(vec![text(key)]),
        })
    };
    let keys = (0..100).map(|number| if number == 7 { "known".to_owned() } else { format!("k{number}") });
    let asked: Vec<_> = keys.flat_map(|key| [ask("1", key.clone()), ask("2", key)]).collect();
    let looks = Cell::new(0);
    let look = |_: &DescribeConfigsResource| {
        looks.set(looks.get() + 1);
        let known = Described {
            name: "known".into(),
            value: None,
            source: ConfigSource::Default,
            origin: Origin::DynamicBroker,
            synonyms: Vec::new(),
            kind: ConfigType::Unknown,
            sensitive: false,
            read_only: false,
            doc: "",
        };
        Ok(vec![known])
    };
    let shape = Shape { synonyms: false, documentation: false, kind: false };
    let results = answers(&asked, look, |one| show(one.clone(), &shape));
    assert_eq!(looks.get(), 2);
    let names: Vec<_> = results.iter().map(|one| one.resource_name.as_str()).collect();
    assert_eq!(names, asked.iter().map(|one| one.resource_name.as_str()).collect::<Vec<_>>());
    let with: Vec<usize> = (0..200).filter(|place| !results[*place].configs.is_empty()).collect();
    assert_eq!(with, [14, 15], "the others name keys that the resource does not have");
}
