//! The TLS entry of a listener: any bytes, a client's handshake with bytes changed and an end
//! anywhere, and after an honest handshake records of any kind under the right keys. No client is
//! accepted without a required certificate, the received data is the sent data or a prefix of it,
//! and the broker's output can be decrypted. In addition: arbitrary bytes as key and trust stores,
//! certificates, rules for names.

use std::cell::RefCell;
use std::io::{self, Read, Write};
use std::rc::Rc;
use std::sync::{Arc, LazyLock};

use bytes::BytesMut;
use levada_broker::tls::TlsContext;
use levada_broker::tls::names::{Names, Rules, subject};
use levada_io::Seal;
use levada_security::keystore::{ClientTls, SslSettings};
use levada_tls::{Next, TlsSession};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ClientConfig, RootCertStore};

use self::forger::{DATA, Forger, HANDSHAKE, KEY_UPDATE};
use crate::scratch;

// Some of its functions are for the tests alone.
#[allow(dead_code)]
#[path = "../../broker/src/server/channel/tests/forger.rs"]
mod forger;

/// More than this in one allocation means that memory does not follow the received bytes: one read,
/// and one record.
const SPARE_BYTES: usize = 64 << 10;

/// Checks one input.
pub fn run(input: &[u8]) {
    let Some(([what, how], rest)) = input.split_first_chunk() else { return };
    match what % 8 {
        0 => stores(rest, *how),
        1 => inline(rest),
        2 => names(rest),
        3 => rules(rest),
        4 => strange(rest, *how),
        5 => changed(rest, *how),
        _ => forged(rest, *how),
    }
}

/// Keys that all sides use: an authority, a broker's identity, and a client's with another signer.
struct Trust {
    authority: String,
    identity: (String, String),
    stranger: (Vec<u8>, Vec<u8>),
    roots: RootCertStore,
    /// Accepts every client, or only clients with a certificate.
    open: TlsContext,
    closed: TlsContext,
}

static TRUST: LazyLock<Trust> = LazyLock::new(|| {
    let issuer = || {
        let mut params = CertificateParams::new([]).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("an authority")
    };
    let (good, other) = (issuer(), issuer());
    let issue = |by: &CertifiedIssuer<'_, KeyPair>| {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(["localhost".to_owned()]).expect("a name");
        (params.signed_by(&key, by).expect("a certificate"), key)
    };
    let ((own, key), (strange, strange_key)) = (issue(&good), issue(&other));
    let (authority, identity) = (good.pem(), (own.pem(), key.serialize_pem()));
    let mut roots = RootCertStore::empty();
    roots.add(good.der().clone()).expect("an authority");
    let context = |client_auth| {
        let settings = |name: &str| match name {
            "ssl.keystore.certificate.chain" => Some(&identity.0[..]),
            "ssl.keystore.key" => Some(&identity.1[..]),
            "ssl.truststore.certificates" => Some(&authority[..]),
            "levada.ssl.kernel.offload" => Some("never"),
            _ => None,
        };
        TlsContext::of(&SslSettings::new("fuzz", settings), client_auth, None).expect("all that it takes")
    };
    let (open, closed) = (context("none"), context("required"));
    let stranger = (strange.der().to_vec(), strange_key.serialize_der());
    Trust { authority, identity, stranger, roots, open, closed }
});

/// A client with one cipher suite, which may send a certificate without a trusted signer.
fn client(which: u8, shows: bool) -> Arc<ClientConfig> {
    let mut provider = rustls::crypto::ring::default_provider();
    // Behind these are those for keys of another kind than the broker's.
    provider.cipher_suites.truncate(6);
    let suite = provider.cipher_suites[usize::from(which) % provider.cipher_suites.len()];
    provider.cipher_suites = vec![suite];
    let builder = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()
        .expect("a suite")
        .with_root_certificates(TRUST.roots.clone());
    let mut config = if shows {
        let (certificate, key) = TRUST.stranger.clone();
        let key = PrivateKeyDer::try_from(key).expect("a key");
        builder.with_client_auth_cert(vec![certificate.into()], key).expect("they fit")
    } else {
        builder.with_no_client_auth()
    };
    config.enable_secret_extraction = true;
    Arc::new(config)
}

fn stores(bytes: &[u8], how: u8) {
    let path = scratch::path().join("store");
    std::fs::write(&path, bytes).expect("a file of our own");
    let path = path.display().to_string();
    let kind = ["PEM", "PKCS12", "JKS", ""][usize::from(how & 3)];
    let trusts = how & 4 != 0;
    let settings = |name: &str| match name {
        "ssl.keystore.location" if !trusts => Some(&path[..]),
        "ssl.truststore.location" if trusts => Some(&path[..]),
        "ssl.keystore.certificate.chain" if trusts => Some(&TRUST.identity.0[..]),
        "ssl.keystore.key" if trusts => Some(&TRUST.identity.1[..]),
        "ssl.truststore.certificates" if !trusts => Some(&TRUST.authority[..]),
        "ssl.keystore.type" | "ssl.truststore.type" => Some(kind),
        "ssl.keystore.password" | "ssl.truststore.password" | "ssl.key.password" => Some("secret"),
        _ => None,
    };
    load(&SslSettings::new("fuzz", settings));
}

/// Chain, key and authorities as values of the configuration, with a byte that is no text between
/// them.
fn inline(bytes: &[u8]) {
    let parts: Vec<String> = bytes
        .splitn(3, |byte| *byte == 0xff)
        .map(|part| String::from_utf8_lossy(part).into_owned())
        .collect();
    let part = |at: usize| parts.get(at).map(String::as_str);
    let settings = |name: &str| match name {
        "ssl.keystore.certificate.chain" => part(0),
        "ssl.keystore.key" => part(1),
        "ssl.truststore.certificates" => part(2),
        "ssl.key.password" => Some("secret"),
        _ => None,
    };
    load(&SslSettings::new("fuzz", settings));
}

fn load(view: &SslSettings<'_>) {
    for client_auth in ["none", "required"] {
        match TlsContext::of(view, client_auth, None) {
            Ok(context) => {
                drop(TlsSession::new(context.config().clone()).expect("whatever was taken can be used"))
            }
            Err(error) => assert!(error.to_string().starts_with("fuzz: ssl."), "{error}"),
        }
    }
    let _ = ClientTls::load(view);
}

fn names(der: &[u8]) {
    let (subject, names) = (subject(der), Names::of(der));
    assert!(subject.is_some() || names.is_none());
    if let (Some(subject), Some(names)) = (subject, names) {
        assert_eq!(Rules::parse("").expect("the default").principal(&subject), Some(subject));
        names.follow(&names.clone(), |_| false).expect("nothing has changed");
    }
}

/// Rules, and a name after a line end.
fn rules(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (rules, name) = text.split_once('\n').unwrap_or((&text, "CN=duke,O=levada"));
    if let Ok(rules) = Rules::parse(rules) {
        let principal = rules.principal(name);
        assert_eq!(rules.clone().principal(name), principal);
    }
}

/// The broker's end of a connection, as in `handshakes` and `channel`.
struct Entrance {
    context: &'static TlsContext,
    session: TlsSession,
    stage: Stage,
    arrived: usize,
    plain: BytesMut,
    said: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Shaking,
    In,
    Over,
}

impl Entrance {
    fn new(context: &'static TlsContext) -> Self {
        let session = TlsSession::new(context.config().clone()).expect("a sound configuration");
        let (plain, said) = (BytesMut::new(), Vec::new());
        let mut entrance = Self { context, session, stage: Stage::Shaking, arrived: 0, plain, said };
        entrance.shake();
        entrance
    }

    fn take(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && self.stage != Stage::Over {
            let mut room_bytes = 0;
            let mut read = |room: &mut [u8]| {
                room_bytes = room.len();
                let count = room.len().min(bytes.len());
                room[..count].copy_from_slice(&bytes[..count]);
                Ok(count)
            };
            let shaking = self.stage == Stage::Shaking;
            let got = if shaking {
                self.session.read_within_record(&mut read)
            } else {
                self.session.read(&mut read)
            };
            let got = got.expect("there is something to read");
            bytes = &bytes[got..];
            self.arrived += got;
            assert!(got > 0 && room_bytes <= SPARE_BYTES, "{room_bytes}");
            match self.stage {
                Stage::Shaking if self.session.is_no_tls() => {
                    assert!(self.said.is_empty(), "closed without a word");
                    self.stage = Stage::Over;
                }
                Stage::Shaking => self.shake(),
                _ => self.receive(),
            }
        }
    }

    fn shake(&mut self) {
        let next = self.session.process(&mut self.plain);
        self.say();
        match next {
            Ok(Next::Read) if !self.session.closed => {}
            Ok(Next::Read) | Err(_) => self.stage = Stage::Over,
            Ok(Next::Done) => {
                assert!(self.plain.is_empty(), "nothing but the handshake has been read");
                self.stage = match self.context.peer(self.session.peer_certificates()) {
                    Ok(_) => Stage::In,
                    Err(_) => Stage::Over,
                };
            }
        }
    }

    fn receive(&mut self) {
        let processed = self.session.process(&mut self.plain);
        self.say();
        if processed.is_err() || self.session.closed {
            self.leave();
        }
    }

    /// Moves the bytes that the session sends to the received ones.
    fn say(&mut self) {
        let said = self.session.take_outgoing();
        assert!(said.len() <= SPARE_BYTES + 64 * self.arrived, "{} for {}", said.len(), self.arrived);
        self.said.extend(said);
    }

    /// An answer of this number of bytes; none if the client has disconnected.
    fn answer(&mut self, len: usize) {
        if self.stage == Stage::In {
            self.said.extend(self.session.take_outgoing());
            if self.session.seal(&vec![b'.'; len], &mut self.said).is_err() {
                self.leave();
            }
        }
    }

    /// Ends the input of the client.
    fn end(&mut self) {
        if self.stage == Stage::In {
            self.session.read(|_| Ok(0)).expect("the end is not an error");
            let _ = self.session.process(&mut self.plain);
            self.say();
            self.leave();
        }
        self.stage = Stage::Over;
    }

    fn leave(&mut self) {
        self.session.send_close_notify();
        self.say();
        self.stage = Stage::Over;
    }
}

/// The client's end: bytes are changed on the way, and it may break off.
struct Wire {
    entrance: Rc<RefCell<Entrance>>,
    sent: usize,
    /// Position and new value of a changed byte; position at which the client disconnects.
    changes: Vec<(usize, u8)>,
    end: usize,
}

impl Wire {
    fn new(context: &'static TlsContext) -> Self {
        let entrance = Rc::new(RefCell::new(Entrance::new(context)));
        Self { entrance, sent: 0, changes: Vec::new(), end: usize::MAX }
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut bytes = bytes.to_vec();
        for (at, into) in &self.changes {
            if let Some(byte) = at.checked_sub(self.sent).and_then(|at| bytes.get_mut(at)) {
                *byte ^= into;
            }
        }
        let count = bytes.len().min(self.end - self.sent);
        self.sent += count;
        self.entrance.borrow_mut().take(&bytes[..count]);
        if count < bytes.len() {
            self.entrance.borrow_mut().end();
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Wire {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let said = &mut self.entrance.borrow_mut().said;
        let count = room.len().min(said.len());
        room[..count].copy_from_slice(&said[..count]);
        said.drain(..count);
        Ok(count)
    }
}

/// Any bytes, in pieces of any size.
fn strange(bytes: &[u8], how: u8) {
    let mut entrance = Entrance::new(&TRUST.closed);
    for piece in bytes.chunks(usize::from(how).max(1)) {
        entrance.take(piece);
        assert_ne!(entrance.stage, Stage::In);
    }
    entrance.end();
    assert!(entrance.plain.is_empty());
}

/// A client's handshake with some bytes changed: two for the position, and the difference. The
/// first two are the position of its end.
fn changed(bytes: &[u8], how: u8) {
    let mut wire = Wire::new(&TRUST.closed);
    let place = |pair: &[u8]| usize::from(u16::from_le_bytes([pair[0], pair[1]]));
    if let Some((end, changes)) = bytes.split_first_chunk::<2>() {
        wire.end = if how & 0x40 != 0 { place(end) } else { usize::MAX };
        wire.changes = changes.chunks_exact(3).map(|one| (place(one), one[2])).collect();
    }
    let entrance = wire.entrance.clone();
    // The client's verdict is not checked.
    let _ = Forger::new(client(how & 0x3f, how & 0x80 != 0), wire);
    entrance.borrow_mut().end();
    assert!(entrance.borrow().plain.is_empty(), "nobody was let in");
}

/// An honest handshake, and then arbitrary input.
fn forged(mut input: &[u8], how: u8) {
    let wire = Wire::new(&TRUST.open);
    let entrance = wire.entrance.clone();
    let mut client = Forger::new(client(how, false), wire).expect("an honest handshake");
    assert_eq!(entrance.borrow().stage, Stage::In);
    let mut data = Vec::new();
    while let [step, len, rest @ ..] = input {
        let (payload, behind) = rest.split_at(usize::from(*len).min(rest.len()));
        input = behind;
        let _ = perform(&mut client, *step, payload, &mut data);
        hear(&mut client);
        let entrance = entrance.borrow();
        assert!(data.starts_with(&entrance.plain), "what arrives is what was said");
        if entrance.stage == Stage::Over {
            break;
        }
    }
    entrance.borrow_mut().end();
    hear(&mut client);
}

fn perform(client: &mut Forger<Wire>, step: u8, payload: &[u8], data: &mut Vec<u8>) -> io::Result<()> {
    let entrance = client.socket.entrance.clone();
    match step % 8 {
        0 => {
            data.extend_from_slice(payload);
            client.say(DATA, payload)
        }
        1 => {
            let kind = 20 + step / 8 % 6;
            data.extend_from_slice(if kind == DATA { payload } else { &[] });
            client.say(kind, payload)
        }
        2 => client.say(step, payload),
        3 => client.socket.write_all(payload),
        4 => {
            let mut update = KEY_UPDATE;
            update[4] = (step / 8) & 1;
            // In one piece, in two, or with less than all of it.
            let (front, end) = update.split_at(usize::from(step / 16 % 6));
            client.say(HANDSHAKE, front)?;
            if !payload.is_empty() && !end.is_empty() {
                client.say(HANDSHAKE, end)?;
            }
            client.renew()
        }
        5 => {
            let record = client.seal(DATA, payload)?;
            data.extend_from_slice(payload);
            let cut = usize::from(step) % record.len();
            client.socket.write_all(&record[..cut])?;
            if step & 0x80 != 0 {
                entrance.borrow_mut().answer(1);
            }
            client.socket.write_all(&record[cut..])
        }
        6 => {
            entrance.borrow_mut().answer(usize::from(step / 8) * payload.len() * 16);
            Ok(())
        }
        _ => {
            entrance.borrow_mut().end();
            Ok(())
        }
    }
}

/// Decrypts all that the broker has sent; panics if a record cannot be decrypted.
fn hear(client: &mut Forger<Wire>) {
    while let Some((kind, _)) = client.hear().expect("a whole record under the right keys") {
        assert!((21..=23).contains(&kind), "{kind}");
    }
}
