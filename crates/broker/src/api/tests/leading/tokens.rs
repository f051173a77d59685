//! Requests for delegation tokens that the broker itself refuses, in a cluster too. The broker of
//! the test has no secret key: it refuses the others because of that.

use std::net::Ipv4Addr;

use levada_config::Protocol;
use levada_security::Session;
use levada_wire::ApiKey;
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::create_delegation_token_request::CreatableRenewers;
use levada_wire::messages::{
    CreateDelegationTokenRequest, CreateDelegationTokenResponse, DescribeDelegationTokenRequest,
    ExpireDelegationTokenRequest, RenewDelegationTokenRequest,
};

use super::rig::Rig;
use crate::api::{
    Context, k38_create_delegation_token, k39_renew_delegation_token, k40_expire_delegation_token,
    k41_describe_delegation_token,
};

const ADMITTED: ErrorCode = ErrorCode::DelegationTokenAuthDisabled;
const NOT_ALLOWED: ErrorCode = ErrorCode::DelegationTokenRequestNotAllowed;

fn alice() -> Session {
    Session::new("alice", Ipv4Addr::LOCALHOST.into())
}

fn create(
    context: &Context,
    rig: &Rig,
    request: CreateDelegationTokenRequest,
) -> CreateDelegationTokenResponse {
    rig.run(k38_create_delegation_token::answer(context, request))
}

/// A request for a token of this owner; the client itself if the name is empty.
fn request_for(kind: Option<&str>, owner: &str) -> CreateDelegationTokenRequest {
    message!(CreateDelegationTokenRequest {
        owner_principal_type: kind.map(Into::into),
        owner_principal_name: Some(owner.into()),
    })
}

#[test]
fn anonymous_or_token_clients_may_not_manage_tokens() {
    let rig = Rig::start();
    let anonymous = || Session::anonymous(Ipv4Addr::LOCALHOST.into());
    let by_token = || Session::by_token("alice", Ipv4Addr::LOCALHOST.into());
    let cases = [
        (Protocol::Plaintext, anonymous(), NOT_ALLOWED),
        (Protocol::Ssl, anonymous(), NOT_ALLOWED),
        (Protocol::Ssl, alice(), ADMITTED),
        (Protocol::SaslPlaintext, alice(), ADMITTED),
        (Protocol::SaslSsl, alice(), ADMITTED),
        (Protocol::SaslPlaintext, by_token(), NOT_ALLOWED),
        (Protocol::SaslSsl, by_token(), NOT_ALLOWED),
    ];
    for (protocol, session, expected) in cases {
        let context = |api| rig.context_of((api, 1), (protocol, session.clone()));
        let created = create(&context(ApiKey::CreateDelegationToken), &rig, Default::default());
        let (renew, expire) = Default::default();
        let renewed = rig.run(k39_renew_delegation_token::answer(
            &context(ApiKey::RenewDelegationToken),
            RenewDelegationTokenRequest::clone(&renew),
        ));
        let expired = rig.run(k40_expire_delegation_token::answer(
            &context(ApiKey::ExpireDelegationToken),
            ExpireDelegationTokenRequest::clone(&expire),
        ));
        let described = rig.run(k41_describe_delegation_token::answer(
            &context(ApiKey::DescribeDelegationToken),
            DescribeDelegationTokenRequest::default(),
        ));
        let codes = [created.error_code, renewed.error_code, expired.error_code];
        assert_eq!(codes, [expected.code(); 3], "{protocol:?} {session:?}");
        if expected == NOT_ALLOWED {
            assert_eq!(created.principal_name.as_str(), session.user());
            let times =
                [created.issue_timestamp_ms, renewed.expiry_timestamp_ms, expired.expiry_timestamp_ms];
            assert_eq!(times, [-1; 3]);
            assert_eq!(described.error_code, NOT_ALLOWED.code());
        } else {
            assert_eq!(described.error_code, ADMITTED.code());
            // As in Kafka, the controller has no times for its refusals, and the broker has -1.
            let times =
                [created.issue_timestamp_ms, renewed.expiry_timestamp_ms, expired.expiry_timestamp_ms];
            assert_eq!(times, [0; 3]);
        }
    }
}

#[test]
fn create_token_checks_owner_permission_and_renewers() {
    let authorizer = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer";
    let rig = Rig::start_with(&[authorizer, "super.users=User:root"]);
    let check = |user: &str, request: CreateDelegationTokenRequest, expected: ErrorCode| {
        let session = Session::new(user, Ipv4Addr::LOCALHOST.into());
        let context = rig.context_of((ApiKey::CreateDelegationToken, 3), (Protocol::SaslSsl, session));
        let answer = create(&context, &rig, request);
        assert_eq!(answer.error_code, expected.code());
        answer
    };
    check("alice", request_for(None, ""), ADMITTED);
    check("alice", request_for(Some("User"), "alice"), ADMITTED);
    check("root", request_for(Some("User"), "bob"), ADMITTED);
    check("root", request_for(None, "bob"), ErrorCode::UnknownServerError);
    for (kind, owner) in [("User", "bob"), ("Group", "alice")] {
        let refused =
            check("alice", request_for(Some(kind), owner), ErrorCode::DelegationTokenAuthorizationFailed);
        let named = (refused.principal_type.as_str(), refused.principal_name.as_str());
        assert_eq!((named, refused.token_requester_principal_name.as_str()), ((kind, owner), "alice"));
    }
    let mut request = request_for(None, "");
    let renewer = |kind: &str| {
        message!(CreatableRenewers { principal_type: kind.into(), principal_name: "bob".into() })
    };
    request.renewers = vec![renewer("User")];
    check("alice", request.clone(), ADMITTED);
    request.renewers.push(renewer("Group"));
    check("alice", request, ErrorCode::InvalidPrincipalType);
}
