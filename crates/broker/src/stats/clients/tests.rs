//! Tests of the counts of connections.

use super::*;

#[test]
fn connections_count_by_listener_until_they_close() {
    let clients = Clients::default();
    let (first, second) = (clients.opened("PLAINTEXT"), clients.opened("SSL"));
    drop((clients.opened("SSL"), first));
    let counts = clients.listeners();
    assert_eq!(counts["PLAINTEXT"], ListenerCounts { opened: 1, open: 0 });
    assert_eq!(counts["SSL"], ListenerCounts { opened: 2, open: 1 });
    drop(second);
}

#[test]
fn client_software_list_is_bounded_and_recovers() {
    let clients = Clients::default();
    let made_up: Vec<_> = (0..1000).map(|at| clients.software(&format!("made-up-{at}"), "1")).collect();
    let long = clients.software(&"x".repeat(65), "1");
    let counts = clients.softwares();
    assert_eq!(counts.len(), SOFTWARE_MAX + 1);
    assert_eq!(counts[&(OTHER.to_owned(), OTHER.to_owned())], 901);
    drop((made_up, long));
    let honest = clients.software("librdkafka", "2.6.0");
    let counts = clients.softwares();
    assert_eq!(counts.into_iter().collect::<Vec<_>>(), [(("librdkafka".to_owned(), "2.6.0".to_owned()), 1)]);
    drop(honest);
    assert_eq!(clients.softwares().len(), 0);
}
