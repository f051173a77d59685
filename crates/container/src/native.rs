//! `kafka -Dkafka.KEY=VALUE …`: the command by which Quarkus Dev Services start a Kafka in a native
//! image.

use std::os::unix::process::CommandExt as _;
use std::process::Command;

use crate::failure::Failure;

/// Variables of the options: each sets the key that the option names.
pub(crate) fn variables(words: &[String]) -> Result<Vec<(String, String)>, Failure> {
    let variable = |word: &String| {
        let pair = word.strip_prefix("-Dkafka.").and_then(|pair| pair.split_once('='));
        let Some((key, value)) = pair else {
            return Err(Failure::usage(format!(
                "{word}: expected -Dkafka.KEY=VALUE, such as -Dkafka.num.partitions=3"
            )));
        };
        // The native image has a name of its own for this key.
        let key = if key == "interbroker.listener.name" { "inter.broker.listener.name" } else { key };
        Ok((format!("KAFKA_{}", key.to_uppercase().replace('.', "_")), value.to_owned()))
    };
    words.iter().map(variable).collect()
}

/// Starts the broker with the keys of the options.
pub(crate) fn run(words: &[String]) -> Result<i32, Failure> {
    const START: &str = "/etc/kafka/docker/run";
    let error = Command::new(START).envs(variables(words)?).exec();
    Err(Failure::not_started(START, &error))
}
