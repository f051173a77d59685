//! The thread after a panic.

use levada_wire::Uuid;

use super::*;

const TOPIC: Uuid = Uuid::from_bytes([3; 16]);

#[test]
fn fetcher_restarts_its_partitions_after_panic() {
    let shared = Shared::default();
    for index in 0..3 {
        shared.tell(Command::Follow((TOPIC, index)));
    }
    shared.tell(Command::Forget((TOPIC, 1)));
    let mut seen = Vec::new();
    shared.run("fetch-1-0", || {
        let commands = std::mem::take(&mut shared.inbox.lock().commands);
        seen.push(commands.iter().filter_map(followed).collect::<Vec<_>>());
        assert!(seen.len() > 1, "on purpose");
    });
    assert_eq!(seen, [vec![0, 1, 2], vec![0, 2]]);
}

fn followed(command: &Command) -> Option<i32> {
    match command {
        Command::Follow((_, index)) => Some(*index),
        Command::Forget(_) => None,
    }
}
