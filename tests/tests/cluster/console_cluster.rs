//! The console of each broker of a cluster shows the partitions, groups and transactions of all,
//! and does not abort a transaction that the coordinator of another broker may end. The log lists
//! the partitions that the broker leads.
//!
//! Suite: long; 6 s; needs java, python

use std::io::{Read, Write};
use std::net::TcpStream;

use levada_tests::cluster::{Discovery, LEVADA, LIMIT, Shape};
use levada_tests::raw::lose_transaction;
use levada_tests::{Cluster, Node, Tool, await_some};

const OTHER: i32 = LEVADA + 1;

/// Answer of the console to a form, with the proof that its pages carry.
fn submit(node: &Node, path: &str, form: &str) -> String {
    let page = node.http("/topics").1;
    let proof = page.split("name=\"_proof\" value=\"").nth(1).and_then(|rest| rest.split('"').next());
    let body = format!("_proof={}&{form}", proof.expect("a form"));
    let host = node.http_address();
    let mut stream = TcpStream::connect(host).expect("a connection");
    let length = body.len();
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/x-www-form-urlencoded\r\n\
         Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
    .expect("the broker reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

/// Both consoles show all partitions, with their records.
fn both_show_all_partitions([node, other]: [&Node; 2]) {
    node.levada("topic create counted -p 4").run();
    let input = node.scratch().join("input");
    std::fs::write(&input, "one\n".repeat(100)).expect("room");
    for partition in 0..4 {
        node.levada(&format!("produce counted -p {partition}")).stdin(&input).run();
    }
    for node in [node, other] {
        let page = await_some("the records of all partitions", LIMIT, || {
            Some(node.http("/topics/counted").1).filter(|page| page.contains(">400</span>"))
        });
        assert!(!page.contains("data-unheard") && !page.contains("of 4 partitions"), "{page}");
        let row = "<td class=\"n\">4</td><td class=\"n\">400</td>";
        let page = node.http("/topics?search=counted").1;
        assert!(page.contains(row), "{page}");
        let page = node.http("/topics/counted/messages?from=start&limit=100").1;
        for partition in 0..4 {
            assert!(page.contains(&format!("data-record=\"{partition}/")), "{partition}: {page}");
        }
        let page = node.http("/transactions").1;
        assert!(page.contains(">first<"), "{page}");
    }
}

/// One of the brokers coordinates the group, and the other one asks it.
fn both_count_the_members_of_a_group([node, other]: [&Node; 2]) {
    let _consumer = node.levada("consume spread -G live").spawn();
    let row = ">live</a></th><td>Stable</td><td>consumer</td><td class=\"n\">1</td>";
    for node in [node, other] {
        await_some("the member of the group", LIMIT, || {
            Some(node.http("/groups").1).filter(|page| page.contains(row))
        });
    }
}

#[test]
fn console_pages_include_other_brokers() {
    let shape = Shape { controllers: 1, kafka: 0, levada: 2, discovery: Discovery::Voters };
    let mut cluster =
        Cluster::new(shape).option(LEVADA, "transaction.partition.verification.enable", "false");
    cluster.start();
    cluster.await_brokers(&[LEVADA, OTHER]);
    let (node, other) = (cluster.node(LEVADA), cluster.node(OTHER));
    node.levada("topic create spread -p 4").run();
    node.levada("topic create lost -p 1").run();
    // The coordinators' topics come with the first id and the first group.
    let mut tool = Tool::python("open_transaction.py");
    assert_eq!(tool.args([&cluster.bootstrap(), "first", "spread"]).spawn().line(LIMIT), "open");
    node.levada("consume lost -G readers -e").run();
    let address = other.address();
    both_show_all_partitions([node, other]);
    for id in [LEVADA, OTHER] {
        await_some("the event of the roles", LIMIT, || {
            let talk = cluster.node(id).talk();
            let told = talk.lines().any(|line| {
                line.contains("roles of partitions changed")
                    && line.contains("spread/")
                    && line.contains(": leader, epoch 0")
            });
            told.then_some(())
        });
    }
    let created = "topic created topic=\"spread\" partitions=4 principal=\"User:ANONYMOUS\"";
    assert!([LEVADA, OTHER].iter().any(|id| cluster.node(*id).talk().contains(created)));
    // Both brokers show a group, whichever coordinates it.
    let pages = [LEVADA, OTHER].map(|id| cluster.node(id).http("/group?id=readers"));
    let coordinator = |page: &str| [LEVADA, OTHER].map(|id| page.contains(&format!(">broker {id}<")));
    assert!(pages.iter().all(|(status, _)| *status == 200), "{pages:?}");
    assert_eq!(coordinator(&pages[0].1), coordinator(&pages[1].1), "{pages:?}");
    assert!(coordinator(&pages[0].1).contains(&true), "{pages:?}");
    both_count_the_members_of_a_group([node, other]);
    // The leader of the partition with a transaction without a coordinator offers no abort.
    lose_transaction(node.address(), "lost", (4711, 1_700_000_000_000));
    lose_transaction(address, "lost", (4711, 1_700_000_000_000));
    let leader = await_some("the transaction on the page of its leader", LIMIT, || {
        let lost = |id: &&i32| cluster.node(**id).http("/transactions").1.contains("4711");
        [LEVADA, OTHER].iter().find(lost).copied()
    });
    let page = cluster.node(leader).http("/transactions").1;
    assert!(page.contains("levada transaction hanging"), "{page}");
    assert!(!page.contains("/transactions/abort-hanging"), "{page}");
    let form = "topic=lost&partition=0&producer=4711&start=0&confirm=abort";
    let answer = submit(cluster.node(leader), "/transactions/abort-hanging", form);
    assert!(answer.starts_with("HTTP/1.1 409"), "{answer}");
    assert!(answer.contains("levada transaction abort --topic lost -p 0 --start-offset 0"), "{answer}");
    let end = node.levada_json("offsets lost --committed")[0]["latest"].clone();
    assert_eq!(end, serde_json::json!(0), "it is still open");
    node.levada("transaction abort --topic lost -p 0 --start-offset 0").run();
    cluster.node_mut(LEVADA).stop();
    cluster.node_mut(OTHER).stop();
    cluster.assert_no_errors();
}
