//! The log event with the partitions that this broker has begun to lead or to follow: one line for
//! each publication, and a limited number of lines for many publications.

use levada_base::log_pace::LogPace;
use levada_process::clock::steady_ms;

use crate::replica::{Leadership, Partition};

/// Number of partitions that a line names.
const NAMED: usize = 5;

/// The changes of role of one publication.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Roles {
    leading: usize,
    following: usize,
    without_leader: usize,
    named: Vec<String>,
}

impl Roles {
    /// Records the present role of a partition, unless it is unchanged.
    pub(super) fn note(&mut self, partition: &Partition, before: Option<&Leadership>) {
        let now = partition.leadership();
        if before.is_some_and(|before| before.leader() == now.leader()) {
            return;
        }
        let role = match now.leader() {
            _ if now.is_leader() => {
                self.leading += 1;
                "leader".to_owned()
            }
            leader if leader < 0 => {
                self.without_leader += 1;
                "no leader".to_owned()
            }
            leader => {
                self.following += 1;
                format!("follower of {leader}")
            }
        };
        if self.named.len() < NAMED {
            let epoch = now.leader_epoch();
            self.named.push(format!("{}/{}: {role}, epoch {epoch}", partition.topic(), partition.index()));
        }
    }

    /// Writes the line, if a role has changed and the rate limit allows it.
    pub(super) fn tell(&self, pace: &LogPace) {
        let changed = self.leading + self.following + self.without_leader;
        if changed == 0 {
            return;
        }
        let more = changed - self.named.len();
        let more = if more == 0 { String::new() } else { format!("; {more} more") };
        let partitions = format!("{}{more}", self.named.join("; "));
        let (leading, following, without_leader) = (self.leading, self.following, self.without_leader);
        if let Some(left_out) = pace.admit(steady_ms()) {
            tracing::info!(
                leading,
                following,
                without_leader,
                partitions,
                left_out,
                "roles of partitions changed"
            );
        }
    }
}
