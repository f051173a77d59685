//! Delegation tokens of a broker that is its own controller: their changes are in its metadata log,
//! and expired tokens are removed.

use std::path::Path;
use std::sync::Arc;

use levada_config::{BrokerConfig, Sources};
use levada_metadata::controller::{NewToken, TokenChange};
use levada_metadata::records::DelegationTokenRecord;
use levada_process::clock::now_ms;
use levada_security::delegation::token_hmac;
use levada_security::scram::ScramMechanism;
use levada_wire::error_code::ErrorCode;
use tokio::runtime::Runtime;

use crate::broker::Broker;

const HOUR_MS: i64 = 3_600_000;

struct Now {
    broker: Arc<Broker>,
    runtime: Runtime,
}

impl Now {
    fn start(home: &Path, settings: &[&str]) -> Self {
        let mut flags =
            vec![format!("log.dirs={}", home.display()), "delegation.token.secret.key=s3cret".to_owned()];
        flags.extend(settings.iter().map(|setting| (*setting).to_owned()));
        let config = BrokerConfig::load(&Sources::flags(flags)).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let entered = runtime.enter();
        let broker = Broker::open(config, &[]).unwrap();
        drop(entered);
        Self { broker, runtime }
    }

    fn create(&self, max_lifetime_ms: i64) -> DelegationTokenRecord {
        let new = NewToken {
            owner: "User:alice".to_owned(),
            requester: "User:alice".to_owned(),
            renewers: vec!["User:bob".to_owned()],
            max_lifetime_ms,
        };
        self.runtime.block_on(self.broker.controller().create_token(new)).unwrap()
    }

    /// A change of the token of this HMAC by a client.
    fn change(&self, client: &str, hmac: &[u8], period_ms: i64) -> TokenChange {
        let image = self.broker.metadata().image();
        let id = self.broker.access().token_of(&image, hmac).map(|token| token.token_id.clone());
        TokenChange { id, principal: format!("User:{client}"), period_ms }
    }

    fn renew(&self, client: &str, hmac: &[u8]) -> Result<i64, ErrorCode> {
        let renewed = self.broker.controller().renew_token(self.change(client, hmac, -1));
        self.runtime.block_on(renewed).map_err(|failure| failure.code)
    }

    fn expire(&self, client: &str, hmac: &[u8], period_ms: i64) -> Result<i64, ErrorCode> {
        let expired = self.broker.controller().expire_token(self.change(client, hmac, period_ms));
        self.runtime.block_on(expired).map_err(|failure| failure.code)
    }

    fn tokens(&self) -> Vec<DelegationTokenRecord> {
        self.broker.metadata().image().tokens().values().cloned().collect()
    }

    fn sweep(&self, steady_ms: i64, now_ms: i64) -> usize {
        self.broker.controller().sweep_tokens(steady_ms, now_ms);
        self.tokens().len()
    }
}

#[test]
fn token_changes_survive_a_restart() {
    let home = tempfile::tempdir().unwrap();
    let now = Now::start(home.path(), &["delegation.token.expiry.time.ms=60000"]);
    let token = now.create(-1);
    assert_eq!(token.max_timestamp - token.issue_timestamp, 7 * 24 * HOUR_MS);
    assert_eq!(token.expiration_timestamp - token.issue_timestamp, 60_000);
    let hmac = token_hmac("s3cret", &token.token_id);
    let renewed = now.renew("bob", &hmac).unwrap();
    assert!(renewed >= token.expiration_timestamp);
    assert_eq!(now.renew("carol", &hmac), Err(ErrorCode::DelegationTokenOwnerMismatch));
    assert_eq!(now.renew("bob", b"unknown"), Err(ErrorCode::DelegationTokenNotFound));
    let login =
        |now: &Now| now.broker.access().token_login(&token.token_id, ScramMechanism::Sha512, now_ms());
    assert_eq!(login(&now).unwrap().owner, "alice");
    now.broker.close();
    drop(now);
    let now = Now::start(home.path(), &[]);
    assert_eq!(now.tokens(), [DelegationTokenRecord { expiration_timestamp: renewed, ..token.clone() }]);
    assert_eq!(login(&now).unwrap().expires_ms, renewed);
    let at_ms = now.expire("alice", &hmac, 5_000).unwrap();
    assert!((at_ms - now_ms()).abs() <= 5_000);
    now.expire("bob", &hmac, -1).unwrap();
    assert_eq!((now.tokens().len(), login(&now)), (0, None));
    assert_eq!(now.expire("bob", &hmac, -1), Err(ErrorCode::DelegationTokenNotFound), "a replay");
}

#[test]
fn expired_tokens_are_removed_at_intervals() {
    let home = tempfile::tempdir().unwrap();
    let now = Now::start(home.path(), &[]);
    let (short, long) = (now.create(1_000), now.create(-1));
    let begin_ms = short.issue_timestamp;
    assert_eq!(now.sweep(0, begin_ms), 2, "the first round removes nothing");
    assert_eq!(now.sweep(HOUR_MS - 1, begin_ms + 2_000), 2, "the next round is not due");
    assert_eq!(now.sweep(HOUR_MS, begin_ms + 2_000), 1);
    let offset = now.broker.metadata().image().offset();
    assert_eq!(now.sweep(2 * HOUR_MS, begin_ms + 2_000), 1);
    assert_eq!(now.broker.metadata().image().offset(), offset, "nothing is written for nothing");
    assert_eq!(now.sweep(i64::MAX, long.expiration_timestamp + 1), 0);
    now.broker.close();
}

#[test]
fn housekeeping_removes_expired_tokens() {
    let home = tempfile::tempdir().unwrap();
    let now = Now::start(home.path(), &[]);
    let token = now.create(1);
    while now_ms() <= token.max_timestamp {
        std::thread::yield_now();
    }
    now.broker.keep_rooms();
    assert_eq!(now.tokens(), [token], "the first interval has not passed");
    now.broker.close();
    drop(now);
    let now = Now::start(home.path(), &[]);
    now.broker.keep_rooms();
    assert!(now.tokens().is_empty(), "it had expired before the start");
    now.broker.close();
}

#[test]
fn the_tokens_of_a_client_are_bounded() {
    let home = tempfile::tempdir().unwrap();
    let now = Now::start(home.path(), &[]);
    let new = NewToken {
        requester: "User:eve".to_owned(),
        renewers: vec![format!("User:{}", "r".repeat(32_000)); 40],
        ..NewToken::default()
    };
    let create = |new: &NewToken| now.runtime.block_on(now.broker.controller().create_token(new.clone()));
    assert!(create(&new).is_ok());
    assert_eq!(create(&new).unwrap_err().code, ErrorCode::PolicyViolation);
    now.create(-1);
    now.broker.close();
}
