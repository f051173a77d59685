//! `half_open flood FROM ADDRESS COUNT`: begins this number of TLS handshakes from a separate
//! address and abandons them: some connections send nothing, some a part of a ClientHello, some a
//! whole one, which costs the broker a computation. `half_open sink` only accepts connections, to
//! show the cost of the flood alone. Both print when they are ready, and end with their standard
//! input.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream};

use levada_tests::raw::Encoder;
use rustix::net::{AddressFamily, SocketType};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["flood", from, address, count] => flood(
            from.parse().expect("an address"),
            address.parse().expect("an address with its port"),
            count.parse().expect("a number"),
        ),
        ["sink"] => sink(),
        _ => panic!("half_open flood FROM ADDRESS COUNT, or half_open sink"),
    }
}

fn flood(from: Ipv4Addr, address: SocketAddr, count: usize) {
    let hello = client_hello();
    let mut held = Vec::with_capacity(count);
    for number in 0..count {
        let mut socket = connect(from, address).expect("a connection");
        let said = match number % 3 {
            0 => 0,
            1 => hello.len() / 2,
            _ => hello.len(),
        };
        // A broker with enough of them may have hung up already.
        let _ = socket.write_all(&hello[..said]);
        held.push(socket);
    }
    println!("{count} connections");
    let _ = std::io::stdin().read(&mut [0]);
}

/// One source address has ports for fewer connections than there are in all, with those that others
/// have just closed.
fn connect(from: Ipv4Addr, to: SocketAddr) -> rustix::io::Result<TcpStream> {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None)?;
    rustix::net::bind(&socket, &SocketAddrV4::new(from, 0))?;
    rustix::net::connect(&socket, &to)?;
    Ok(TcpStream::from(socket))
}

fn sink() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    println!("{}", listener.local_addr().expect("an address"));
    std::thread::spawn(move || {
        let mut held = VecDeque::new();
        for mut socket in listener.incoming().map_while(Result::ok) {
            socket.set_nonblocking(true).expect("a socket");
            let _ = socket.read(&mut [0; 1024]);
            held.push_back(socket);
            // A broker does not keep all of them either.
            if held.len() > 5_000 {
                held.pop_front();
            }
        }
    });
    let _ = std::io::stdin().read(&mut [0]);
}

/// A whole ClientHello of TLS 1.3: one suite, one curve, one kind of signature.
fn client_hello() -> Vec<u8> {
    let extension = |kind: i16, body: Vec<u8>| {
        let length = i16::try_from(body.len()).expect("a short one");
        Encoder::default().i16(kind).i16(length).raw(&body).done()
    };
    let key = Encoder::default().i16(36).i16(29).i16(32).raw(&[9; 32]).done();
    let extensions = [
        extension(43, vec![2, 3, 4]),
        extension(10, vec![0, 2, 0, 29]),
        extension(13, vec![0, 2, 4, 3]),
        extension(51, key),
    ];
    let extensions = extensions.concat();
    let length = i16::try_from(extensions.len()).expect("a short one");
    let body = Encoder::default().i16(0x0303).raw(&[7; 32]).i8(0).i16(2).i16(0x1301).i8(1).i8(0);
    let body = body.i16(length).raw(&extensions).done();
    let length = i32::try_from(body.len()).expect("a short one");
    let message = Encoder::default().i32(length | 1 << 24).raw(&body).done();
    let length = i16::try_from(message.len()).expect("a short one");
    Encoder::default().i8(22).i16(0x0301).i16(length).raw(&message).done()
}
