//! The console's pages for a visitor with few permissions: facts that it may not see are left open,
//! and each refusal names the permission.
//!
//! Suite: short; 3 s; share faults

use levada_tests::Node;
use levada_tests::node::Kind;

const AUTHORIZER: &str = "org.apache.kafka.metadata.authorizer.StandardAuthorizer";

#[test]
fn console_page_does_not_misreport_unauthorized_data() {
    if Kind::under_test() == Kind::Kafka {
        return println!("left out: Kafka has no console");
    }
    let mut node = Node::new()
        .option("authorizer.class.name", AUTHORIZER)
        .option("super.users", "User:ANONYMOUS")
        .option("allow.everyone.if.no.acl.found", "false");
    node.start();
    assert!(node.http("/groups").1.contains("No group. A consumer"), "a super user sees all groups");
    assert!(node.http("/topics").1.contains("action=\"/topics/create\""), "a super user creates topics");
    node.levada("topic create shown hidden -p 1").run();
    node.levada("acl add User:ANONYMOUS --allow describe --topic shown").run();
    node.stop();
    let mut node = node.option("super.users", "User:admin");
    node.start();
    let (status, topics) = node.http("/topics");
    assert_eq!(status, 200, "{topics}");
    assert!(
        topics.contains("href=\"/topics/shown\"") && !topics.contains("href=\"/topics/hidden\""),
        "{topics}"
    );
    assert!(topics.contains("<td>—</td><td>—</td>") && !topics.contains("<td>unlimited</td>"), "{topics}");
    for (path, needed) in [
        ("/topics/hidden", "describe --topic hidden"),
        ("/topics/shown/settings", "describe-configs --topic shown"),
        ("/topics/shown/producers", "read --topic shown"),
        ("/settings", "describe-configs --cluster"),
        ("/users", "describe --cluster"),
        ("/performance", "describe --cluster"),
        ("/groups", "describe --group NAME"),
        ("/transactions", "describe --transactional-id NAME"),
    ] {
        let page = node.http(path).1;
        assert!(
            page.contains(&format!("levada acl add 'User:ANONYMOUS' --allow {needed}")),
            "{path}: {page}"
        );
    }
    for (path, action, needed) in [
        ("/topics", "/topics/create", "create --topic NAME"),
        ("/topics/shown", "/topics/shown/extend", "alter --topic shown"),
        ("/topics/shown", "/topics/shown/trim", "delete --topic shown"),
        ("/topics/shown", "/topics/shown/delete", "delete --topic shown"),
        ("/topics/shown/produce", "<textarea name=\"value\"", "write --topic shown"),
    ] {
        let page = node.http(path).1;
        let next = format!("levada acl add 'User:ANONYMOUS' --allow {needed}");
        assert!(!page.contains(action) && page.contains(&next), "{path}: {page}");
    }
    node.stop();
    let mut node = node.option("super.users", "User:admin;User:ANONYMOUS");
    node.start();
    node.levada("acl add User:ANONYMOUS --allow create --topic mine- --prefix").run();
    node.levada("acl add User:ANONYMOUS --allow describe-configs --cluster").run();
    node.stop();
    let mut node = node.option("super.users", "User:admin");
    node.start();
    assert!(node.http("/topics").1.contains("action=\"/topics/create\""), "some names are allowed");
    let settings = node.http("/settings?which=open").1;
    let next = "levada acl add 'User:ANONYMOUS' --allow alter-configs --cluster";
    assert!(settings.contains(next) && !settings.contains("name=\"operation\""), "{settings}");
    node.stop();
}
