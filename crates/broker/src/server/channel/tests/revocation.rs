//! Certificates that are good no longer.

use rcgen::{CertificateRevocationListParams, KeyIdMethod, RevokedCertParams, SerialNumber, date_time_ymd};
use x509_parser::prelude::FromDer;

use super::*;

impl Rig {
    /// Writes `crl.pem`, a list of these certificates that is good until a year.
    pub(super) fn revoke(&self, certificates: &[&CertificateDer<'_>], until: i32) {
        let revoked = certificates.iter().map(|certificate| {
            let (_, parsed) = x509_parser::certificate::X509Certificate::from_der(certificate).unwrap();
            RevokedCertParams {
                serial_number: SerialNumber::from_slice(parsed.raw_serial()),
                revocation_time: date_time_ymd(2020, 1, 1),
                reason_code: None,
                invalidity_date: None,
            }
        });
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2000, 1, 1),
            next_update: date_time_ymd(until, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: revoked.collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let list = list.signed_by(&self.authority).unwrap();
        fs::write(self.path("crl.pem"), list.pem().unwrap()).unwrap();
        fs::write(self.path("crl.der"), list.der()).unwrap();
    }
}

#[test]
fn revoked_client_certificate_is_refused_at_handshake() {
    for name in ["crl.pem", "crl.der"] {
        let file = format!("levada.ssl.crl.location={{dir}}/{name}");
        let rig = Rig::new(&["ssl.client.auth=required", &file]);
        rig.filled("t", 1);
        let (certificate, key, _) = rig.issue("duke");
        let duke = || {
            let mut roots = RootCertStore::empty();
            roots.add(rig.authority.der().clone()).unwrap();
            let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
            let builder = builder.unwrap().with_root_certificates(roots);
            rig.connect(builder.with_client_auth_cert(vec![certificate.clone()], key).unwrap())
        };
        let refresh = || rig.server().broker.tls().refresh(&rig.server().broker.config());
        fetched(&mut duke(), "t");
        rig.revoke(&[&certificate], 2091);
        refresh();
        let refused = ask(&mut duke(), FETCH, &fetch("t")).unwrap_err();
        assert!(refused.to_string().contains("CertificateRevoked"), "{refused}");
        fetched(&mut rig.connect(rig.client(None, Some("duchess"))), "t");
        // A file that cannot be used is not taken.
        fs::write(rig.path(name), "-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n").unwrap();
        refresh();
        assert!(ask(&mut duke(), FETCH, &fetch("t")).is_err());
        fetched(&mut rig.connect(rig.client(None, Some("duchess"))), "t");
        // A revocation list that may be out of date admits no client.
        rig.revoke(&[], 2001);
        refresh();
        assert!(ask(&mut rig.connect(rig.client(None, Some("duchess"))), FETCH, &fetch("t")).is_err());
    }
}

#[test]
fn client_without_certificate_is_anonymous() {
    let rig = Rig::new(&["ssl.client.auth=required", "ssl.principal.mapping.rules=RULE:^CN=(.*)$/$1/"]);
    rig.filled("t", 1);
    fetched(&mut rig.connect(rig.client(None, Some("duke"))), "t");
    assert!(ask(&mut rig.connect(rig.client(None, Some("ANONYMOUS"))), FETCH, &fetch("t")).is_err());
}

#[test]
fn expired_client_certificate_cannot_resume_session() {
    let rig = Rig::new(&["ssl.client.auth=required"]);
    rig.filled("t", 1);
    let expires = levada_process::clock::now_ms() / 1000 + 5;
    let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
    params.not_after = date_time_ymd(1970, 1, 1) + Duration::from_secs(expires.unsigned_abs());
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, &rig.authority).unwrap().der().clone();
    let versions = [&rustls::version::TLS13, &rustls::version::TLS12];
    let clients = versions.map(|version| {
        let mut roots = RootCertStore::empty();
        roots.add(rig.authority.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(&[version]);
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let builder = builder.unwrap().with_root_certificates(roots);
        builder.with_client_auth_cert(vec![certificate.clone()], key).unwrap()
    });
    for client in &clients {
        fetched(&mut rig.connect(client.clone()), "t");
        let mut resumed = rig.connect(client.clone());
        fetched(&mut resumed, "t");
        assert_eq!(resumed.conn.handshake_kind(), Some(rustls::HandshakeKind::Resumed));
    }
    while levada_process::clock::now_ms() / 1000 <= expires {
        std::thread::sleep(Duration::from_millis(50));
    }
    for client in &clients {
        assert!(ask(&mut rig.connect(client.clone()), FETCH, &fetch("t")).is_err());
    }
}
