//! Sockets of a thread that does not run.

use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

use super::*;

#[tokio::test]
async fn open_streams_are_closed_from_another_thread() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let streams = Arc::<OpenStreams>::default();
    let mut open = Vec::new();
    let mut peers = Vec::new();
    for _ in 0..3 {
        peers.push(TcpStream::connect(address).await.unwrap());
        let accepted = Arc::new(listener.accept().await.unwrap().0.into_std().unwrap());
        streams.expect(&accepted);
        open.push(streams.register(accepted).unwrap());
    }
    drop(open.pop());
    peers.push(TcpStream::connect(address).await.unwrap());
    let waiting = Arc::new(listener.accept().await.unwrap().0.into_std().unwrap());
    streams.expect(&waiting);
    let other = streams.clone();
    assert_eq!(std::thread::spawn(move || other.close()).join().unwrap(), 3);
    for peer in &mut peers {
        assert_eq!(peer.read(&mut [0]).await.unwrap(), 0);
    }
    drop((open, waiting));
    assert_eq!(streams.close(), 0);
}
