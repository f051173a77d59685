//! Tests of the commands that a refusal names.

use super::*;

fn shown(user: &str, resource: &str) -> String {
    let refused = check(ErrorCode::GroupAuthorizationFailed.code(), None, || "show it".to_owned());
    refused.needing("describe", resource).unwrap_err().shown(user).into_string()
}

#[test]
fn copyable_command_quotes_hostile_names() {
    let usual = shown("ann", "--topic a.b-c_1");
    assert!(
        usual.contains("<code>levada acl add 'User:ann' --allow describe --topic a.b-c_1</code>"),
        "{usual}"
    );
    assert!(usual.contains("User:ann may not describe topic a.b-c_1."), "{usual}");
    let hostile = shown("o'neil", "--group x;touch y'z");
    let command = r"<code>levada acl add 'User:o'\''neil' --allow describe --group 'x;touch y'\''z'</code>";
    assert!(hostile.contains(command), "{hostile}");
    let cluster = shown("ann", "--cluster");
    assert!(cluster.contains("--allow describe --cluster</code>"), "{cluster}");
    assert!(cluster.contains("User:ann may not describe the cluster."), "{cluster}");
}

#[test]
fn unknown_subjects_are_not_found() {
    let refused = |code: ErrorCode| check(code.code(), None, || "show it".to_owned()).unwrap_err();
    for code in [ErrorCode::UnknownTopicOrPartition, ErrorCode::UnknownTopicId, ErrorCode::GroupIdNotFound] {
        let failed = refused(code);
        assert_eq!((failed.status(), failed.title()), (StatusCode::NOT_FOUND, "Not found"), "{code:?}");
    }
    let failed = refused(ErrorCode::TopicAlreadyExists);
    assert_eq!((failed.status(), failed.title()), (StatusCode::CONFLICT, "Not done"));
}

#[test]
fn refused_page_part_names_the_granting_command() {
    let refused =
        check(ErrorCode::ClusterAuthorizationFailed.code(), None, || "show the settings".to_owned());
    let part = refused.needing("describe-configs", "--cluster").unwrap_err().explained("ann").into_string();
    let command = "<code>levada acl add 'User:ann' --allow describe-configs --cluster</code>";
    assert!(part.contains(command) && !part.contains("Back"), "{part}");
}
