//! Tests of `envelope`.

use super::*;

fn user(name: &str) -> ForwardedPrincipal {
    ForwardedPrincipal { kind: "User".into(), name: name.into(), token_authenticated: false }
}

#[test]
fn envelope_request_matches_kafka() {
    let request = Bytes::from_static(b"\0\x13\0\x07\0\0\0\x2a");
    let envelope = wrap(request.clone(), &user("ANONYMOUS"), IpAddr::from([127, 0, 0, 1]));
    assert_eq!(envelope.request_data, request);
    assert_eq!(envelope.request_principal.unwrap(), &b"\0\0\x05User\x0aANONYMOUS\0\0"[..]);
    assert_eq!(envelope.client_host_address, &[127, 0, 0, 1][..]);
    let by_token = ForwardedPrincipal { token_authenticated: true, ..user(&"n".repeat(127)) };
    let envelope = wrap(request, &by_token, IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1]));
    let principal = envelope.request_principal.unwrap();
    assert_eq!(principal[7..9], [0x80, 1], "a length of two bytes");
    assert_eq!(principal[principal.len() - 2..], [1, 0]);
    assert_eq!(envelope.client_host_address.len(), 16);
}

#[test]
fn enveloped_responses_are_unwrapped() {
    #[track_caller]
    fn check(code: i16, data: Option<&'static [u8]>, expected: Unwrapped) {
        let mut envelope = EnvelopeResponse::default();
        envelope.error_code = code;
        envelope.response_data = data.map(Bytes::from_static);
        assert_eq!(unwrap(&envelope, 42), expected);
    }
    let answer = b"\0\0\0\x2a\0rest";
    check(0, Some(answer), Unwrapped::Answer(Bytes::from_static(answer)));
    check(0, Some(b"\0\0\0\x2b\0rest"), Unwrapped::Failed(0));
    check(0, Some(b"\0\0"), Unwrapped::Failed(0));
    check(0, None, Unwrapped::Failed(0));
    check(ErrorCode::NotController.code(), None, Unwrapped::NotController);
    check(ErrorCode::UnsupportedVersion.code(), None, Unwrapped::CloseConnection);
    check(ErrorCode::ClusterAuthorizationFailed.code(), None, Unwrapped::Failed(31));
    check(ErrorCode::PrincipalDeserializationFailure.code(), Some(answer), Unwrapped::Failed(97));
}
