//! `levada storage remote restore`: creates data directories from the remote store only.

use std::io::Write;

use levada_base::id_text;
use levada_broker::offline::{self, RestoreError, RestorePlan, RestoredPartition, RestoredTopic};
use levada_remote::Store;
use levada_terminal::colour::{self, Style};
use levada_terminal::failure::Failure;
use levada_terminal::output::{self, Format, FormatArgs, counted};
use serde_json::{Value, json};

use super::{no_store, unreachable_store};
use crate::config::SourceArgs;
use crate::storage::failed;
use crate::time::now_ms;

/// Rebuild the data directories of a single broker from the remote store alone
///
/// For a broker whose disks are lost. Reads the objects of the store that the configuration names,
/// and writes new data directories: the topics with their former ids, logs that begin after their
/// remote part, and the metadata of the segments. `levada serve` then serves all records of the
/// store, and continues after the last of them. The store is not changed.
///
/// The store does not have records that were not yet copied, committed offsets, topics without
/// copied records, users, ACLs and quotas. The former broker must not run again on the same store.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada storage remote restore --config /etc/levada/server.properties --dry-run
  levada storage remote restore --config /etc/levada/server.properties")]
pub(super) struct Restore {
    /// Read the store and print the result, but write nothing
    #[arg(long)]
    dry_run: bool,
    /// Id of the cluster, if the store does not have it [default: a random id]
    #[arg(short = 't', long, value_name = "ID")]
    cluster_id: Option<String>,
    #[command(flatten)]
    sources: SourceArgs,
    #[command(flatten)]
    format: FormatArgs,
}

impl Restore {
    pub(super) fn run(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let config = self.sources.load()?;
        let options = config.remote_store.as_ref().ok_or_else(no_store)?;
        let store = Store::open(options).map_err(unreachable_store)?;
        let plan = offline::plan_restore(&store, &mut steps("segments read")).map_err(unrestored)?;
        let mut cluster_id = plan.cluster_id.clone();
        if !self.dry_run {
            let id = (self.cluster_id.as_deref(), now_ms());
            let restored = offline::restore(&config, &plan, id, &mut steps("logs written"));
            cluster_id = Some(restored.map_err(unrestored)?.cluster_id);
        }
        match self.format.format {
            Format::Json => output::json(out, &as_json(&plan, cluster_id.as_deref(), self.dry_run)),
            Format::Table => {
                print(out, &plan)?;
                self.conclude(out, &plan, cluster_id.as_deref())
            }
        }
    }

    fn conclude(
        &self,
        out: &mut dyn Write,
        plan: &RestorePlan,
        cluster_id: Option<&str>,
    ) -> Result<(), Failure> {
        let (topics, partitions) = (plan.topics.len() as u64, plan.partitions().count() as u64);
        let summary = format!(
            "{}, {}",
            counted(topics, "topic", "topics"),
            counted(partitions, "partition", "partitions")
        );
        if self.dry_run {
            let cluster = cluster_id.unwrap_or("new");
            writeln!(out, "would restore {summary} with records, cluster id {cluster}; nothing was written")?;
        } else {
            let cluster = cluster_id.unwrap_or_default();
            writeln!(
                out,
                "restored {summary} with records, cluster id {cluster}; start the broker: levada serve"
            )?;
        }
        Ok(())
    }
}

/// Shows progress at each tenth.
fn steps(what: &'static str) -> impl FnMut(usize, usize) {
    move |done, all| {
        let tenths = |done: usize| done * 10 / all.max(1);
        if done > 0 && tenths(done) > tenths(done - 1) {
            tell!("{done} of {all} {what}");
        }
    }
}

fn unrestored(error: RestoreError) -> Failure {
    let what = error.to_string();
    match error {
        RestoreError::Remote(error) => unreachable_store(error),
        RestoreError::Storage(error) => failed(error),
        RestoreError::NotEmpty { .. } => Failure::with_next(
            what,
            "name an empty directory with -o log.dirs=…, or move the former one away: its records may be newer",
        ),
        RestoreError::Member => Failure::with_next(
            what,
            "start the broker with an empty directory; its replicas fetch what the store does not have",
        ),
        RestoreError::OtherCluster { .. } => {
            Failure::with_next(what, "omit --cluster-id, or name another store (levada.remote.store)")
        }
        RestoreError::Metadata(_) => Failure::new(what),
    }
}

fn print(out: &mut dyn Write, plan: &RestorePlan) -> Result<(), Failure> {
    for topic in &plan.topics {
        for partition in &topic.partitions {
            let RestoredPartition { index, segments, state } = partition;
            writeln!(
                out,
                "{}-{index}: offsets {} to {}, {} with {} bytes",
                topic.name,
                state.log_start,
                state.local_start - 1,
                counted(segments.len() as u64, "segment", "segments"),
                partition.bytes(),
            )?;
        }
    }
    let note = colour::out(Style::Bold, "note:");
    for topic in &plan.topics {
        for assumption in assumptions(topic) {
            writeln!(out, "{note} {}: {assumption}", topic.name)?;
        }
    }
    for left in &plan.left_out {
        writeln!(out, "{note} {} is not used: {}", left.what, left.reason)?;
    }
    if plan.foreign > 0 {
        writeln!(
            out,
            "{note} {} not named as those of segments",
            counted(plan.foreign, "object is", "objects are")
        )?;
    }
    for loss in LOSSES {
        writeln!(out, "{note} {loss}")?;
    }
    Ok(())
}

/// Facts that no object of the store has.
const LOSSES: [&str; 3] = [
    "records after the last copied segment of a partition are lost, and their offsets are given to new records",
    "committed offsets are lost: consumer groups begin where auto.offset.reset says",
    "topics without copied records, users, ACLs, quotas and open transactions are lost",
];

/// Assumptions about a topic that its owner must check.
fn assumptions(topic: &RestoredTopic) -> Vec<String> {
    let (count, settings) = (topic.partition_count(), topic.settings());
    let settings: Vec<String> = settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
    vec![
        format!(
            "assumed {}: check it before producers with keys write",
            counted(u64::from(count.unsigned_abs()), "partition", "partitions")
        ),
        format!("assumed {}: set its retention with levada topic alter", settings.join(", ")),
    ]
}

fn as_json(plan: &RestorePlan, cluster_id: Option<&str>, is_dry: bool) -> Value {
    let partition = |partition: &RestoredPartition| {
        json!({
            "partition": partition.index,
            "start_offset": partition.state.log_start,
            "end_offset": partition.state.local_start - 1,
            "segments": partition.segments.len(),
            "bytes": partition.bytes(),
        })
    };
    let topic = |topic: &RestoredTopic| {
        json!({
            "topic": topic.name,
            "topic_id": id_text(topic.id.to_bytes()),
            "partition_count": topic.partition_count(),
            "settings": topic.settings().into_iter().collect::<std::collections::BTreeMap<_, _>>(),
            "assumptions": assumptions(topic),
            "partitions": topic.partitions.iter().map(partition).collect::<Vec<_>>(),
        })
    };
    let left = |left: &offline::LeftOut| json!({"what": left.what, "reason": left.reason});
    json!({
        "cluster_id": cluster_id,
        "dry_run": is_dry,
        "topics": plan.topics.iter().map(topic).collect::<Vec<_>>(),
        "left_out": plan.left_out.iter().map(left).collect::<Vec<_>>(),
        "other_objects": plan.foreign,
        "losses": LOSSES,
    })
}
