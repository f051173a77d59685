//! `levada broker remove`: removes the registration of a broker that has stopped.

use std::io::Write;

use levada_client::Cluster;
use levada_terminal::failure::Failure;
use levada_terminal::output::{FormatArgs, counted};
use levada_wire::messages::UnregisterBrokerRequest;

use crate::kafka_error;
use crate::layout::Layout;
use crate::outcomes::{Outcome, Outcomes};
use crate::question;

/// Remove a broker that is empty and stopped from the cluster
///
/// The controllers forget the broker. A broker that still runs would register again with its next
/// start, and its replicas would stay assigned to it, so that both are refused.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada broker drain 3 --execute && ssh broker-3 systemctl stop levada
  levada broker remove 3
  levada broker remove 3 --lost                 its disks are gone, and so are its replicas")]
pub(crate) struct Remove {
    /// Id of the broker
    broker: i32,
    /// Remove it although partitions have replicas on it: it will not return
    #[arg(long)]
    lost: bool,
    /// Remove it although the controllers count it as alive
    #[arg(long)]
    alive: bool,
    /// Check the conditions, but remove nothing
    #[arg(short = 'n', long)]
    dry_run: bool,
    #[command(flatten)]
    question: question::Args,
    #[command(flatten)]
    format: FormatArgs,
}

impl Remove {
    pub(super) fn run(&self, cluster: &mut Cluster, out: &mut dyn Write) -> Result<(), Failure> {
        let layout = Layout::ask(cluster)?;
        self.check(&layout)?;
        let (id, name) = (self.broker, self.broker.to_string());
        let mut outcomes = Outcomes::new(self.format);
        if self.dry_run {
            outcomes.add(("broker", &name), Outcome::Possible, &format!("would remove broker {id}"));
            return outcomes.end(out);
        }
        self.question.ask(&format!("remove broker {id} from the cluster"), "no broker was removed")?;
        let mut request = UnregisterBrokerRequest::default();
        request.broker_id = id;
        let response = cluster.ask_controller(&request, |response| response.error_code)?;
        let doing = format!("remove broker {id}");
        let checked = kafka_error::check(response.error_code, &doing, response.error_message.as_deref());
        let done = kafka_error::needing(checked, "alter", "--cluster");
        outcomes.note(("broker", &name), done, &format!("removed broker {id} from the cluster"));
        outcomes.end(out)
    }

    pub(super) fn check(&self, layout: &Layout) -> Result<(), Failure> {
        let id = self.broker;
        let member = layout.member(id)?;
        if member.fenced != Some(true) && !self.alive {
            return Err(Failure::with_next(
                format!(
                    "broker {id} is alive: it would continue to serve, and register again at its next start"
                ),
                "stop the broker, and retry when levada broker list shows it as fenced; --alive removes it now",
            ));
        }
        let held = layout.replicas(id);
        if held > 0 && !self.lost {
            return Err(Failure::with_next(
                format!("broker {id} holds replicas of {}", counted(held as u64, "partition", "partitions")),
                format!("levada broker drain {id} --execute moves them; --lost removes the broker anyway"),
            ));
        }
        Ok(())
    }
}
