//! The small text files of the metadata log: `quorum-state` and `leader-epoch-checkpoint`.

use std::path::Path;

use levada_log::checkpoint::{
    LEADER_EPOCHS, Replacement, Rights, leader_epochs_text, read_content, read_text, sync_together,
};
use levada_log::disk::Disk;
use levada_wire::primitives::Uuid;
use serde_json::{Value, json};

use super::StoreError;
use crate::uuid;

const QUORUM_STATE: &str = "quorum-state";

/// The last epoch in which this node led or voted. 0 if unknown: a crash of the machine can leave a
/// file without content, and the log contains the epochs as well.
pub(super) fn read_quorum_epoch(disk: &dyn Disk, dir: &Path) -> Result<i32, StoreError> {
    let path = dir.join(QUORUM_STATE);
    let Some(text) = read_content(disk, &path)? else { return Ok(0) };
    let damaged = |detail: &str| StoreError::damaged(&path, detail);
    let state: Value = serde_json::from_str(&text).map_err(|error| damaged(&error.to_string()))?;
    let epoch = state.get("leaderEpoch").and_then(Value::as_i64).ok_or_else(|| damaged("no leaderEpoch"))?;
    i32::try_from(epoch).ok().filter(|epoch| *epoch >= 0).ok_or_else(|| damaged("leaderEpoch out of range"))
}

/// The last leader that `quorum-state` names; none if there is no such file, or no leader in it.
pub(super) fn read_leader(disk: &dyn Disk, dir: &Path) -> Result<Option<i32>, StoreError> {
    let text = read_text(disk, &dir.join(QUORUM_STATE))?.unwrap_or_default();
    let state: Option<Value> = serde_json::from_str(&text).ok();
    let leader = state.and_then(|state| state.get("leaderId").and_then(Value::as_i64));
    Ok(leader.and_then(|leader| i32::try_from(leader).ok()).filter(|leader| *leader >= 0))
}

/// The leader of the metadata log.
pub(super) struct Leader {
    pub(super) node_id: i32,
    pub(super) epoch: i32,
    pub(super) kraft_version: i16,
}

/// Records that the leader leads in its epoch, and where each epoch begins; whole after any crash.
/// With voters in the log (`kraft_version` 1) the files do not repeat them.
pub(super) fn write_leadership(
    disk: &dyn Disk,
    dir: &Path,
    leader: Leader,
    epochs: &[(i32, i64)],
) -> Result<(), StoreError> {
    let Leader { node_id, epoch, kraft_version } = leader;
    let files = [
        (QUORUM_STATE, quorum_state(node_id, epoch, kraft_version)),
        (LEADER_EPOCHS, leader_epochs_text(epochs)),
    ];
    let written = files
        .iter()
        .map(|(name, text)| Replacement::write(disk, &dir.join(name), text.as_bytes(), Rights::Writable));
    let written = written.collect::<Result<Vec<_>, _>>()?;
    sync_together(disk, &written.iter().map(Replacement::contents).collect::<Vec<_>>())?;
    written.into_iter().try_for_each(Replacement::publish)?;
    Ok(())
}

fn quorum_state(node_id: i32, epoch: i32, kraft_version: i16) -> String {
    // Written by hand rather than from a map: Kafka's order of the fields.
    if kraft_version >= 1 {
        let nobody = uuid::text(Uuid::ZERO);
        return format!(
            "{{\"leaderId\":{node_id},\"leaderEpoch\":{epoch},\"votedId\":-1,\"votedDirectoryId\":\"{nobody}\",\
             \"data_version\":1}}"
        );
    }
    let voters = json!([{ "voterId": node_id }]);
    format!(
        "{{\"clusterId\":\"\",\"leaderId\":{node_id},\"leaderEpoch\":{epoch},\"votedId\":-1,\
         \"appliedOffset\":0,\"currentVoters\":{voters},\"data_version\":0}}"
    )
}
