//! Members of a streams group, each with one task and its own connection. Their heartbeats follow
//! one another.

use std::time::Instant;

use levada_wire::messages::streams_group_heartbeat_request::{Subtopology, TaskIds, Topology};
use levada_wire::messages::{StrBytes, StreamsGroupHeartbeatRequest};

use super::operations::Work;
use super::{LIMIT, PAUSE};
use crate::error::LabError;
use crate::experiments::broker::harness::connection::Connection;
use crate::experiments::broker::harness::coordinator;
use crate::experiments::broker::harness::frames;
use crate::experiments::broker::harness::node::Node;
use crate::experiments::broker::harness::topic;
use crate::method::experiment::Pass;

/// Heartbeat version that Kafka 4.3 and 4.4 have.
const VERSION: i16 = 0;

pub(super) fn begin(node: &Node, count: usize) -> Result<Work, LabError> {
    let name = format!("streams-{count}");
    coordinator::find(node, (coordinator::GROUP, &name))?;
    topic::create(node, &name, i32::try_from(count).unwrap_or(i32::MAX), &[])?;
    let member = |number| Member::new(node, &name, number);
    let mut members = (0..count).map(member).collect::<Result<Vec<_>, LabError>>()?;
    let start = Instant::now();
    while !members.iter_mut().try_fold(true, |is_settled, member| Ok(member.beat()? && is_settled))? {
        if start.elapsed() > LIMIT {
            return Err(node.failed("does not give each member of a streams group its task"));
        }
        std::thread::sleep(PAUSE);
    }
    let framed = |member: Member| Ok((frames::request(VERSION, &member.request())?, member));
    let mut members = members.into_iter().map(framed).collect::<Result<Vec<_>, LabError>>()?;
    let mut next = 0;
    Ok(Box::new(move |pass| {
        let (frame, member) = &mut members[next % count];
        next += 1;
        if pass == Pass::Timed {
            member.connection.send(frame)?;
            return member.connection.receive(4).map(drop);
        }
        let request = member.request();
        match member.connection.ask(VERSION, &request)?.error_code {
            0 => Ok(()),
            error => Err(frames::refused("StreamsGroupHeartbeat", error)),
        }
    }))
}

/// State of a member, as an application keeps it.
struct Member {
    connection: Connection,
    group: StrBytes,
    id: StrBytes,
    epoch: i32,
    tasks: Vec<TaskIds>,
    /// True if the member has not reported these tasks to the coordinator yet.
    is_news: bool,
}

impl Member {
    fn new(node: &Node, group: &str, number: usize) -> Result<Self, LabError> {
        let (connection, group) = (Connection::open(node.address())?, StrBytes::from(group));
        let id = StrBytes::from(format!("member-{number}"));
        Ok(Self { connection, group, id, epoch: 0, tasks: Vec::new(), is_news: true })
    }

    fn request(&self) -> StreamsGroupHeartbeatRequest {
        let mut request = StreamsGroupHeartbeatRequest::default();
        (request.group_id, request.member_id) = (self.group.clone(), self.id.clone());
        request.member_epoch = self.epoch;
        if self.is_news {
            request.active_tasks = Some(self.tasks.clone());
            (request.standby_tasks, request.warmup_tasks) = (Some(Vec::new()), Some(Vec::new()));
        }
        if self.epoch == 0 {
            let mut subtopology = Subtopology::default();
            subtopology.subtopology_id = StrBytes::from("0");
            subtopology.source_topics = vec![self.group.clone()];
            let mut topology = Topology::default();
            topology.subtopologies = vec![subtopology];
            request.topology = Some(topology);
            request.rebalance_timeout_ms = 300_000;
            request.process_id = Some(self.id.clone());
            request.client_tags = Some(Vec::new());
        }
        request
    }

    /// Sends a heartbeat. Returns true if the heartbeat changed nothing and the member has one
    /// task.
    fn beat(&mut self) -> Result<bool, LabError> {
        let request = self.request();
        let response = self.connection.ask(VERSION, &request)?;
        match response.error_code {
            0 => {}
            code if coordinator::is_loading(code) => return Ok(false),
            code => return Err(frames::refused("StreamsGroupHeartbeat", code)),
        }
        let is_same = self.epoch == response.member_epoch && !self.is_news;
        (self.epoch, self.is_news) = (response.member_epoch, false);
        let Some(tasks) = response.active_tasks else {
            return Ok(is_same && self.tasks.iter().map(|one| one.partitions.len()).sum::<usize>() == 1);
        };
        let task = |told: levada_wire::messages::streams_group_heartbeat_response::TaskIds| {
            let mut task = TaskIds::default();
            (task.subtopology_id, task.partitions) = (told.subtopology_id, told.partitions);
            task
        };
        self.tasks = tasks.into_iter().map(task).collect();
        self.is_news = true;
        Ok(false)
    }
}
