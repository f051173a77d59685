//! Stores that change while they are read.

use std::fs::{self, OpenOptions};
use std::io::Write;

use rcgen::{CertificateParams, KeyPair};
use rustix::fs::{CWD, FileType, Mode};

use super::*;

/// A certificate and its key, in PEM.
fn identity() -> String {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
    certificate.pem() + &key.serialize_pem()
}

#[test]
fn key_store_replaced_during_read_is_stale() {
    let directory = tempfile::tempdir().unwrap();
    let (path, later) = (directory.path().join("broker.pem"), directory.path().join("later.pem"));
    fs::write(&later, identity()).unwrap();
    // An open of a pipe waits for the other end.
    rustix::fs::mknodat(CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    let to = path.clone();
    let writer = std::thread::spawn(move || {
        let mut pipe = OpenOptions::new().write(true).open(&to).unwrap();
        fs::rename(later, to).unwrap();
        pipe.write_all(identity().as_bytes()).unwrap();
    });
    let path = path.to_str().unwrap();
    let view = SslSettings::new("test", |key| (key == "ssl.keystore.location").then_some(path));
    let context = TlsContext::of(&view, "none", None).unwrap();
    writer.join().unwrap();
    assert!(context.is_stale());
    assert!(!TlsContext::of(&view, "none", None).unwrap().is_stale());
}
