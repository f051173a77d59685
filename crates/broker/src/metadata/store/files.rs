//! The small text files beside the metadata log: `quorum-state`, `leader-epoch-checkpoint` and
//! `partition.metadata`, each replaced as a whole.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use levada_wire::primitives::Uuid;
use serde_json::{Value, json};

use super::StoreError;
use crate::metadata::uuid;

const QUORUM_STATE: &str = "quorum-state";

/// The last epoch this node has led or seen. 0 if nothing is known: an empty file is what a crash of the machine
/// leaves of one that was never synced, and the log knows the epochs as well.
pub(super) fn read_quorum_epoch(dir: &Path) -> Result<i32, StoreError> {
    let path = dir.join(QUORUM_STATE);
    let text = read_text(&path)?.unwrap_or_default();
    if text.is_empty() {
        return Ok(0);
    }
    let damaged = |detail: &str| StoreError::Damaged { path: path.clone(), detail: detail.to_owned() };
    let state: Value = serde_json::from_str(&text).map_err(|error| damaged(&error.to_string()))?;
    let epoch = state.get("leaderEpoch").and_then(Value::as_i64).ok_or_else(|| damaged("no leaderEpoch"))?;
    i32::try_from(epoch).ok().filter(|epoch| *epoch >= 0).ok_or_else(|| damaged("leaderEpoch out of range"))
}

/// Says that `node_id` leads in `epoch`. With voters in the log (`kraft_version` 1) the file does not repeat them.
pub(super) fn write_quorum_state(
    dir: &Path,
    node_id: i32,
    epoch: i32,
    kraft_version: i16,
) -> Result<(), StoreError> {
    // Written by hand rather than from a map: Kafka's order of the fields.
    let text = if kraft_version >= 1 {
        let nobody = uuid::text(Uuid::ZERO);
        format!(
            "{{\"leaderId\":{node_id},\"leaderEpoch\":{epoch},\"votedId\":-1,\"votedDirectoryId\":\"{nobody}\",\
             \"data_version\":1}}"
        )
    } else {
        let voters = json!([{ "voterId": node_id }]);
        format!(
            "{{\"clusterId\":\"\",\"leaderId\":{node_id},\"leaderEpoch\":{epoch},\"votedId\":-1,\
             \"appliedOffset\":0,\"currentVoters\":{voters},\"data_version\":0}}"
        )
    };
    write_file(&dir.join(QUORUM_STATE), text.as_bytes(), Access::Writable, Lasting::Eventually)
}

/// Writes where each epoch begins.
pub(super) fn write_epochs(dir: &Path, epochs: &[(i32, i64)]) -> Result<(), StoreError> {
    let mut text = format!("0\n{}\n", epochs.len());
    for (epoch, start_offset) in epochs {
        text.push_str(&format!("{epoch} {start_offset}\n"));
    }
    let path = dir.join("leader-epoch-checkpoint");
    write_file(&path, text.as_bytes(), Access::Writable, Lasting::Eventually)
}

/// Writes the metadata log's topic id.
pub(super) fn write_partition_metadata(dir: &Path) -> Result<(), StoreError> {
    let text = format!("version: 0\ntopic_id: {}", uuid::text(uuid::METADATA_TOPIC_ID));
    write_file(&dir.join("partition.metadata"), text.as_bytes(), Access::Writable, Lasting::Eventually)
}

/// Who may write a file once it is there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Access {
    Writable,
    /// As Kafka leaves finished snapshots.
    ReadOnly,
}

/// When a file must outlast a crash of the machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Lasting {
    /// Before the call returns.
    Now,
    /// When the kernel gets to it, or the caller calls [`sync_together`].
    Eventually,
}

/// Replaces a file: whoever looks sees either the old or the new contents, whole.
pub(super) fn write_file(
    path: &Path,
    contents: &[u8],
    access: Access,
    lasting: Lasting,
) -> Result<(), StoreError> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".tmp");
    let temporary = PathBuf::from(temporary);
    let mode = match access {
        Access::Writable => 0o644,
        Access::ReadOnly => 0o400,
    };
    let write = || -> io::Result<()> {
        // A leftover of a crash may be read-only.
        match fs::remove_file(&temporary) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&temporary)?;
        file.write_all(contents)?;
        if lasting == Lasting::Now {
            file.sync_all()?;
        }
        fs::rename(&temporary, path)?;
        if lasting == Lasting::Now { sync(path.parent().unwrap_or(Path::new("."))) } else { Ok(()) }
    };
    write().map_err(|source| StoreError::io("replace", path, source))
}

/// Makes files and directories last, all at once: a journaling file system then commits once instead of once for
/// each, which is most of the time that a first start takes.
pub(super) fn sync_together(paths: &[&Path]) -> Result<(), StoreError> {
    std::thread::scope(|scope| {
        let waiting: Vec<_> = paths.iter().map(|path| (path, scope.spawn(|| sync(path)))).collect();
        for (path, thread) in waiting {
            let done = thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread failed")));
            done.map_err(|source| StoreError::io("sync", path, source))?;
        }
        Ok(())
    })
}

/// Makes a file's contents, or the names in a directory, last.
pub(super) fn sync(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

fn read_text(path: &Path) -> Result<Option<String>, StoreError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(StoreError::io("read", path, source)),
    }
}
