//! Users and addresses.

use super::*;

#[test]
fn session_requester_is_its_user_or_address() {
    let address: IpAddr = [10, 0, 0, 1].into();
    let requester = |user: &str| Session::new(user, address).requester();
    assert_eq!(requester(Session::ANONYMOUS), Requester::at(address));
    assert_eq!(requester("eve"), Requester::User("eve".into()));
}
