//! The thread of a node after a panic.

use std::cell::Cell;

use levada_config::{BrokerConfig, Sources};
use levada_log::checkpoint::MetaProperties;

use super::*;

#[test]
fn panicked_peer_call_keeps_thread_and_reconnects() {
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
    serve("peer-1", || inbox.recv().ok(), connect, || None);
    assert_eq!((made.recv(), connections.get()), (Ok(true), 2));
}

#[test]
fn idle_peer_thread_ends_and_is_replaced() {
    let config =
        Arc::new(LiveConfig::new(BrokerConfig::load(&Sources::flags(Vec::<String>::new())).unwrap()));
    let identity = MetaProperties { cluster_id: "cluster".to_owned(), node_id: 1, directory_id: [0; 16] };
    let metadata = Arc::new(Metadata::new(identity));
    let mut peers = PeerRequests::new(config, metadata);
    peers.idle = Duration::from_millis(1);
    let (told, made) = channel();
    let call = || -> Call {
        let told = told.clone();
        Box::new(move |peer| told.send((peer.is_none(), thread::current().id())).unwrap())
    };
    let mut threads = std::collections::HashSet::new();
    while threads.len() < 3 {
        peers.call(7, Subject::Markers, call());
        let (is_none, thread) = made.recv().unwrap();
        assert!(is_none, "the cluster has no such node");
        threads.insert(thread);
        while peers.is_in_use() {
            thread::yield_now();
        }
    }
    // No call is lost at the moment of an end.
    for _ in 0..2_000 {
        peers.call(7, Subject::Markers, call());
    }
    for _ in 0..2_000 {
        made.recv().unwrap();
    }
}
