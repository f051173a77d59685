//! The resources and keys of a request, each once.

use super::*;

#[test]
fn the_same_question_is_answered_once() {
    let ask = |name: &'static str, keys: Option<&'static str>| {
        message!(DescribeConfigsResource {
            resource_type: 2,
            resource_name: name.into(),
            configuration_keys: keys.map(|key| vec![key.into()]),
        })
    };
    let asked = vec![ask("a", None), ask("b", None), ask("a", None), ask("a", Some("k")), ask("a", Some("k"))];
    assert_eq!(distinct(asked), [ask("a", None), ask("b", None), ask("a", Some("k"))]);
}
