//! `kafka-storage`.

use std::fs::File;
use std::io::Read as _;

use super::options::{Options, Spec};
use super::{Action, flag, value};
use crate::failure::Failure;

const SPECS: [Spec; 9] = [
    value("-t"),
    value("--cluster-id"),
    value("-c"),
    value("--config"),
    flag("-g"),
    flag("--ignore-formatted"),
    flag("--standalone"),
    value("-S"),
    value("--add-scram"),
];

/// The file that the start of `confluentinc/cp-kafka` writes from the environment. Levada reads
/// these keys from the environment itself.
const WRITTEN: &str = "/etc/kafka/kafka.properties";

pub(super) fn action(words: &[String]) -> Result<Action, Failure> {
    match words.split_first() {
        Some((verb, [])) if verb == "random-uuid" => Ok(Action::Print(random_id()?)),
        Some((verb, words)) if verb == "format" => {
            let options = Options::parse(words, &SPECS, "levada storage format")?;
            let mut call = vec!["storage", "format"];
            for (names, ours) in
                [(["-t", "--cluster-id"], "--cluster-id"), (["-S", "--add-scram"], "--add-scram")]
            {
                let values = names.into_iter().flat_map(|name| options.all(name));
                call.extend(values.flat_map(|value| [ours, value]));
            }
            let config = ["-c", "--config"].into_iter().find_map(|name| options.last(name));
            call.extend(
                config.filter(|path| *path != WRITTEN).into_iter().flat_map(|path| ["--config", path]),
            );
            let keeps = options.has("-g") || options.has("--ignore-formatted");
            call.extend(keeps.then_some("--ignore-formatted"));
            Ok(Action::Levada(options.with_connection(&call)))
        }
        _ => Err(Failure::usage("expected format or random-uuid")),
    }
}

/// An id in Kafka's form: 22 letters of Base64 that do not begin with a dash.
fn random_id() -> Result<String, Failure> {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut bytes = [0; 22];
    let read = File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(|error| Failure::new(format!("/dev/urandom: {error}")))?;
    // The last letter has two bits of 16 bytes. The first one is none of the last two letters.
    bytes[0] &= 31;
    bytes[21] &= 48;
    Ok(bytes.iter().map(|byte| char::from(LETTERS[usize::from(byte & 63)])).collect())
}
