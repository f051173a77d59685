//! Requests whose page is closed.

use std::pin::pin;
use std::task::{self, Waker};

use levada_config::{BrokerConfig, Sources};
use levada_wire::messages::CreateTopicsRequest;
use levada_wire::messages::create_topics_request::CreatableTopic;

use super::*;

/// Time within which a topic is created on any machine.
const PATIENCE: Duration = Duration::from_secs(30);

#[tokio::test]
async fn change_completes_after_its_page_is_closed() {
    let home = tempfile::tempdir().unwrap();
    let config = BrokerConfig::load(&Sources::flags([format!("log.dirs={}", home.path().display())]));
    let broker = Broker::open(config.unwrap(), &[]).unwrap();
    let (desk, _thread) = Desk::start(broker.clone(), Stop::new()).unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], 9644));
    let listener = Arc::new(broker.config().listeners[0].clone());
    let caller = Caller::new(Session::anonymous(address.ip()), listener, address, address);
    let mut topic = CreatableTopic::default();
    topic.name = "t".into();
    (topic.num_partitions, topic.replication_factor) = (1, 1);
    let mut request = CreateTopicsRequest::default();
    (request.topics, request.timeout_ms) = (vec![topic], 30_000);
    {
        let mut asked = pin!(desk.ask(&caller, &request));
        let polled = asked.as_mut().poll(&mut task::Context::from_waker(Waker::noop()));
        assert!(polled.is_pending(), "the request is on its way");
    }
    // The response is counted after the entry of the audit log.
    let is_answered = || {
        let totals = broker.stats().requests();
        totals.iter().any(|(api, totals)| *api == "CreateTopics" && totals.response_bytes > 0)
    };
    let answered = async {
        while !is_answered() {
            tokio::task::yield_now().await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, answered).await.is_ok(), "the request has no end");
    assert!(broker.metadata().image().topic("t").is_some());
}
