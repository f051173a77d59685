//! Relation of the two lists of paths.

use super::*;

#[test]
fn paths_to_sockets_are_a_subset() {
    for path in SocketPath::ALL {
        assert_eq!(Path::from(path).to_socket(), Some(path));
    }
    let others = Path::ALL.into_iter().filter(|path| path.to_socket().is_none()).count();
    assert_eq!(others, Path::ALL.len() - SocketPath::ALL.len());
}
