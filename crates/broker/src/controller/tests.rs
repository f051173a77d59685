//! Threads of the controller.

use std::ops::RangeInclusive;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};

use levada_config::{BrokerConfig, Sources};
use levada_log::checkpoint::MetaProperties;
use levada_wire::api::ApiKey;
use levada_wire::messages::{CreateTopicsRequest, CreateTopicsResponse};

use super::remote::Pending;
use super::*;
use crate::cluster::Forwarded;

/// A controller that does not answer.
struct Silent;

impl ActiveController for Silent {
    fn forward(&self, _: ClientRequest) -> Pending<'_, Forwarded> {
        Box::pin(std::future::pending())
    }

    fn create_topics(&self, _: CreateTopicsRequest) -> Pending<'_, Result<CreateTopicsResponse, ErrorCode>> {
        Box::pin(std::future::pending())
    }

    fn producer_id(&self) -> Pending<'_, Result<i64, ErrorCode>> {
        Box::pin(std::future::pending())
    }

    fn versions(&self, _: ApiKey) -> Option<RangeInclusive<i16>> {
        None
    }
}

fn controller() -> Arc<Controller> {
    let config = BrokerConfig::load(&Sources::flags(Vec::<String>::new())).unwrap();
    let identity = MetaProperties { cluster_id: "cluster".to_owned(), node_id: 1, directory_id: [0; 16] };
    let metadata = Arc::new(Metadata::new(identity));
    Arc::new(Controller::of_cluster(Arc::new(LiveConfig::new(config)), metadata, Arc::new(Silent)))
}

#[tokio::test]
async fn simultaneous_changes_share_few_threads() {
    let controller = controller();
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    // No work ends before its threads are all there.
    let all_there = Arc::new(Barrier::new(THREADS_MAX));
    let works = (0..10 * THREADS_MAX).map(|_| {
        let (controller, all_there) = (controller.clone(), all_there.clone());
        let (running, most) = (running.clone(), most.clone());
        tokio::spawn(async move {
            let work = move |_: &Controller| {
                most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                all_there.wait();
                running.fetch_sub(1, Ordering::SeqCst);
            };
            controller.off_shard(work).await;
        })
    });
    for work in works.collect::<Vec<_>>() {
        work.await.unwrap();
    }
    assert_eq!(most.load(Ordering::SeqCst), THREADS_MAX);
}
