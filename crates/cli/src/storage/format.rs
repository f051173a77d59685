//! `levada storage format`: formats a data directory before the first start.

use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use levada_base::id_text;
use levada_broker::offline::{self, Formatted};
use levada_metadata::records::UserScramCredentialRecord;
use levada_terminal::failure::Failure;

use super::scram;
use crate::config::SourceArgs;

/// Format the data directories: their identities and the first records of a cluster
///
/// `levada serve` formats new directories itself; this command lets you choose the cluster's id. It
/// is equivalent to `kafka-storage format --standalone`: Levada and Kafka start on directories that
/// the other has formatted.
///
/// With process.roles=broker the directories are those of a broker in an existing cluster. The
/// command then writes only the identities, and needs the cluster's id, like `kafka-storage
/// format`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada storage format -o log.dirs=/var/lib/levada
  levada storage format --add-scram 'SCRAM-SHA-512=[name=admin,password=…]'
  levada storage format --cluster-id MkU3OEVBNTcwNTJENDM2Qk --ignore-formatted")]
pub(super) struct Format {
    /// Id of the cluster [default: a random id]
    #[arg(short = 't', long, value_name = "ID")]
    cluster_id: Option<String>,
    /// Id of the node; overrides node.id of the configuration
    #[arg(long, value_name = "NUMBER")]
    node_id: Option<i32>,
    /// Leave formatted directories unchanged, and format the others for their cluster
    #[arg(short = 'g', long)]
    ignore_formatted: bool,
    /// A first user, as SCRAM-SHA-512=[name=USER,password=PASSWORD]; repeatable
    #[arg(short = 'S', long, value_name = "CREDENTIAL", value_parser = scram::credential)]
    add_scram: Vec<UserScramCredentialRecord>,
    #[command(flatten)]
    sources: SourceArgs,
}

impl Format {
    pub(super) fn run(self, out: &mut dyn Write) -> Result<(), Failure> {
        let id = self.cluster_id.as_deref();
        if id.is_some_and(|id| id.is_empty() || id.contains(|c: char| c.is_whitespace() || c.is_control())) {
            return Err(Failure::Usage(
                "a cluster id is one word, such as MkU3OEVBNTcwNTJENDM2Qk".to_owned(),
            ));
        }
        let mut sources = self.sources;
        if let Some(node_id) = self.node_id {
            sources.set("node.id", &node_id.to_string());
        }
        let config = sources.load()?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now_ms = i64::try_from(now.as_millis()).unwrap_or(i64::MAX);
        let formatted = offline::format(&config, id, (self.add_scram, now_ms), self.ignore_formatted)
            .map_err(super::failed)?;
        for Formatted { path, identity, is_new } in &formatted {
            let dir = path.display();
            if !is_new {
                tell!("{dir} is already formatted and stays unchanged");
                continue;
            }
            let (cluster, node) = (&identity.cluster_id, identity.node_id);
            let id = id_text(identity.directory_id);
            writeln!(out, "formatted {dir}: cluster {cluster}, node {node}, directory {id}")?;
        }
        Ok(())
    }
}
