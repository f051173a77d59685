//! The shape of topics that a cluster creates on demand.

use levada_config::{BrokerConfig, Sources};
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::CreateTopicsResponse;
use levada_wire::messages::create_topics_response::CreatableTopicResult;

use super::{Created, own_shape};

#[test]
fn unset_topic_defaults_are_left_to_controller() {
    let shape =
        |flags: &[&str]| own_shape(&BrokerConfig::load(&Sources::flags(flags.iter().copied())).unwrap());
    assert_eq!(shape(&[]), (-1, -1));
    assert_eq!(shape(&["num.partitions=1"]), (1, -1), "the default, but set");
    assert_eq!(shape(&["default.replication.factor=3"]), (-1, 3));
    assert_eq!(shape(&["num.partitions=6", "default.replication.factor=2"]), (6, 2));
}

#[test]
fn controller_outcomes_are_reported_per_topic() {
    let result = |name: &str, error: ErrorCode, message: Option<&str>| {
        let mut result = CreatableTopicResult::default();
        result.name = name.into();
        (result.error_code, result.error_message) = (error.code(), message.map(Into::into));
        result
    };
    let mut response = CreateTopicsResponse::default();
    response.topics = vec![
        result("new", ErrorCode::None, None),
        result("there", ErrorCode::TopicAlreadyExists, Some("it exists")),
        result("many", ErrorCode::PolicyViolation, Some("too many partitions")),
        result("bare", ErrorCode::InvalidConfig, Some("")),
    ];
    let told = |names: &[&str], answer| {
        let names = names.iter().map(|&name| name.to_owned()).collect();
        let created = Created::by_controller(names, &answer).into_iter();
        created.map(|one| (one.topic, one.outcome.unwrap_err())).collect::<Vec<_>>()
    };
    let pair = |topic: &str, reason: &str| (topic.to_owned(), reason.to_owned());
    let failed = told(&["new", "there", "many", "bare"], Ok(response));
    assert_eq!(failed, [pair("many", "too many partitions"), pair("bare", "INVALID_CONFIG")]);
    let late = told(&["a", "b"], Err(ErrorCode::RequestTimedOut));
    assert_eq!(late, [pair("a", "REQUEST_TIMED_OUT"), pair("b", "REQUEST_TIMED_OUT")]);
}
