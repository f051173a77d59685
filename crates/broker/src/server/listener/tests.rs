//! Connections that wait, and limits of hosts.

use std::fmt::Debug;
use std::net::Ipv4Addr;

use levada_config::{BrokerConfig, Sources};
use levada_testing::LogFields;
use tracing::field::Field;

use super::*;

/// A broker with these settings, and its acceptor.
fn acceptor(home: &tempfile::TempDir, settings: &[&str]) -> (tokio::runtime::Runtime, Acceptor) {
    let mut flags = vec![format!("log.dirs={}", home.path().display())];
    flags.extend(settings.iter().map(|setting| (*setting).to_owned()));
    let config = BrokerConfig::load(&Sources::flags(flags)).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let entered = runtime.enter();
    let broker = Broker::open(config, &[]).unwrap();
    drop(entered);
    (runtime, Acceptor::new(broker, (Vec::new(), None), Stop::new(), Arc::default()))
}

#[test]
fn two_listeners_share_port_across_ip_families() {
    let free = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    for both in [[("V4", "0.0.0.0"), ("V6", "[::]")], [("V6", "[::]"), ("V4", "127.0.0.1")]] {
        let [one, other] = both.map(|(name, host)| format!("{name}://{host}:{port}"));
        let flags = [
            format!("listeners={one},{other}"),
            "listener.security.protocol.map=V4:PLAINTEXT,V6:PLAINTEXT".to_owned(),
            "inter.broker.listener.name=V4".to_owned(),
        ];
        let config = BrokerConfig::load(&Sources::flags(flags)).unwrap();
        let open = |listener: &Listener| bind(&listener.bind, "listeners", config.is_v6_only(listener));
        let sockets: Vec<_> = config.listeners.iter().map(open).collect::<Result<_, _>>().unwrap();
        assert_eq!(sockets.len(), 2);
    }
}

#[test]
fn host_override_limit_applies_after_name_lookup() {
    let home = tempfile::tempdir().unwrap();
    let (runtime, acceptor) = acceptor(&home, &["max.connections.per.ip.overrides=localhost:1"]);
    let mut config = BrokerConfig::clone(&acceptor.broker.config());
    let listener = Arc::new(config.listeners[0].clone());
    let live = acceptor.broker.live_config();
    let from = |host: &str| acceptor.connections.take((address_of(host).unwrap(), &listener), &live.load());
    runtime.block_on(acceptor.look_up_hosts());
    let held = from("localhost").unwrap();
    assert_eq!(from("localhost").unwrap_err(), Full::Address);
    // The lookup of a name fails, and the others have their limits.
    config.max_connections_of.names = [("no\0host".to_owned(), 1), ("localhost".to_owned(), 2)].into();
    live.replace(config);
    runtime.block_on(acceptor.look_up_hosts());
    let _second = from("localhost").unwrap();
    assert_eq!(from("localhost").unwrap_err(), Full::Address);
    drop(held);
    let _other = (from("10.0.0.1").unwrap(), from("10.0.0.1").unwrap());
}

#[test]
fn connection_waiting_for_slot_is_logged_once() {
    let home = tempfile::tempdir().unwrap();
    let (runtime, acceptor) = acceptor(&home, &["max.connections=1"]);
    let listener = Arc::new(acceptor.broker.config().listeners[0].clone());
    let mut changes = acceptor.broker.live_config().changes();
    let origin = (IpAddr::from(Ipv4Addr::LOCALHOST), &listener);
    let lines = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&lines);
    let keep = move |field: &Field, value: &dyn Debug| {
        if field.name() == "message" {
            kept.lock().push(format!("{value:?}"));
        }
    };
    let _logged = tracing::subscriber::set_default(LogFields(keep));
    runtime.block_on(async {
        let held = acceptor.permit(origin, &mut changes).await.expect("a place");
        let mut waiting = Box::pin(acceptor.permit(origin, &mut changes));
        tokio::select! {
            biased;
            _ = &mut waiting => panic!("there is no place"),
            () = std::future::ready(()) => {}
        }
        assert_eq!(*lines.lock(), ["connections wait: max.connections is reached"]);
        // A further look without a free place is not logged.
        acceptor.broker.live_config().replace(BrokerConfig::clone(&acceptor.broker.config()));
        tokio::select! {
            biased;
            _ = &mut waiting => panic!("there is no place"),
            () = std::future::ready(()) => {}
        }
        assert_eq!(lines.lock().len(), 1);
        drop(held);
        assert!(waiting.await.is_some());
    });
}
