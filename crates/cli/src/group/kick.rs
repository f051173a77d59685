//! `levada group kick`: removes members from a group, as their session timeout would.

use std::collections::BTreeMap;
use std::io::Write;

use levada_client::{Cluster, Coordinated};
use levada_wire::StrBytes;
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::leave_group_request::MemberIdentity;
use levada_wire::messages::leave_group_response::MemberResponse;
use levada_wire::messages::{ConsumerGroupHeartbeatRequest, LeaveGroupRequest};

use super::share::{self, SHARE};
use super::state::{self, Group, Member};
use super::streams::{self, STREAMS};
use crate::kafka_error;
use crate::outcomes::Outcomes;
use levada_terminal::failure::Failure;
use levada_terminal::output::FormatArgs;

/// The epoch of a member of a consumer group that leaves.
const LEAVING: i32 = -1;

/// Remove members from a group
///
/// Other members get their partitions immediately. A consumer that still works joins again, so use
/// this command for consumers that hang.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada group kick readers hk40mDJ2SK2xGxNI/iM//w     a member's or an instance's id
  levada group kick readers --all")]
pub(crate) struct Kick {
    /// Name of the group
    group: String,
    /// Ids of members or instances, as levada group describe shows them
    #[arg(value_name = "MEMBER", required_unless_present = "all")]
    members: Vec<String>,
    /// Every member
    #[arg(long, conflicts_with = "members")]
    all: bool,
    #[command(flatten)]
    format: FormatArgs,
}

impl Kick {
    pub(super) fn run(&self, cluster: &mut Cluster, out: &mut dyn Write) -> Result<(), Failure> {
        let Some(group) = state::describe_any(cluster, &self.group)? else {
            return kafka_error::check(
                ErrorCode::GroupIdNotFound.code(),
                &format!("group {}", self.group),
                None,
            );
        };
        let members = self.chosen(&group)?;
        let mut outcomes = Outcomes::new(self.format);
        let mut note = |member: &Member, removed: Result<(), Failure>| {
            let said = format!("removed {} from group {}", member.id, self.group);
            outcomes.note(("member", &member.id), removed, &said);
        };
        if group.kind == SHARE {
            for member in &members {
                note(member, share::kick(cluster, &self.group, member));
            }
        } else if group.kind == STREAMS {
            for member in &members {
                note(member, streams::kick(cluster, &self.group, member));
            }
        } else if group.epoch.is_some() {
            for member in &members {
                note(member, self.kick_from_consumer_group(cluster, member));
            }
        } else if !members.is_empty() {
            let codes = self.kick_from_classic_group(cluster, &members)?;
            for member in &members {
                let code = codes.get(&member.id).copied().unwrap_or(0);
                note(member, kafka_error::check(code, &format!("remove member {}", member.id), None));
            }
        }
        if members.is_empty() {
            tell!("group {} has no members", self.group);
        }
        outcomes.end(out)
    }

    fn chosen<'g>(&self, group: &'g Group) -> Result<Vec<&'g Member>, Failure> {
        if self.all {
            return Ok(group.members.iter().collect());
        }
        let find = |id: &String| {
            let is_it = |member: &&Member| member.id == *id || member.instance_id.as_ref() == Some(id);
            group.members.iter().find(is_it).ok_or_else(|| {
                Failure::with_next(
                    format!("group {} has no member {id}", self.group),
                    format!("levada group describe {} shows its members", self.group),
                )
            })
        };
        self.members.iter().map(find).collect()
    }

    /// Sends the member's own farewell.
    fn kick_from_consumer_group(&self, cluster: &mut Cluster, member: &Member) -> Result<(), Failure> {
        let mut request = ConsumerGroupHeartbeatRequest::default();
        request.group_id = StrBytes::from(self.group.as_str());
        request.member_id = StrBytes::from(member.id.as_str());
        request.instance_id = member.instance_id.as_deref().map(StrBytes::from);
        request.member_epoch = LEAVING;
        request.rebalance_timeout_ms = -1;
        let (kind, newest) = (Coordinated::Group, i16::MAX);
        let response =
            cluster.ask_coordinator(kind, &self.group, (&request, newest), |answer| answer.error_code)?;
        let doing = format!("remove member {}", member.id);
        let checked = kafka_error::check(response.error_code, &doing, response.error_message.as_deref());
        kafka_error::needing(checked, "read", &format!("--group {}", self.group))
    }

    /// Returns the error code of each member in the response.
    fn kick_from_classic_group(
        &self,
        cluster: &mut Cluster,
        members: &[&Member],
    ) -> Result<BTreeMap<String, i16>, Failure> {
        let identity = |member: &&Member| {
            let mut identity = MemberIdentity::default();
            identity.member_id = StrBytes::from(member.id.as_str());
            identity.group_instance_id = member.instance_id.as_deref().map(StrBytes::from);
            identity.reason = Some(StrBytes::from("removed by levada group kick"));
            identity
        };
        let mut request = LeaveGroupRequest::default();
        request.group_id = StrBytes::from(self.group.as_str());
        request.members = members.iter().map(identity).collect();
        let (kind, newest) = (Coordinated::Group, i16::MAX);
        let response =
            cluster.ask_coordinator(kind, &self.group, (&request, newest), |answer| answer.error_code)?;
        let doing = format!("remove members of group {}", self.group);
        let checked = kafka_error::check(response.error_code, &doing, None);
        kafka_error::needing(checked, "read", &format!("--group {}", self.group))?;
        let code = |one: &MemberResponse| (one.member_id.as_str().to_owned(), one.error_code);
        Ok(response.members.iter().map(code).collect())
    }
}
