//! Logins by delegation tokens: the tokens that exist, and those that do not count.

use std::sync::Arc;

use levada_config::{BrokerConfig, Sources};
use levada_log::checkpoint::MetaProperties;
use levada_metadata::Metadata;
use levada_metadata::image::Position;
use levada_metadata::records::{Record, RemoveDelegationTokenRecord};

use super::*;
use crate::live_config::LiveConfig;

const NOW_MS: i64 = 1_000_000;
const SHA_256: ScramMechanism = ScramMechanism::Sha256;

struct Rig {
    access: Access,
    metadata: Arc<Metadata>,
}

impl Rig {
    /// A broker in a cluster, with these settings.
    fn new(settings: &[&str]) -> Self {
        let member = [
            "process.roles=broker",
            "node.id=7",
            "controller.quorum.bootstrap.servers=localhost:1",
            "controller.listener.names=CONTROLLER",
        ];
        let flags = member.iter().chain(settings).map(|flag| (*flag).to_owned());
        let config = BrokerConfig::load(&Sources::flags(flags)).unwrap();
        let identity = MetaProperties { cluster_id: "cluster".to_owned(), node_id: 7, directory_id: [1; 16] };
        let metadata = Arc::new(Metadata::new(identity));
        let access = Access::new(Arc::new(LiveConfig::new(config)), metadata.clone());
        Self { access, metadata }
    }

    fn publish(&self, record: impl Into<Record>) {
        let mut image = Image::clone(&self.metadata.image());
        let position = Position { offset: image.offset() + 1, ..Position::default() };
        image.apply(&record.into(), position).unwrap();
        self.metadata.replace(&image, |_| ());
    }

    fn login(&self, id: &str) -> Option<TokenLogin> {
        self.access.token_login(id, SHA_256, NOW_MS)
    }
}

fn token(id: &str, expiration_timestamp: i64) -> DelegationTokenRecord {
    DelegationTokenRecord {
        owner: "User:alice".to_owned(),
        requester: "User:bob".to_owned(),
        max_timestamp: NOW_MS + 10,
        expiration_timestamp,
        token_id: id.to_owned(),
        ..DelegationTokenRecord::default()
    }
}

#[test]
fn token_authenticates_owner_until_expiry_or_removal() {
    let rig = Rig::new(&["delegation.token.secret.key=testKey"]);
    rig.publish(token("a", NOW_MS));
    rig.publish(token("old", NOW_MS - 1));
    rig.publish(DelegationTokenRecord { max_timestamp: NOW_MS - 1, ..token("late", NOW_MS + 1) });
    let login = rig.login("a").unwrap();
    assert_eq!((login.owner.as_str(), login.expires_ms), ("alice", NOW_MS));
    let password = token_password(&token_hmac("testKey", "a"));
    let salted = SHA_256.salted_password(&password, &login.credential.salt, 4096);
    assert_eq!(login.credential, SHA_256.credential(&salted, login.credential.salt.clone(), 4096));
    for id in ["old", "late", "b", ""] {
        assert_eq!(rig.login(id), None, "{id:?}");
    }
    rig.publish(RemoveDelegationTokenRecord { token_id: "a".to_owned() });
    assert_eq!(rig.login("a"), None);
}

#[test]
fn delegation_tokens_need_a_secret_key() {
    for settings in [&[][..], &["delegation.token.secret.key="]] {
        let rig = Rig::new(settings);
        rig.publish(token("a", NOW_MS));
        assert!(!rig.access.has_tokens());
        assert_eq!((rig.login("a"), rig.access.token_hmac("a")), (None, None));
    }
}

#[test]
fn a_token_is_found_by_its_hmac() {
    let rig = Rig::new(&["delegation.token.secret.key=testKey"]);
    rig.publish(token("a", NOW_MS));
    rig.publish(token("b", NOW_MS));
    let image = rig.metadata.image();
    let found = rig.access.token_of(&image, &token_hmac("testKey", "b")).unwrap();
    assert_eq!(found.token_id, "b");
    assert_eq!(rig.access.token_of(&image, &token_hmac("other", "b")), None);
}

#[test]
fn credentials_of_removed_tokens_are_dropped() {
    let rig = Rig::new(&["delegation.token.secret.key=testKey"]);
    for id in ["a", "b", "c"].iter() {
        rig.publish(token(id, NOW_MS));
        for mechanism in ScramMechanism::ALL {
            assert!(rig.access.token_login(id, mechanism, NOW_MS).is_some());
        }
        rig.publish(RemoveDelegationTokenRecord { token_id: (*id).to_owned() });
    }
    assert!(rig.access.token_credentials.0.lock().keys().all(|(id, _)| id == "c"));
}
