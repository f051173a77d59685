//! Changes of client quotas.

use std::collections::HashMap;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant};

use levada_metadata::controller::{AlterQuota, alter_client_quotas};
use levada_metadata::image::QuotaEntity;
use levada_wire::error_code::{ErrorCode, Failure};

use crate::controller::{Controller, flatten_keyed};

impl Controller {
    /// Changes the limits of each entity or refuses to; results without repetitions.
    pub(crate) async fn alter_client_quotas(
        self: &Arc<Self>,
        requests: Vec<AlterQuota>,
        validate_only: bool,
    ) -> Vec<(QuotaEntity, Result<(), Failure>)> {
        self.off_shard(move |controller| {
            let mut requests = requests;
            let began = Instant::now();
            let is_known = |host: &str| (host, 0).to_socket_addrs().is_ok();
            let mut refused = refuse_unresolvable(&mut requests, is_known, || began.elapsed());
            let entities = requests.iter().map(|request| request.entity.clone()).collect();
            let changed = if validate_only {
                Ok(alter_client_quotas(&controller.metadata.image(), &requests).outcome)
            } else {
                let embedded = controller.embedded();
                embedded.and_then(|own| own.change(|image| alter_client_quotas(image, &requests)))
            };
            refused.extend(flatten_keyed(changed, entities));
            refused
        })
        .await
    }
}

type Outcomes = Vec<(QuotaEntity, Result<(), Failure>)>;

/// Maximum number of host names that are looked up for one request. Addresses need no lookup.
const LOOKUPS_MAX: usize = 16;

/// Time after which the lookups of one request begin no more.
const LOOKUPS_TIME_MAX: Duration = Duration::from_secs(5);

/// Refuses the changes of hosts that are neither addresses nor names that `lookup` finds, before
/// anything is locked. `elapsed` is the time since the first lookup: a name service that does not
/// respond delays each lookup.
fn refuse_unresolvable(
    requests: &mut Vec<AlterQuota>,
    mut lookup: impl FnMut(&str) -> bool,
    elapsed: impl Fn() -> Duration,
) -> Outcomes {
    let mut known: HashMap<String, bool> = HashMap::new();
    let mut refused = Vec::new();
    requests.retain(|request| {
        let host = match request.entity.get("ip") {
            Some(Some(host)) if request.entity.len() == 1 && !host.is_empty() => host,
            _ => return true,
        };
        if host.parse::<IpAddr>().is_ok() {
            return true;
        }
        let failure = match known.get(&**host) {
            Some(true) => return true,
            Some(false) => unresolvable(host),
            None if known.len() == LOOKUPS_MAX => Failure::new(
                ErrorCode::InvalidRequest,
                format!("{host} is not looked up: a request may name {LOOKUPS_MAX} hosts that are not addresses. Use addresses, or several requests."),
            ),
            None if elapsed() > LOOKUPS_TIME_MAX => Failure::new(
                ErrorCode::RequestTimedOut,
                format!("{host} is not looked up: the name service takes too long. Use addresses, or try again."),
            ),
            None => {
                let is_found = lookup(host);
                known.insert(host.to_string(), is_found);
                if is_found {
                    return true;
                }
                unresolvable(host)
            }
        };
        refused.push((request.entity.clone(), Err(failure)));
        false
    });
    refused
}

fn unresolvable(host: &str) -> Failure {
    Failure::new(ErrorCode::InvalidRequest, format!("{host} is not a valid IP or resolvable host."))
}

#[cfg(test)]
mod tests;
