//! Handshakes whose messages come in many records.

use levada_tls::{Next, TlsSession};

use super::*;

/// Size of the records of a handshake, with their headers.
const RECORD_BYTES: usize = 64;
const HEADER_BYTES: usize = 5;

#[test]
fn fragmented_tls_message_is_read_by_record() {
    let rig = Rig::new(&[]);
    let broker = &rig.server().broker;
    let context = broker.tls().context(&broker.config().listeners[1]).unwrap();
    let mut session = TlsSession::new(context.config().clone()).unwrap();
    let mut config = rig.client(None, None);
    config.max_fragment_size = Some(RECORD_BYTES);
    let mut client = ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap();
    let mut hello = Vec::new();
    while client.wants_write() {
        client.write_tls(&mut hello).unwrap();
    }
    assert!(hello.len() > 3 * RECORD_BYTES, "{}", hello.len());

    let (mut wire, mut reads, mut plain) = (&hello[..], 0, BytesMut::new());
    while !wire.is_empty() {
        let begun = hello.len() - wire.len();
        session.read_within_record(|into| wire.read(into)).unwrap();
        let ended = hello.len() - wire.len();
        assert_eq!((ended - 1) / RECORD_BYTES, begun / RECORD_BYTES, "{begun} to {ended} is in one record");
        assert_eq!(session.has_record(), ended % RECORD_BYTES == 0 || wire.is_empty());
        assert_eq!(session.process(&mut plain).unwrap(), Next::Read);
        reads += 1;
    }
    assert_eq!(reads, 2 * hello.len().div_ceil(RECORD_BYTES), "a header and a body each");
    assert!(session.has_outgoing(), "the message is whole");
}

#[test]
fn client_certificate_in_many_records_is_accepted() {
    let rig = Rig::new(&["ssl.client.auth=required"]);
    let expected = rig.filled("t", 1);
    for suite in SUITES {
        let mut config = rig.client(Some(suite), Some("duke"));
        config.max_fragment_size = Some(RECORD_BYTES);
        assert!(fetched(&mut rig.connect(config), "t") == expected, "{suite:?}");
    }
}

#[test]
fn handshake_with_thousands_of_fragments_is_ended() {
    let rig = Rig::new(&[]);
    let mut socket = TcpStream::connect(rig.address(1)).unwrap();
    // Half of the time that a handshake may take.
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    // The front of a message of almost 64 KiB, and then one byte of it at a time.
    let mut records = vec![22, 3, 1, 0, 4, 1, 0, 0xf0, 0];
    (0..4000).for_each(|_| records.extend([22, 3, 1, 0, 1, 7]));
    // The broker may have hung up before it has everything.
    let _ = socket.write_all(&records);
    match socket.read(&mut [0; HEADER_BYTES]) {
        Ok(0) => {}
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn refused_handshake_counts_until_client_disconnects() {
    let rig = Rig::new(&["max.connections.per.ip=1"]);
    let connect = || {
        let socket = TcpStream::connect(rig.address(1)).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        socket
    };
    let mut refused = connect();
    // A handshake message of no known kind.
    refused.write_all(&[22, 3, 1, 0, 4, 0xff, 0, 0, 0]).unwrap();
    let mut said = Vec::new();
    refused.read_to_end(&mut said).unwrap();
    assert_eq!((said[0], said[5]), (21, 2), "a fatal alert: {said:?}");
    match connect().read(&mut [0]) {
        Ok(0) => {}
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        other => panic!("{other:?}"),
    }
    drop(refused);
    let started = std::time::Instant::now();
    while ask(&mut rig.connect(rig.client(None, None)), FETCH, &fetch("none")).is_err() {
        assert!(started.elapsed() < Duration::from_secs(60), "the place stays taken");
    }
}
