//! AlterUserScramCredentials (key 51), version 0.
//!
//! Sets and removes users' SCRAM credentials, one change per user; the changes take effect before
//! the response. The stored keys are derived from the salted password, which is not stored. Checks
//! Alter on the cluster.

use std::collections::BTreeSet;

use levada_metadata::controller::AlterCredential;
use levada_security::acl::Operation;
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::alter_user_scram_credentials_response::AlterUserScramCredentialsResult;
use levada_wire::messages::{AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse};

use crate::api::access::forbidden;
use crate::api::changes::Before;
use crate::api::{Context, text};

pub(crate) async fn answer(
    context: &Context,
    request: AlterUserScramCredentialsRequest,
) -> AlterUserScramCredentialsResponse {
    let deletions = request
        .deletions
        .into_iter()
        .map(|one| AlterCredential::Delete { user: one.name.into_string(), mechanism: one.mechanism });
    let upsertions = request.upsertions.into_iter().map(|one| AlterCredential::Set {
        user: one.name.into_string(),
        mechanism: one.mechanism,
        iterations: one.iterations,
        salt: one.salt.to_vec(),
        salted_password: one.salted_password.to_vec(),
    });
    let changes: Vec<AlterCredential> = deletions.chain(upsertions).collect();
    let users: BTreeSet<String> = changes.iter().map(|change| change.user().to_owned()).collect();
    let before = Before::of(context);
    let results = if context.may_cluster(Operation::Alter) {
        context.broker().controller().alter_credentials(changes, users.into_iter().collect()).await
    } else {
        let refused = |user| (user, Err(forbidden(ErrorCode::ClusterAuthorizationFailed)));
        users.into_iter().map(refused).collect()
    };
    before.credentials(context, results.iter().map(|(user, _)| &**user));
    let results = results.into_iter().map(|(user, altered)| {
        let mut result = message!(AlterUserScramCredentialsResult { user: text(user), error_message: None });
        if let Err(failure) = altered {
            result.error_code = failure.code.code();
            result.error_message = failure.message.map(text);
        }
        result
    });
    message!(AlterUserScramCredentialsResponse { results: results.collect() })
}
