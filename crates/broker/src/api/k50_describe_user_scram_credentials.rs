//! DescribeUserScramCredentials (key 50), version 0.
//!
//! Nobody has credentials: the list of all is empty, and a user asked for by name is not found, as in a Kafka
//! without SCRAM users. kafka-configs asks this whenever it describes users.

use std::collections::HashMap;

use levada_wire::messages::describe_user_scram_credentials_response::DescribeUserScramCredentialsResult;
use levada_wire::messages::{DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse};

use crate::api::{Context, text};
use crate::error_code::ErrorCode;

pub(crate) async fn answer(
    _: &Context,
    request: DescribeUserScramCredentialsRequest,
) -> DescribeUserScramCredentialsResponse {
    let asked: Vec<String> = request.users.into_iter().flatten().map(|user| user.name.into_string()).collect();
    let mut times: HashMap<&str, usize> = HashMap::new();
    for user in &asked {
        *times.entry(user).or_default() += 1;
    }
    let mut shown: Vec<_> = times.into_iter().collect();
    shown.sort_unstable();
    let results = shown.into_iter().map(|(user, times)| {
        let (error, why) = match times {
            1 => (ErrorCode::ResourceNotFound, "Attempt to describe a user credential that does not exist"),
            _ => (
                ErrorCode::DuplicateResource,
                "Cannot describe SCRAM credentials for the same user twice in a single request",
            ),
        };
        message!(DescribeUserScramCredentialsResult {
            user: text(user),
            error_code: error.code(),
            error_message: Some(text(format!("{why}: {user}"))),
        })
    });
    message!(DescribeUserScramCredentialsResponse { results: results.collect() })
}
