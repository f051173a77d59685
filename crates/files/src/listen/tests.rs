//! Addresses as text, and socket files that another process has left.

use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;

use super::{Address, Handed, Listener, Purpose, for_shards, open_all};

fn bind(address: &Address) -> std::io::Result<Vec<Listener>> {
    super::bind(address, (Purpose::Files, false), &mut Handed::default())
}

#[test]
fn displayed_address_parses_to_itself() {
    for text in ["127.0.0.1:8080", "[::1]:80", ":80", "unix:/run/x", "systemd", "systemd:web", "localhost:0"]
    {
        let address: Address = text.parse().unwrap();
        assert_eq!(address.to_string(), text);
    }
    for odd in ["", "80", "host", "host:", "host:x", "::1:80", "unix:", "systemd:", "host:65536"] {
        assert!(odd.parse::<Address>().is_err(), "{odd}");
    }
}

#[test]
fn only_an_unserved_socket_is_replaced() {
    let home = tempfile::TempDir::new().unwrap();
    let path = home.path().join("socket");
    let address = Address::Unix(path.clone());
    let first = bind(&address).unwrap();
    assert!(bind(&address).is_err(), "somebody answers there");
    drop(first);
    let second = bind(&address).unwrap();
    UnixStream::connect(&path).unwrap();
    drop(second);
    let file = home.path().join("file");
    std::fs::write(&file, "data").unwrap();
    assert!(bind(&Address::Unix(file.clone())).is_err());
    assert_eq!(std::fs::read(&file).unwrap(), b"data");
}

#[test]
fn all_host_addresses_are_bound_to_one_port() {
    // The second one is of a network for documentation.
    let addresses = ["127.0.0.1:0", "192.0.2.1:0", "127.0.0.2:0"].map(|text| text.parse().unwrap());
    let bound = open_all(&addresses, false).unwrap();
    let bound: Vec<_> = bound.iter().map(|listener| listener.local_addr().unwrap()).collect();
    let port = bound[0].port();
    assert_eq!(bound, ["127.0.0.1", "127.0.0.2"].map(|host| format!("{host}:{port}").parse().unwrap()));
    assert!(open_all(&bound, false).is_err(), "nobody listens there by half");
    let absent = open_all(&addresses[1..2], false).unwrap_err();
    assert_eq!(absent.kind(), std::io::ErrorKind::AddrNotAvailable);
    assert!(open_all(&[], false).is_err());
}

#[test]
fn a_name_is_bound_with_all_its_addresses() {
    let bound = bind(&Address::Tcp("localhost".to_owned(), 0)).unwrap();
    let port = match bound[0].address().unwrap() {
        Address::Tcp(_, port) => port,
        other => panic!("{other}"),
    };
    let mut resolved: Vec<_> = ("localhost", port).to_socket_addrs().unwrap().collect();
    resolved.sort_unstable();
    resolved.dedup();
    for address in resolved {
        let is_served = TcpStream::connect(address).is_ok();
        assert!(is_served || TcpListener::bind((address.ip(), 0)).is_err(), "{address}");
    }
}

#[test]
fn shards_have_own_queues_on_an_exclusive_address() {
    let first = bind(&Address::Tcp("127.0.0.1".to_owned(), 0)).unwrap();
    let address = first[0].address().unwrap();
    let shards = for_shards(first, 3).unwrap();
    let addresses = shards.iter().map(|own| own[0].address().unwrap());
    assert_eq!(addresses.collect::<Vec<_>>(), vec![address.clone(); 3]);
    assert!(bind(&address).is_err(), "it is taken");
    drop(shards);
    bind(&address).unwrap();
}

#[test]
fn wildcard_and_other_address_share_one_port() {
    let free = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    for hosts in [["0.0.0.0", "::"], ["::", "127.0.0.1"]] {
        let all = hosts.map(|host| Address::Tcp(host.to_owned(), port));
        let mut handed = Handed::default();
        let mut bound = all.iter().map(|address| {
            super::bind(address, (Purpose::Files, address.is_v6_only(&all)), &mut handed).unwrap()
        });
        let (first, second) = (bound.next().unwrap(), bound.next().unwrap());
        // Each shard has a socket of its own.
        assert!(for_shards(first, 2).is_ok() && for_shards(second, 2).is_ok());
    }
}
