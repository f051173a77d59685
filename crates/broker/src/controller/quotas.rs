//! Changes of client quotas.

use std::net::ToSocketAddrs;
use std::sync::Arc;

use crate::controller::{Controller, flatten_keyed};
use crate::error_code::{ErrorCode, Failure};
use crate::metadata::controller::{AlterQuota, alter_client_quotas};
use crate::metadata::image::QuotaEntity;

impl Controller {
    /// Changes the limits of each entity or refuses to; results without repetitions.
    pub(crate) async fn alter_client_quotas(
        self: &Arc<Self>,
        requests: Vec<AlterQuota>,
        validate_only: bool,
    ) -> Vec<(QuotaEntity, Result<(), Failure>)> {
        self.off_shard(move |controller| {
            let mut requests = requests;
            let mut refused = refuse_unresolvable(&mut requests);
            let entities = requests.iter().map(|request| request.entity.clone()).collect();
            let changed = if validate_only {
                Ok(alter_client_quotas(&controller.metadata.image(), &requests).outcome)
            } else {
                controller.metadata.change(
                    |image| alter_client_quotas(image, &requests),
                    |next, _| {
                        controller.publisher.apply_quotas(next.quotas());
                        Ok(())
                    },
                )
            };
            refused.extend(flatten_keyed(changed, entities));
            refused
        })
        .await
    }
}

type Outcomes = Vec<(QuotaEntity, Result<(), Failure>)>;

/// Takes out what names an address that no name service knows, before anything is locked.
fn refuse_unresolvable(requests: &mut Vec<AlterQuota>) -> Outcomes {
    let is_unknown = |request: &mut AlterQuota| match request.entity.get("ip") {
        Some(Some(host)) if request.entity.len() == 1 && !host.is_empty() => {
            (&**host, 0).to_socket_addrs().is_err()
        }
        _ => false,
    };
    let refused = requests.extract_if(.., is_unknown).map(|request| {
        let host = request.entity.get("ip").cloned().flatten().unwrap_or_default();
        let text = format!("{host} is not a valid IP or resolvable host.");
        (request.entity, Err(Failure::new(ErrorCode::InvalidRequest, text)))
    });
    refused.collect()
}
