//! Certificates for the tests: an authority, and valid and invalid certificates with its signature.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

/// An authority that keeps its files in one directory.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    directory: PathBuf,
}

/// Fault of a certificate.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Flaw {
    /// No fault.
    None,
    /// The certificate has expired.
    Expired,
    /// The certificate is not valid yet.
    NotYetValid,
    /// The certificate has signed itself.
    SelfSigned,
    /// The certificate has another name.
    OtherName,
}

impl Authority {
    /// A new one; its certificate is in `ca.pem`.
    pub fn new(directory: &Path) -> Self {
        fs::create_dir_all(directory).expect("a directory");
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name = named("Test authority");
        let issuer = CertifiedIssuer::self_signed(params, key()).expect("an authority");
        fs::write(directory.join("ca.pem"), issuer.pem()).expect("a file");
        Self { issuer, directory: directory.to_path_buf() }
    }

    /// The file of its certificate.
    pub fn certificate(&self) -> PathBuf {
        self.directory.join("ca.pem")
    }

    /// A file with key and certificate for `name`, at localhost if nothing else is wrong.
    pub fn issue(&self, name: &str, flaw: Flaw) -> PathBuf {
        let host = if flaw == Flaw::OtherName { "elsewhere.test" } else { "localhost" };
        let address = if flaw == Flaw::OtherName { "192.0.2.1" } else { "127.0.0.1" };
        let hosts = [host.to_string(), address.to_string()];
        let mut params = CertificateParams::new(hosts).expect("host names");
        params.distinguished_name = named(name);
        params.not_before = rcgen::date_time_ymd(if flaw == Flaw::NotYetValid { 2090 } else { 2000 }, 1, 1);
        params.not_after = rcgen::date_time_ymd(if flaw == Flaw::Expired { 2001 } else { 2099 }, 1, 1);
        let key = key();
        let (certificate, issuer) = match flaw {
            Flaw::SelfSigned => (params.self_signed(&key).expect("a certificate").pem(), String::new()),
            _ => (params.signed_by(&key, &self.issuer).expect("a certificate").pem(), self.issuer.pem()),
        };
        let path = self.directory.join(format!("{name}.pem"));
        fs::write(&path, key.serialize_pem() + &certificate + &issuer).expect("a file");
        path
    }
}

fn named(name: &str) -> rcgen::DistinguishedName {
    let mut named = rcgen::DistinguishedName::new();
    named.push(DnType::CommonName, name);
    named
}

fn key() -> KeyPair {
    KeyPair::generate().expect("a key")
}

/// A PKCS12 store as Java makes it; its certificate is written next to it as `.pem`.
pub fn java_store(path: &Path, password: &str) {
    // Again and again: a store is not overwritten.
    let _ = fs::remove_file(path);
    let subject = ["-dname", "CN=broker", "-ext", "san=dns:localhost,ip:127.0.0.1", "-keyalg", "EC"];
    keytool(path, password, &[&["-genkeypair", "-validity", "30"], &subject[..]].concat());
    fs::write(path.with_extension("pem"), keytool(path, password, &["-exportcert", "-rfc"])).expect("a file");
}

/// A PKCS12 store that trusts the certificate of a PEM file.
pub fn java_trust(path: &Path, password: &str, certificate: &Path) {
    keytool(path, password, &["-importcert", "-noprompt", "-file", &certificate.display().to_string()]);
}

fn keytool(path: &Path, password: &str, words: &[&str]) -> Vec<u8> {
    let mut command = std::process::Command::new("keytool");
    command.args(words).args(["-keystore", &path.display().to_string(), "-storepass", password]);
    let output = command.args(["-alias", "broker", "-storetype", "PKCS12"]).output().expect("keytool runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    output.stdout
}
