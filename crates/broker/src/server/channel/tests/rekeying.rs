//! New keys that a client asks for on a connection that the kernel encrypts, while its socket takes
//! no more.

use levada_tls::{KernelSession, Next, Offload, RECORD_BYTES, TlsSession, offer};

use super::forger::{DATA, Forger, HANDSHAKE, KEY_UPDATE};
use super::hostile::is_13;
use super::*;

/// A connection whose hands are shaken and whose keys the kernel has.
fn connected(rig: &Rig, suite: CipherSuite) -> (Box<KernelSession>, TcpStream, Forger) {
    let (certificate, key, _) = rig.issue("broker");
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ServerConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let mut config = builder.with_single_cert(vec![certificate], key).unwrap();
    config.enable_secret_extraction = true;
    let mut client = rig.client(Some(suite), None);
    client.enable_secret_extraction = true;

    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let mut server = listener.accept().unwrap().0;
    let client = std::thread::spawn(move || Forger::new(Arc::new(client), socket).unwrap());
    let (mut session, mut plain) = (TlsSession::new(Arc::new(config)).unwrap(), BytesMut::new());
    loop {
        session.read_within_record(|into| server.read(into)).unwrap();
        let next = session.process(&mut plain).unwrap();
        server.write_all(&session.take_outgoing()).unwrap();
        if next == Next::Done {
            break;
        }
    }
    let suites = rig.server().broker.transfers().caps().tls_suites;
    let Offload::Done(session) = offer(Box::new(session), &server, suites).unwrap() else {
        panic!("the kernel has {suite:?}");
    };
    (session, server, client.join().unwrap())
}

/// Tries again for as long as the socket has nothing, or takes nothing.
fn at_last<T>(mut attempt: impl FnMut() -> std::io::Result<T>) -> T {
    let started = std::time::Instant::now();
    loop {
        match attempt() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::yield_now(),
            outcome => return outcome.unwrap(),
        }
        assert!(started.elapsed() < Duration::from_secs(60), "nothing comes, or nothing goes");
    }
}

/// Writes until the socket takes no more; what it took.
fn fill(mut socket: &TcpStream) -> Vec<u8> {
    let mut taken = Vec::new();
    loop {
        let chunk: Vec<u8> = (taken.len()..taken.len() + 50_000).map(|at| (at % 251) as u8).collect();
        match socket.write(&chunk) {
            Ok(count) => taken.extend_from_slice(&chunk[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return taken,
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn tls_key_update_waits_for_socket_space() {
    let rig = Rig::new(&["levada.ssl.kernel.offload=auto"]);
    for suite in SUITES.into_iter().filter(|suite| is_13(*suite) && rig.is_offloaded(*suite)) {
        let (mut session, server, mut client) = connected(&rig, suite);
        server.set_nonblocking(true).unwrap();
        let mut expected = fill(&server);
        // For new keys of its own, and of ours.
        let mut wish = KEY_UPDATE;
        wish[4] = 1;
        client.say(HANDSHAKE, &wish).unwrap();
        client.renew().unwrap();
        client.say(DATA, b"go on").unwrap();
        let (mut heard, mut room) = (Vec::new(), vec![0; RECORD_BYTES]);
        while heard.is_empty() {
            let received = at_last(|| session.receive(server.as_fd(), &mut room));
            heard.extend_from_slice(&room[..received.expect("no end")]);
        }
        assert_eq!(heard, b"go on");
        let full = session.settle(server.as_fd());
        assert!(full.is_err_and(|error| error.kind() == ErrorKind::WouldBlock), "there is no room for them");

        let client = std::thread::spawn(move || {
            let (mut data, mut renewed) = (Vec::new(), Vec::new());
            while let Some((kind, payload)) = client.hear().unwrap() {
                match kind {
                    DATA => data.extend_from_slice(&payload),
                    HANDSHAKE if payload == KEY_UPDATE => renewed.push(data.len()),
                    // Messages that follow a handshake.
                    HANDSHAKE => {}
                    other => panic!("a record of kind {other}"),
                }
            }
            (data, renewed)
        });
        at_last(|| session.settle(server.as_fd()));
        let before = expected.len();
        expected.extend_from_slice(b"by new keys");
        server.set_nonblocking(false).unwrap();
        (&server).write_all(b"by new keys").unwrap();
        server.shutdown(std::net::Shutdown::Write).unwrap();
        let (data, renewed) = client.join().unwrap();
        assert!(data == expected, "{suite:?}: {} bytes of {}", data.len(), expected.len());
        assert_eq!(renewed, [before], "{suite:?}");
    }
}
