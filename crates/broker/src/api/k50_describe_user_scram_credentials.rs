//! DescribeUserScramCredentials (key 50), version 0.
//!
//! The users with credentials, the mechanisms and the numbers of iterations; never the credentials.
//! A user of the request without credentials gets RESOURCE_NOT_FOUND. Checks Describe on the
//! cluster.

use std::collections::{BTreeMap, BTreeSet};

use levada_metadata::image::Image;
use levada_security::acl::Operation;
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::describe_user_scram_credentials_response::{
    CredentialInfo, DescribeUserScramCredentialsResult,
};
use levada_wire::messages::{
    DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse, StrBytes,
};

use crate::api::{Context, text};

pub(crate) async fn answer(
    context: &Context,
    request: DescribeUserScramCredentialsRequest,
) -> DescribeUserScramCredentialsResponse {
    if !context.may_cluster(Operation::Describe) {
        let error_code = ErrorCode::ClusterAuthorizationFailed.code();
        // As in Kafka, an entry without a name for each user of the request.
        let refused =
            message!(DescribeUserScramCredentialsResult { error_code: error_code, error_message: None });
        let results = vec![refused; request.users.map_or(0, |users| users.len())];
        return message!(DescribeUserScramCredentialsResponse {
            error_code: error_code,
            error_message: None,
            results: results,
        });
    }
    let image = context.broker().metadata().image();
    let asked = request.users.filter(|users| !users.is_empty());
    let mut times: BTreeMap<StrBytes, usize> = BTreeMap::new();
    match asked {
        Some(users) => {
            users.into_iter().for_each(|user| *times.entry(user.name).or_default() += 1);
        }
        None => {
            let all: BTreeSet<&str> = image.credentials().iter().map(|(user, _, _)| user).collect();
            times.extend(all.into_iter().map(|user| (user.into(), 1)));
        }
    }
    let results = times.into_iter().map(|(user, times)| describe(&image, user, times > 1));
    message!(DescribeUserScramCredentialsResponse { results: results.collect() })
}

fn describe(image: &Image, user: StrBytes, twice: bool) -> DescribeUserScramCredentialsResult {
    let refuse = |user: StrBytes, error: ErrorCode, why: &str| {
        message!(DescribeUserScramCredentialsResult {
            error_message: Some(text(format!("{why}: {user}"))),
            user: user,
            error_code: error.code(),
        })
    };
    if twice {
        let why = "Cannot describe SCRAM credentials for the same user twice in a single request";
        return refuse(user, ErrorCode::DuplicateResource, why);
    }
    let Some(credentials) = image.credentials().of(user.as_str()) else {
        let why = "Attempt to describe a user credential that does not exist";
        return refuse(user, ErrorCode::ResourceNotFound, why);
    };
    let infos = credentials.iter().map(|(mechanism, credential)| {
        message!(CredentialInfo { mechanism: *mechanism, iterations: credential.iterations })
    });
    message!(DescribeUserScramCredentialsResult { user: user, credential_infos: infos.collect() })
}
