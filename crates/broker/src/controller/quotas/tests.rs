//! Names that are looked up, as many as there may be.

use std::cell::{Cell, RefCell};

use super::*;

fn limit(host: &str) -> AlterQuota {
    let entity = [("ip".to_owned(), Some(host.to_owned()))];
    AlterQuota { entity: entity.into_iter().collect(), changes: Vec::new() }
}

fn codes(refused: &Outcomes) -> Vec<ErrorCode> {
    refused.iter().map(|(_, outcome)| outcome.as_ref().unwrap_err().code).collect()
}

#[test]
fn quota_request_looks_up_few_hosts_once() {
    let asked = RefCell::new(Vec::new());
    let lookup = |host: &str| {
        asked.borrow_mut().push(host.to_owned());
        host != "unknown"
    };
    let mut requests = vec![limit("unknown"), limit("unknown"), limit("10.0.0.1"), limit("::1"), limit("h0")];
    let refused = refuse_unresolvable(&mut requests, lookup, || Duration::ZERO);
    assert_eq!(codes(&refused), [ErrorCode::InvalidRequest; 2]);
    assert_eq!(requests, [limit("10.0.0.1"), limit("::1"), limit("h0")]);
    assert_eq!(asked.take(), ["unknown", "h0"]);

    let names: Vec<AlterQuota> = (0..1_000).map(|at| limit(&format!("h{at}"))).collect();
    let mut requests = names.clone();
    requests.push(limit("10.0.0.1"));
    let refused = refuse_unresolvable(&mut requests, lookup, || Duration::ZERO);
    assert_eq!(asked.take().len(), LOOKUPS_MAX);
    assert_eq!(codes(&refused), [ErrorCode::InvalidRequest; 1_000 - LOOKUPS_MAX]);
    assert_eq!(requests.len(), LOOKUPS_MAX + 1, "those that were found, and the address");
    assert_eq!(requests[..LOOKUPS_MAX], names[..LOOKUPS_MAX]);
}

#[test]
fn slow_host_name_lookups_time_out() {
    let spent = Cell::new(Duration::ZERO);
    let lookup = |_: &str| {
        spent.set(spent.get() + Duration::from_secs(2));
        true
    };
    let mut requests: Vec<AlterQuota> = (0..10).map(|at| limit(&format!("h{at}"))).collect();
    let refused = refuse_unresolvable(&mut requests, lookup, || spent.get());
    assert_eq!(codes(&refused), [ErrorCode::RequestTimedOut; 7]);
    assert_eq!((requests.len(), spent.get()), (3, Duration::from_secs(6)));
}
