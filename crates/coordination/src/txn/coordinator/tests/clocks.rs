//! A coordinator's own actions, and the clock of each: the steady one, or the one that people
//! set.

use crate::txn::config::TxnConfig;
use crate::txn::error::TxnError;
use crate::txn::tests::rig::{ID, Rig};
use crate::txn::transaction::TxnState;

const HOUR_MS: i64 = 3_600_000;

#[test]
fn a_clock_set_forward_aborts_no_transaction() {
    let mut rig = Rig::new(TxnConfig::default());
    let owner = rig.init();
    rig.begin(owner, &["t-0"]);
    rig.ahead_ms = HOUR_MS;
    rig.pass(59_000);
    assert_eq!(rig.state(), TxnState::Ongoing);
    rig.pass(11_000);
    assert_eq!(rig.state(), TxnState::CompleteAbort);
}

#[test]
fn clock_set_back_still_aborts_slow_transactions() {
    let mut rig = Rig::new(TxnConfig::default());
    let owner = rig.init();
    rig.begin(owner, &["t-0"]);
    rig.ahead_ms = -HOUR_MS;
    rig.pass(70_001);
    assert_eq!(rig.state(), TxnState::CompleteAbort);
}

#[test]
fn transaction_timeout_includes_time_before_restart() {
    for (ahead_ms, left_ms) in [(0, 20_000), (-HOUR_MS, 60_000), (HOUR_MS, 0)] {
        let mut rig = Rig::new(TxnConfig { abort_interval_ms: 1, ..TxnConfig::default() });
        let owner = rig.init();
        rig.begin(owner, &["t-0"]);
        rig.pass(40_000);
        rig.ahead_ms = ahead_ms;
        rig.restart();
        rig.pass(left_ms);
        assert_eq!(rig.state(), TxnState::Ongoing, "{ahead_ms}");
        rig.pass(2);
        assert_eq!(rig.state(), TxnState::CompleteAbort, "{ahead_ms}");
    }
}

#[test]
fn transactional_ids_expire_by_wall_clock() {
    let mut rig = Rig::new(TxnConfig::default());
    rig.init();
    rig.ahead_ms = rig.config.id_expiration_ms - HOUR_MS - 1;
    rig.pass(HOUR_MS);
    assert!(rig.coordinator.describe(ID).is_ok());
    rig.ahead_ms += 1;
    rig.pass(HOUR_MS);
    assert_eq!(rig.coordinator.describe(ID).unwrap_err(), TxnError::TransactionalIdNotFound);
}
