//! Clients that keep to no rule once hands are shaken: records of any kind, new keys at any time,
//! ends without a word.

use super::forger::{ALERT, DATA, Forger, HANDSHAKE, KEY_UPDATE};
use super::*;

/// A broker that encrypts by itself, and one whose kernel does, where there is such a kernel.
fn rigs() -> impl Iterator<Item = Rig> {
    let by_kernel = levada_io::Caps::probe().kernel_tls.works().then_some("levada.ssl.kernel.offload=auto");
    std::iter::once("levada.ssl.kernel.offload=never").chain(by_kernel).map(|setting| Rig::new(&[setting]))
}

const CLOSE_NOTIFY: [u8; 2] = [1, 0];
const KEY_UPDATE_REQUESTED: [u8; 5] = [24, 0, 0, 1, 1];
/// The beginning of a new handshake, which TLS 1.2 permits clients to request.
const CLIENT_HELLO: [u8; 45] = {
    let mut hello = [0; 45];
    (hello[0], hello[3], hello[4], hello[5]) = (1, 41, 3, 3);
    // One suite, and one kind of compression: none.
    (hello[40], hello[42], hello[43]) = (2, 47, 1);
    hello
};

impl Rig {
    fn forged(&self, suite: CipherSuite) -> Forger {
        let mut config = self.client(Some(suite), None);
        config.enable_secret_extraction = true;
        let socket = TcpStream::connect(self.address(1)).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Forger::new(Arc::new(config), socket).unwrap()
    }

    /// True if the kernel encrypts connections of this suite.
    pub(super) fn is_offloaded(&self, suite: CipherSuite) -> bool {
        let (caps, config) = (self.server().broker.transfers().caps(), self.server().broker.config());
        let setting = config.settings().text("levada.ssl.kernel.offload");
        let allowed = setting != Some("never") && caps.kernel_tls.works();
        allowed && (!is_13(suite) || caps.tls_suites.rekeys)
    }

    /// Waits until the broker has no connection any more, and no socket of one.
    fn await_quiet(&self) {
        let started = std::time::Instant::now();
        let ports = [self.address(0), self.address(1)].map(|address| format!(":{:04X}", address.port()));
        loop {
            let open = self.server().broker.stats().connections_open();
            let table = fs::read_to_string("/proc/self/net/tcp").unwrap();
            let left = table.lines().filter(|line| {
                let mut words = line.split_whitespace().skip(1);
                let (own, _, state) = (words.next(), words.next(), words.next());
                // Neither listening nor what the kernel keeps for a while after both ends are
                // closed.
                own.is_some_and(|own| ports.iter().any(|port| own.ends_with(port)))
                    && !matches!(state, Some("0A" | "06"))
            });
            let left: Vec<&str> = left.collect();
            if open == 0 && left.is_empty() {
                return;
            }
            assert!(started.elapsed() < Duration::from_secs(60), "{open} connections, sockets {left:?}");
            std::thread::yield_now();
        }
    }
}

/// The records of a response, and how often the broker took new keys meanwhile.
fn fetched_by(client: &mut Forger, topic: &str, mut midway: impl FnMut(&mut Forger)) -> (Bytes, usize) {
    let frame = levada_wire::encode_request(1, Some("test"), FETCH, &fetch(topic)).unwrap();
    client.say(DATA, &frame).unwrap();
    let (mut answer, mut renewed, mut begun) = (Vec::new(), 0, false);
    loop {
        match client.hear().unwrap().expect("an answer") {
            (DATA, payload) => answer.extend_from_slice(&payload),
            (HANDSHAKE, message) => renewed += usize::from(message == KEY_UPDATE),
            other => panic!("{other:?}"),
        }
        if !begun && !answer.is_empty() {
            begun = true;
            midway(client);
        }
        let size = answer.first_chunk().map(|size| u32::from_be_bytes(*size) as usize);
        if size.is_some_and(|size| answer.len() == 4 + size) {
            let answer = Bytes::from(answer).slice(4..);
            return (
                records(levada_wire::decode_response::<FetchResponse>(answer, FETCH).unwrap().1),
                renewed,
            );
        }
    }
}

/// Sends no more. A broker that has hung up on what came before may have reset the connection
/// already.
fn end(client: &Forger) {
    match client.socket.shutdown(std::net::Shutdown::Write) {
        Err(error) if error.kind() != ErrorKind::NotConnected => panic!("{error}"),
        _ => {}
    }
}

/// All alerts to the end; nothing else may come.
fn alerts(client: &mut Forger) -> Vec<Vec<u8>> {
    let mut said = Vec::new();
    loop {
        match client.hear() {
            Ok(Some((ALERT, alert))) => said.push(alert),
            Ok(None) => return said,
            // Bytes that the broker had not read when it hung up.
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return said,
            other => panic!("{other:?} after {said:?}"),
        }
    }
}

pub(super) fn is_13(suite: CipherSuite) -> bool {
    format!("{suite:?}").starts_with("TLS13")
}

#[test]
fn unexpected_tls_records_end_connection_with_alert() {
    rigs().for_each(|rig| check_records_that_have_no_place(&rig));
}

fn check_records_that_have_no_place(rig: &Rig) {
    let expected = rig.filled("t", 1);
    for suite in SUITES {
        let by_kernel = rig.is_offloaded(suite);
        let check = |kind: u8, payload: &[u8], level: Option<u8>| {
            let mut client = rig.forged(suite);
            // Messages after a handshake have been read then.
            assert!(fetched_by(&mut client, "t", |_| {}).0 == expected);
            client.say(kind, payload).unwrap();
            let said = alerts(&mut client);
            let told = said.first().map(|alert| alert[0]);
            // This process chooses the alert that ends a connection. The kernel's connections end
            // as well, with a goodbye.
            let level = level.filter(|_| !by_kernel);
            assert!(level.is_none_or(|level| told == Some(level)), "{suite:?} {kind} {payload:?}: {said:?}");
        };
        check(ALERT, &CLOSE_NOTIFY, Some(CLOSE_NOTIFY[0]));
        // The sender of a fatal alert does not wait for a response.
        check(ALERT, &[2, 40], None);
        check(ALERT, &[2], None);
        check(99, b"?", Some(2));
        check(24, &[1, 0, 1, b'x'], Some(2));
        check(20, &[1], Some(2));
        if is_13(suite) {
            check(HANDSHAKE, &CLIENT_HELLO, Some(2));
            check(HANDSHAKE, &[24, 0, 0, 1, 2], Some(2));
        }
    }
    rig.await_quiet();
}

#[test]
fn request_before_close_notify_gets_response() {
    rigs().for_each(|rig| check_request_before_the_end(&rig));
}

fn check_request_before_the_end(rig: &Rig) {
    let expected = rig.filled("t", 1);
    let request = levada_wire::encode_request(1, Some("test"), FETCH, &fetch("t")).unwrap();
    for suite in SUITES {
        let mut client = rig.forged(suite);
        let both = [(DATA, &request[..]), (ALERT, &CLOSE_NOTIFY)];
        let both = both.map(|(kind, payload)| client.seal(kind, payload).unwrap());
        client.socket.write_all(&both.concat()).unwrap();
        let mut answer = Vec::new();
        while let Some((kind, payload)) = client.hear().unwrap() {
            if kind == DATA {
                answer.extend_from_slice(&payload);
            }
        }
        let answer = Bytes::from(answer).slice(4..);
        let (_, answer) = levada_wire::decode_response::<FetchResponse>(answer, FETCH).unwrap();
        assert!(records(answer) == expected, "{suite:?}");
    }
    rig.await_quiet();
}

#[test]
fn empty_record_or_renegotiation_keeps_tls_connection() {
    rigs().for_each(|rig| check_what_does_not_end(&rig));
}

fn check_what_does_not_end(rig: &Rig) {
    let expected = rig.filled("t", 1);
    for suite in SUITES {
        let mut client = rig.forged(suite);
        client.say(DATA, b"").unwrap();
        assert!(fetched_by(&mut client, "t", |_| {}).0 == expected, "{suite:?}");
        if !is_13(suite) {
            client.say(HANDSHAKE, &CLIENT_HELLO).unwrap();
            assert_eq!(client.hear().unwrap(), Some((ALERT, vec![1, 100])), "{suite:?}: no renegotiation");
        }
        assert!(fetched_by(&mut client, "t", |_| {}).0 == expected, "{suite:?}");
    }
}

#[test]
fn tls_client_repeating_renegotiation_is_disconnected() {
    rigs().for_each(|rig| check_second_handshake(&rig));
}

fn check_second_handshake(rig: &Rig) {
    let expected = rig.filled("t", 1);
    for suite in SUITES.into_iter().filter(|suite| !is_13(*suite)) {
        let mut client = rig.forged(suite);
        assert!(fetched_by(&mut client, "t", |_| {}).0 == expected, "{suite:?}");
        (0..2).for_each(|_| client.say(HANDSHAKE, &CLIENT_HELLO).unwrap());
        let said = alerts(&mut client);
        assert!(said.first().is_none_or(|alert| *alert == [1, 100]), "{suite:?}: {said:?}");
        let mut client = rig.forged(suite);
        assert!(fetched_by(&mut client, "t", |_| {}).0 == expected, "{suite:?}");
        // Finished: no handshake is under way.
        client.say(HANDSHAKE, &[20, 0, 0, 0]).unwrap();
        alerts(&mut client);
    }
    rig.await_quiet();
}

#[test]
fn tls_key_update_is_reciprocated_during_response() {
    for offload in ["auto", "never"] {
        let rig = Rig::new(&[&format!("levada.ssl.kernel.offload={offload}")]);
        let expected = rig.filled("t", 4);
        let caps = rig.server().broker.transfers().caps().clone();
        assert!(caps.tls_suites.rekeys || std::env::var("LEVADA_VM").as_deref() != Ok("rekeys"), "{caps:?}");
        let counters = rig.server().broker.transfers().counters();
        let before = counters.snapshot();
        let renew = |client: &mut Forger| {
            client.say(HANDSHAKE, &KEY_UPDATE_REQUESTED).unwrap();
            client.renew().unwrap();
        };
        for suite in SUITES.into_iter().filter(|suite| is_13(*suite)) {
            let mut client = rig.forged(suite);
            for round in 0..6 {
                // Several times before the first request, of which not each must be reported. And
                // during a response, while the socket may have no room.
                (0..round).for_each(|_| renew(&mut client));
                let midway = |client: &mut Forger| (0..=5 * round).for_each(|_| renew(client));
                let (answer, renewed) = fetched_by(&mut client, "t", midway);
                assert!(answer == expected, "{suite:?} {round}");
                assert!(renewed > 0 || round == 0, "{suite:?} {round}: the broker keeps its keys");
            }
            client.say(HANDSHAKE, &KEY_UPDATE).unwrap();
            client.renew().unwrap();
            assert!(fetched_by(&mut client, "t", |_| {}).0 == expected, "{suite:?}");
        }
        let by = |now: &levada_io::Snapshot, path| now.bytes(path) - before.bytes(path);
        let path = if offload == "auto" && caps.kernel_tls.works() && caps.tls_suites.rekeys {
            Path::Splice
        } else {
            Path::UserTls
        };
        rig.await_count(|now| by(now, path) >= 21 * expected.len() as u64);
    }
}

#[test]
fn abrupt_tls_disconnects_leak_nothing() {
    rigs().for_each(|rig| check_ends_in_the_middle(&rig));
}

fn check_ends_in_the_middle(rig: &Rig) {
    let expected = rig.filled("t", 2);
    let request = levada_wire::encode_request(1, Some("test"), FETCH, &fetch("t")).unwrap();
    for suite in SUITES {
        let record = rig.forged(suite).seal(DATA, &request).unwrap();
        let wires: [&[u8]; 5] = [
            // No record under the keys, of other keys, longer than one may be, half a one, and
            // none.
            &[&[DATA, 3, 3, 0, 64][..], &[7; 64]].concat(),
            &record,
            &[&[DATA, 3, 3, 0xff, 0xff][..], &[7; 600]].concat(),
            &record[..record.len() / 2],
            &[],
        ];
        for wire in wires {
            let mut client = rig.forged(suite);
            assert!(fetched_by(&mut client, "t", |_| {}).0 == expected, "{suite:?}");
            client.socket.write_all(wire).unwrap();
            end(&client);
            alerts(&mut client);
        }
        // A part of a message, before a request and at the end.
        let mut client = rig.forged(suite);
        if is_13(suite) {
            client.say(HANDSHAKE, &KEY_UPDATE_REQUESTED[..3]).unwrap();
        }
        end(&client);
        while !matches!(client.hear(), Ok(None) | Err(_)) {}
        // Before the response, and in it.
        for heard in [0, 3] {
            let mut client = rig.forged(suite);
            client.say(DATA, &request).unwrap();
            (0..heard).for_each(|_| drop(client.hear().unwrap()));
            socket2::SockRef::from(&client.socket).set_linger(Some(Duration::ZERO)).unwrap();
        }
    }
    rig.await_quiet();
    assert!(fetched(&mut rig.connect(rig.client(None, None)), "t") == expected);
}

/// Scale from which the test below is alone in its process. `cargo xtask vm --full` sets it.
const SCALE_ALONE: f64 = 42.0;

#[test]
fn random_tls_resets_corrupt_and_leak_nothing() {
    let goal: u64 = scaled(3 * 8_000_000);
    let rig = Rig::new(&[]);
    let expected = rig.filled("t", 16);
    let request = levada_wire::encode_request(1, Some("test"), FETCH, &fetch("t")).unwrap();
    let answer = ask(&mut rig.connect(rig.client(None, None)), FETCH, &fetch("t")).unwrap();
    assert!(
        records(levada_wire::decode_response::<FetchResponse>(answer.clone(), FETCH).unwrap().1) == expected
    );
    let caps = rig.server().broker.transfers().caps().clone();
    let suites: Vec<CipherSuite> = if caps.kernel_tls.works() {
        // Suites that the kernel supports.
        SUITES.into_iter().filter(|suite| !is_13(*suite) || caps.tls_suites.rekeys).collect()
    } else {
        SUITES.to_vec()
    };
    let (mut whole, mut resets, mut before, mut seed) = (0, 0_u64, 0, 0x9e37_79b9_7f4a_7c15_u64);
    let mut random = |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed % below as u64) as usize
    };
    let mut some = vec![0; 256 << 10];
    for round in 0.. {
        if whole >= goal {
            break;
        }
        let mut stream = rig.connect(rig.client(Some(suites[round % suites.len()]), None));
        let answers = 1 + random(4);
        let end = if random(2) == 0 { Some(random(answer.len())) } else { None };
        for number in 0..answers {
            stream.write_all(&request).unwrap();
            let mut size = [0; 4];
            stream.read_exact(&mut size).unwrap();
            assert_eq!(u32::from_be_bytes(size) as usize, answer.len());
            let wanted = end.filter(|_| number + 1 == answers).unwrap_or(answer.len());
            let mut got = 0;
            while got < wanted {
                let part = (wanted - got).min(some.len());
                stream.read_exact(&mut some[..part]).unwrap();
                assert!(some[..part] == answer[got..got + part], "{round} {number}: {got}");
                got += part;
            }
            whole += got as u64;
        }
        if end.is_some() {
            resets += 1;
            socket2::SockRef::from(&stream.sock.as_fd()).set_linger(Some(Duration::ZERO)).unwrap();
        }
        // After each suite has had its turn, everything that is kept is there.
        if round == 2 * suites.len() {
            before = resident_bytes();
        }
    }
    rig.await_quiet();
    let grown = resident_bytes().saturating_sub(before);
    eprintln!("{whole} bytes by {} suites, {resets} resets, {grown} bytes more", suites.len());
    // In a short run other tests share the process.
    assert!(scale() < SCALE_ALONE || grown < 64 << 20, "{grown}");
    let spliced = rig.await_count(|_| true).bytes(Path::Splice);
    assert!(
        !caps.kernel_tls.works() || spliced >= whole - resets * answer.len() as u64,
        "{spliced} of {whole}"
    );
}

fn resident_bytes() -> u64 {
    let pages = fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * rustix::param::page_size() as u64
}
