//! Removal of the registrations of other brokers and controllers.

use std::sync::Arc;

use levada_metadata::controller::{unregister_broker, unregister_controller};
use levada_wire::error_code::Failure;

use crate::controller::Controller;

impl Controller {
    /// Removes the registration of a broker that no longer exists.
    pub(crate) async fn unregister_broker(self: &Arc<Self>, id: i32) -> Result<(), Failure> {
        self.off_shard(move |controller| {
            let node_id = controller.config.load().node_id;
            controller.embedded()?.decide(|image| unregister_broker(image, id, node_id))
        })
        .await
    }

    /// Removes the registration of a controller that no longer exists.
    pub(crate) async fn unregister_controller(self: &Arc<Self>, id: i32) -> Result<(), Failure> {
        self.off_shard(move |controller| {
            let node_id = controller.config.load().node_id;
            controller.embedded()?.decide(|image| unregister_controller(image, id, node_id))
        })
        .await
    }
}
