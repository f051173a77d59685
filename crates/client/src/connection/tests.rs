//! Tests of a connection, against a listener that answers as told.

use std::net::{SocketAddr, TcpListener};
use std::thread::JoinHandle;

use levada_wire::messages::api_versions_response::ApiVersion;
use levada_wire::messages::{HeartbeatRequest, HeartbeatResponse};
use levada_wire::{ApiKey, RequestHeader, encode_response};

use super::*;

/// Reaction of a listener to the next request.
type Answer = Box<dyn Fn(&RequestHeader) -> Vec<u8> + Send>;

/// Answers one connection's requests in order, then closes it; joins to the headers received.
fn listen(answers: Vec<Answer>) -> (SocketAddr, JoinHandle<Vec<RequestHeader>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let serve = move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut frames = FrameBuffer::new(1 << 20);
        let mut headers = Vec::new();
        for answer in answers {
            let mut frame = loop {
                if let Some(frame) = frames.next_frame().unwrap() {
                    break frame;
                }
                let mut chunk = [0; 1000];
                let count = stream.read(&mut chunk).unwrap();
                frames.spare().extend_from_slice(&chunk[..count]);
            };
            let header = RequestHeader::decode(&mut frame).unwrap();
            stream.write_all(&answer(&header)).unwrap();
            headers.push(header);
        }
        headers
    };
    (address, std::thread::spawn(serve))
}

fn versions(error_code: i16, version: i16, offered: &'static [(ApiKey, i16, i16)]) -> Answer {
    Box::new(move |header| {
        let mut response = ApiVersionsResponse::default();
        response.error_code = error_code;
        for (key, min, max) in offered {
            let mut api = ApiVersion::default();
            (api.api_key, api.min_version, api.max_version) = (key.wire(), *min, *max);
            response.api_keys.push(api);
        }
        encode_response(header.correlation_id, version, &response).unwrap().to_vec()
    })
}

fn heartbeat(error_code: i16, id_offset: i32) -> Answer {
    Box::new(move |header| {
        let mut response = HeartbeatResponse::default();
        response.error_code = error_code;
        encode_response(header.correlation_id + id_offset, header.version, &response).unwrap().to_vec()
    })
}

fn options() -> ConnectionOptions {
    ConnectionOptions { client_id: "me".into(), timeout: Duration::from_secs(20), max_frame_bytes: 1000 }
}

#[test]
fn client_uses_highest_common_version() {
    let offered = versions(0, 4, &[(ApiKey::Heartbeat, 0, 3), (ApiKey::ListGroups, 7, 9)]);
    let (address, served) = listen(vec![offered, heartbeat(27, 0), heartbeat(0, 0), heartbeat(0, 0)]);
    let mut connection = Connection::connect(&address.to_string(), &options()).unwrap();
    assert_eq!(connection.request(&HeartbeatRequest::default()).unwrap().error_code, 27);
    assert_eq!(connection.request_at(4, &HeartbeatRequest::default()).unwrap().error_code, 0);
    let error = connection.request(&levada_wire::messages::ListGroupsRequest::default()).unwrap_err();
    let text = format!(
        "no common version of ListGroupsRequest: {address} offers versions 7 to 9, and this program supports \
         versions 0 to 5"
    );
    assert_eq!(error.to_string(), text);
    let error = connection.request(&levada_wire::messages::MetadataRequest::default()).unwrap_err();
    assert!(error.to_string().contains(&format!("{address} does not offer it, and")), "{error}");
    let id = connection.send_request(2, &HeartbeatRequest::default()).unwrap();
    assert_eq!(connection.receive_response::<HeartbeatRequest>(2).unwrap().0, id);
    let seen: Vec<_> = served.join().unwrap().into_iter().map(|h| (h.api, h.version, h.client_id)).collect();
    let me = Some(StrBytes::from("me"));
    let heartbeats = [3, 4, 2].map(|version| (ApiKey::Heartbeat, version, me.clone()));
    assert_eq!(seen, [&[(ApiKey::ApiVersions, 4, me)][..], &heartbeats].concat());
}

#[test]
fn older_broker_gets_api_versions_version_0() {
    let offered: &[_] = &[(ApiKey::Heartbeat, 0, 1)];
    let (address, served) = listen(vec![versions(35, 0, offered), versions(0, 0, offered), heartbeat(0, 0)]);
    let mut connection = Connection::connect(&address.to_string(), &options()).unwrap();
    connection.request(&HeartbeatRequest::default()).unwrap();
    let seen: Vec<_> = served.join().unwrap().into_iter().map(|header| header.version).collect();
    assert_eq!(seen, [4, 0, 1]);
}

#[test]
fn connection_errors_describe_the_cause() {
    #[track_caller]
    fn check(answers: Vec<Answer>, expected: fn(&ConnectionError) -> bool) {
        let (address, _served) = listen(answers);
        let connected = Connection::connect(&address.to_string(), &options());
        let error = connected
            .and_then(|mut connection| connection.request(&HeartbeatRequest::default()))
            .unwrap_err();
        assert!(expected(&error), "{error}");
    }
    let offered = || versions(0, 4, &[(ApiKey::Heartbeat, 0, 3)]);
    let closed = |error: &ConnectionError| {
        matches!(error, ConnectionError::Closed { .. } | ConnectionError::Lost { .. })
    };
    check(vec![versions(58, 4, &[])], |error| {
        matches!(error, ConnectionError::Refused { error_code: 58, .. })
    });
    check(vec![offered(), Box::new(|_| b"\0\0\0\x09abc".to_vec())], closed);
    check(vec![offered(), heartbeat(0, 1)], |error| {
        matches!(error, ConnectionError::WrongCorrelation { .. })
    });
    let too_large = Box::new(|_: &RequestHeader| 1001u32.to_be_bytes().to_vec());
    check(vec![offered(), too_large], |error| matches!(error, ConnectionError::Frame(_)));
    let garbage = Box::new(|_: &RequestHeader| b"\0\0\0\x05\0\0\0\x02x".to_vec());
    check(vec![offered(), garbage], |error| matches!(error, ConnectionError::Response(_)));

    let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = Connection::connect(&unused.to_string(), &options()).unwrap_err();
    assert!(matches!(error, ConnectionError::Connect { .. }), "{error}");
}

#[test]
fn silent_broker_is_named_with_the_limit() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let options = ConnectionOptions { timeout: Duration::from_millis(250), ..options() };
    let error = Connection::connect(&address, &options).unwrap_err();
    assert_eq!(error.to_string(), format!("{address} did not respond within 0.25 s"));
    assert!(error.is_lost());
}
