//! Runs one broker for a program that is not Rust: `node levada|kafka [KEY=VALUE]...` prints the
//! address for clients when it accepts them, and ends the broker when standard input does. The key
//! `port` is ours: the port for clients. All others are Kafka's.

use std::io::Read;

use levada_tests::Node;
use levada_tests::node::Kind;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let kind = match arguments.next().as_deref() {
        Some("levada") => Kind::Levada,
        Some("kafka") => Kind::Kafka,
        _ => panic!("usage: node levada|kafka [KEY=VALUE]..."),
    };
    let mut node = Node::of(kind);
    for argument in arguments {
        let (key, value) = argument.split_once('=').expect("options have the form KEY=VALUE");
        node = match key {
            "port" => node.port(value.parse().expect("a port")),
            _ => node.option(key, value),
        };
    }
    node.start();
    println!("{}", node.bootstrap());
    // No byte is ever sent: only the end is expected, and an error counts as the end.
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    node.stop();
}
