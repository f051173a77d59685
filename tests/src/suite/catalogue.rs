//! The suites, the way each is run, and the tests that are known not to pass.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::{Brokers, Suite, outcome, word};
use crate::node::Kind;
use crate::paths;

/// Every suite.
pub const SUITES: &[Suite] = &[
    Suite {
        name: "kafka_tests",
        source: "franz-go `pkg/kfake/kafka_tests` 01f206a7e32c",
        options: &[],
        brokers: Brokers::Own,
        command: kafka_tests,
        parse: outcome::go,
    },
    Suite {
        name: "kgo",
        source: "franz-go `pkg/kgo` 1.22.2",
        options: &[],
        brokers: Brokers::One(None),
        command: kgo,
        parse: outcome::go,
    },
    Suite {
        name: "kafka-python",
        source: "kafka-python `test/integration` 3.0.12",
        options: &[("node.id", "0"), ("num.partitions", "4")],
        brokers: Brokers::One(None),
        command: kafka_python,
        parse: outcome::pytest,
    },
    Suite {
        name: "kafka-go",
        source: "segmentio/kafka-go 0.4.51",
        options: &[
            ("advertised.listeners", "PLAINTEXT://localhost:9092"),
            ("auto.create.topics.enable", "true"),
            ("message.max.bytes", "200000000"),
        ],
        brokers: Brokers::One(Some(9092)),
        command: kafka_go,
        parse: outcome::go,
    },
    Suite {
        name: "kgo-cluster",
        source: "franz-go `pkg/kgo` 1.22.2, three brokers, three replicas",
        options: &[],
        brokers: Brokers::Three,
        command: kgo_cluster,
        parse: outcome::go,
    },
    Suite {
        name: "sarama",
        source: "IBM/sarama 1.61.1, functional tests, five brokers, three replicas",
        options: &[("auto.create.topics.enable", "false")],
        brokers: Brokers::Five,
        command: sarama,
        parse: outcome::go,
    },
];

fn go_test(folder: &Path) -> Command {
    let mut command = Command::new("go");
    command.current_dir(folder).args(["test", "-json", "-count=1", "-p=1", "-timeout=30m"]);
    command
}

/// The tests are compiled against our replacement of the fake broker, which starts real ones.
fn kafka_tests(kind: Kind, _address: &str) -> Command {
    let mut list = Command::new("go");
    list.current_dir(paths::suites().join("go"));
    let kfake = list.args(["list", "-m", "-f", "{{.Dir}}", "github.com/twmb/franz-go/pkg/kfake"]).output();
    let kfake = String::from_utf8(kfake.expect("go runs").stdout).expect("a path in UTF-8");
    let module = paths::suite_results().join("kafka_tests");
    let tests = module.join("kafka_tests");
    // Left over from an earlier run, if it is there.
    let _ = fs::remove_dir_all(&module);
    fs::create_dir_all(&tests).unwrap_or_else(|error| panic!("{}: {error}", tests.display()));
    copy(&paths::suites().join("kfake"), &module);
    copy(&Path::new(kfake.trim()).join("kafka_tests"), &tests);
    let mut command = go_test(&module);
    let node = std::env::current_exe().expect("the path of this program");
    command.env("LEVADA_SUITE_NODE", node.with_file_name("node")).env("LEVADA_SUITE_BROKER", word(kind));
    command.arg("./kafka_tests");
    command
}

fn copy(from: &Path, to: &Path) {
    let copied = || -> std::io::Result<()> {
        for entry in fs::read_dir(from)? {
            let path = entry?.path();
            // Not by `fs::copy`: files of the module cache are read-only, and so would the copies
            // be.
            fs::write(to.join(path.file_name().unwrap_or_default()), fs::read(&path)?)?;
        }
        Ok(())
    };
    copied().unwrap_or_else(|error| panic!("{} to {}: {error}", from.display(), to.display()));
}

fn kgo(_kind: Kind, address: &str) -> Command {
    kgo_with_replicas("1", address)
}

fn kgo_cluster(_kind: Kind, addresses: &str) -> Command {
    kgo_with_replicas("3", addresses)
}

fn kgo_with_replicas(replicas: &str, addresses: &str) -> Command {
    let mut command = go_test(&paths::suites().join("go"));
    let settings = [("KGO_SEEDS", addresses), ("KGO_TEST_RF", replicas), ("KGO_LOG_LEVEL", "none")];
    command.envs(settings).env("KGO_TEST_RECORDS", "50000").arg("github.com/twmb/franz-go/pkg/kgo");
    command
}

fn kafka_python(_kind: Kind, address: &str) -> Command {
    let sources = paths::suite("kafka-python");
    let mut command = Command::new(paths::suite("python").join("bin/python"));
    command.current_dir(&sources).args(["-B", "-m", "pytest", "-p", "no:cacheprovider", "test/integration"]);
    command.args(["-rA", "--timeout=120", "--tb=short", "--show-capture=no"]);
    command.env("KAFKA_URI", format!("kafka://{address}")).env("KAFKA_VERSION", "4.3.0");
    // The tests look for a Kafka to start there, though they start none.
    command.env("KAFKA_ROOT", sources);
    command
}

fn kafka_go(_kind: Kind, _address: &str) -> Command {
    let mut command = go_test(&paths::suites().join("go"));
    command.env("KAFKA_VERSION", "4.0.0").env("KAFKA_SKIP_NETTEST", "1");
    // This one ends the whole run, on either broker: it follows a pointer that the client has set
    // to nil.
    command.arg("-skip=TestReaderConsumerGroup/consumer_group_commits_on_close");
    command.args(["github.com/segmentio/kafka-go", "github.com/segmentio/kafka-go/topics"]);
    command
}

fn sarama(_kind: Kind, _addresses: &str) -> Command {
    let mut command = go_test(&paths::suites().join("go"));
    // The package has unit tests as well, which need no broker.
    let functional = "^Test(Func|Java|VersionMatrix|Interceptors$|ReadOnlyAndAllCommittedMessages$|\
                      AsyncProducerRemoteBrokerClosed$|ConsumerFetchFollowerFailover$|ConsumerGroupDeadlock$|\
                      ConsumerHighWaterMarkOffset$|ConsumerPartialBatchRecovery$)";
    command.args(["-tags=functional", "-run", functional, "github.com/IBM/sarama"]);
    command
}
