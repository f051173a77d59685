//! Tests of the client against a small server.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::*;

/// A server that answers each request by its first line; counts the requests.
pub(crate) struct Server {
    pub(crate) url: String,
    pub(crate) requests: Arc<AtomicUsize>,
}

impl Server {
    /// A server whose answers are status and body, by method and path.
    pub(crate) fn answering(answer: impl Fn(&str) -> (u16, String) + Send + 'static) -> Self {
        Self::with(move |mut socket, head| {
            let line = head.lines().next().unwrap_or_default().trim_end_matches(" HTTP/1.1").to_owned();
            let (status, body) = answer(&line);
            let _ = write!(socket, "HTTP/1.1 {status} X\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        })
    }

    pub(crate) fn with(serve: impl Fn(TcpStream, &str) + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(AtomicUsize::new(0));
        let counted = requests.clone();
        thread::spawn(move || {
            for socket in listener.incoming() {
                let mut socket = socket.unwrap();
                let mut head = Vec::new();
                let mut byte = [0];
                while !head.ends_with(b"\r\n\r\n") && socket.read(&mut byte).is_ok_and(|count| count == 1) {
                    head.push(byte[0]);
                }
                let head = String::from_utf8(head).unwrap();
                let length = head
                    .lines()
                    .find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
                let mut body = vec![0; length.unwrap_or(0)];
                socket.read_exact(&mut body).unwrap();
                counted.fetch_add(1, Ordering::SeqCst);
                serve(socket, &format!("{head}{}", String::from_utf8(body).unwrap()));
            }
        });
        Self { url, requests }
    }

    pub(crate) fn registry(&self) -> Registry {
        Registry::new(settings(&self.url))
    }
}

pub(crate) fn settings(url: &str) -> RegistrySettings {
    RegistrySettings { urls: vec![url.to_owned()], authorization: None, tls: None }
}

#[test]
fn registry_responses_are_parsed() {
    let server = Server::answering(|line| match line {
        "GET /schemas/ids/7" => (200, r#"{"schema":"\"int\"","more":1}"#.to_owned()),
        "GET /schemas/ids/7/versions" => (200, r#"[{"subject":"a","version":2}]"#.to_owned()),
        "GET /subjects/a%2Fb%20c/versions/latest" => {
            let references = r#"[{"name":"x.proto","subject":"x","version":1}]"#;
            let head = r#""subject":"a/b c","version":3,"id":9,"schema":"","schemaType":"PROTOBUF""#;
            (200, format!(r#"{{{head},"references":{references}}}"#))
        }
        "GET /schemas/ids/8" => (404, r#"{"error_code":40403,"message":"Schema 8\nnot found"}"#.to_owned()),
        "GET /schemas/ids/9" => (500, "<html>".to_owned()),
        "GET /subjects" => (200, "<html>".to_owned()),
        "POST /subjects/s/versions" => (200, r#"{"id":11}"#.to_owned()),
        other => panic!("{other}"),
    });
    let registry = server.registry();
    let source = registry.schema(SchemaId::Number(7)).unwrap();
    assert_eq!((source.schema.as_str(), source.schema_type), ("\"int\"", Language::Avro));
    assert_eq!(registry.places(7).unwrap(), [Place { subject: "a".to_owned(), version: 2 }]);
    let version = registry.version("a/b c", None).unwrap();
    assert_eq!((version.id, version.source.schema_type), (9, Language::Protobuf));
    assert_eq!(version.source.references[0].name, "x.proto");
    assert_eq!(registry.register("s", &source).unwrap(), 11);
    let check = |error: RegistryError, expected: &str| {
        assert_eq!(error.to_string().replace(&server.url, "URL"), expected);
    };
    check(
        registry.schema(SchemaId::Number(8)).unwrap_err(),
        "the schema registry URL has no schema 8 (Schema 8 not found)",
    );
    check(
        registry.schema(SchemaId::Number(9)).unwrap_err(),
        "the schema registry URL responds to the request for schema 9 with status 500 (status 500)",
    );
    check(
        registry.subjects().unwrap_err(),
        "the schema registry URL sends an unexpected response to the request for the list of subjects: \
         expected value at line 1 column 1",
    );
}

#[test]
fn endless_registry_response_is_truncated() {
    let server = Server::with(|mut socket, _| {
        let _ = write!(socket, "HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n\"");
        let chunk = [b'a'; 1 << 16];
        while socket.write_all(&chunk).is_ok() {}
    });
    let error = server.registry().schema(SchemaId::Number(1)).unwrap_err().to_string();
    assert!(error.contains("more than 4194304 bytes"), "{error}");
}

#[test]
fn silent_registry_is_an_outage() {
    let server = Server::with(|socket, _| {
        thread::spawn(move || (&socket).read_to_end(&mut Vec::new()));
    });
    let error = server.registry().schema(SchemaId::Number(1)).unwrap_err();
    assert!(matches!(error, RegistryError::Unreachable { .. }), "{error}");
}

#[test]
fn connection_that_the_registry_closes_is_replaced() {
    let server = Server::with(|mut socket, _| {
        let _ = write!(socket, "HTTP/1.1 200 X\r\nContent-Length: 2\r\n\r\n[]");
        // Closed in the middle of the next request of this connection.
        let _ = socket.read(&mut [0]);
    });
    let registry = server.registry();
    for _ in 0..3 {
        assert_eq!(registry.subjects().unwrap(), [""; 0]);
    }
}

#[test]
fn next_registry_address_is_used_during_outage() {
    let server = Server::answering(|_| (200, r#"{"schema":"\"int\""}"#.to_owned()));
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let urls = vec![format!("http://{closed}"), server.url.clone()];
    let registry = Registry::new(RegistrySettings { urls, authorization: None, tls: None });
    registry.schema(SchemaId::Number(1)).unwrap();
}

#[test]
fn login_is_sent_and_redirect_refused() {
    let server = Server::with(|mut socket, head| {
        assert!(head.to_lowercase().contains("authorization: basic dtpw\r\n"), "{head}");
        let _ =
            write!(socket, "HTTP/1.1 302 X\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n");
    });
    let mut settings = settings(&server.url);
    settings.authorization = Some("Basic dTpw".to_owned());
    let error = Registry::new(settings).subjects().unwrap_err().to_string();
    assert!(error.contains("with status 302"), "{error}");
}
