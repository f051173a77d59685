//! The thread of a node after a panic.

use std::cell::Cell;

use super::*;
use crate::config::{BrokerConfig, Sources};

#[test]
fn a_call_that_panics_does_not_end_the_thread_and_the_next_has_another_connection() {
    let config =
        Arc::new(LiveConfig::new(BrokerConfig::load(&Sources::flags(Vec::<String>::new())).unwrap()));
    let connections = Cell::new(0);
    let connect = || {
        connections.set(connections.get() + 1);
        Connection::new(config.clone(), Peers::Brokers, "test".to_owned(), (TIMEOUT, Cutoff::default()))
    };
    let (calls, inbox) = channel::<Call>();
    let (told, made) = channel();
    calls.send(Box::new(|_| panic!("on purpose"))).unwrap();
    calls.send(Box::new(move |peer| told.send(peer.is_none()).unwrap())).unwrap();
    drop(calls);
    serve("peer-1", &inbox, connect, || None);
    assert_eq!((made.recv(), connections.get()), (Ok(true), 2));
}
