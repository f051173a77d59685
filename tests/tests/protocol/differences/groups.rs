//! Random requests of members of groups, by both protocols and between them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rand::seq::IndexedRandom;
use serde_json::json;

use super::History;

/// A member of a group.
#[derive(Clone)]
pub(super) struct Member {
    group: String,
    id: String,
    epoch: i64,
    /// True by the classic protocol.
    is_classic: bool,
}

/// One request of or about a group. A group has one classic member at most: no join waits.
pub(super) fn step(history: &mut History<'_>, members: &mut Vec<Member>) {
    let (topic, group) = (history.topic(), history.draw_id("group"));
    let drawn = members.choose(&mut history.random).cloned();
    match history.below(20) {
        0..9 => heartbeat(history, members, &group),
        9..12 => {
            let known = members.iter().find(|member| member.is_classic && member.group == group).cloned();
            classic(history, members, (&group, known));
        }
        12..15 => {
            // A commit in a past epoch would depend on the assignment.
            let (epoch, id) = match drawn.filter(|member| member.group == group) {
                Some(member) => (member.epoch + 7, member.id),
                None => (-1, String::new()),
            };
            let offset = history.below(100);
            let body = json!({
                "groupId": group, "generationIdOrMemberEpoch": epoch, "memberId": id, "groupInstanceId": null,
                "topics": [{"name": topic, "partitions": [{
                    "partitionIndex": 0, "committedOffset": offset, "committedLeaderEpoch": -1,
                    "committedMetadata": null,
                }]}],
            });
            history.ask("OFFSET_COMMIT 9", &body);
        }
        15 => drop(history.ask("DELETE_GROUPS 2", &json!({"groupsNames": [group]}))),
        16 => {
            let body = json!({
                "groupId": group, "topics": [{"name": topic, "partitions": [{"partitionIndex": 0}]}],
            });
            history.ask("OFFSET_DELETE 0", &body);
        }
        17 => {
            let topics = json!([{"name": topic, "partitionIndexes": [0, 1]}]);
            let body = json!({
                "groups": [{"groupId": group, "memberId": null, "memberEpoch": -1, "topics": topics}],
                "requireStable": true,
            });
            history.ask("OFFSET_FETCH 9", &body);
        }
        18 => {
            let body = json!({"groupIds": [group], "includeAuthorizedOperations": false});
            history.ask("CONSUMER_GROUP_DESCRIBE 1", &body);
        }
        _ => drop(
            history
                .ask("DESCRIBE_GROUPS 6", &json!({"groups": [group], "includeAuthorizedOperations": false})),
        ),
    }
}

/// A heartbeat of the protocol of KIP-848: of a new member, or of one that beats, changes its
/// subscription, is late, or leaves.
fn heartbeat(history: &mut History<'_>, members: &mut Vec<Member>, group: &str) {
    let topic = history.topic();
    let known: Vec<usize> = (0..members.len())
        .filter(|index| members[*index].group == group && !members[*index].is_classic)
        .collect();
    let chosen =
        known.choose(&mut history.random).copied().filter(|_| known.len() > 2 || history.below(3) > 0);
    let mut body = json!({
        "groupId": group, "instanceId": null, "rackId": null, "rebalanceTimeoutMs": -1,
        "subscribedTopicNames": null, "subscribedTopicRegex": null, "serverAssignor": null,
        "topicPartitions": null,
    });
    let Some(index) = chosen else {
        let id = format!("member-{}-{}", history.seed, history.told.len());
        body["memberId"] = json!(id);
        body["memberEpoch"] = json!(0);
        body["rebalanceTimeoutMs"] = json!(60_000);
        body["subscribedTopicNames"] = json!([topic]);
        body["topicPartitions"] = json!([]);
        let (_, response) = history.ask("CONSUMER_GROUP_HEARTBEAT 1", &body);
        if response["errorCode"] == 0 {
            let epoch = response["memberEpoch"].as_i64().expect("an epoch");
            members.push(Member { group: group.to_owned(), id, epoch, is_classic: false });
        }
        return;
    };
    let member = members[index].clone();
    let epoch = match history.below(12) {
        0 | 1 => -1,
        2 => member.epoch - 1,
        3 => member.epoch + 1,
        _ => member.epoch,
    };
    body["memberId"] = json!(member.id);
    body["memberEpoch"] = json!(epoch);
    match history.below(6) {
        0 | 1 => body["subscribedTopicNames"] = json!([topic, "absent"]),
        2 => body["topicPartitions"] = json!([]),
        3 => body["serverAssignor"] = json!(["uniform", "none"][history.below(2) as usize]),
        _ => {}
    }
    let (_, response) = history.ask("CONSUMER_GROUP_HEARTBEAT 1", &body);
    match (response["errorCode"].as_i64(), epoch) {
        (Some(0), -1) => drop(members.remove(index)),
        (Some(0), _) => members[index].epoch = response["memberEpoch"].as_i64().expect("an epoch"),
        _ => {}
    }
}

/// The only classic member of a group joins, synchronizes, beats or leaves.
fn classic(history: &mut History<'_>, members: &mut Vec<Member>, (group, known): (&str, Option<Member>)) {
    let protocols = json!([{"name": "range", "metadata": subscription(&history.topic())}]);
    let join = |id: &str| {
        json!({
            "groupId": group, "sessionTimeoutMs": 45_000, "rebalanceTimeoutMs": 60_000, "memberId": id,
            "groupInstanceId": null, "protocolType": "consumer", "protocols": protocols, "reason": null,
        })
    };
    let Some(member) = known else {
        let (name, response) = history.ask("JOIN_GROUP 9", &join(""));
        if response["errorCode"] == 79 {
            let id = format!("{{{name}}}");
            let (_, response) = history.ask("JOIN_GROUP 9", &join(&id));
            if response["errorCode"] == 0 {
                let epoch = response["generationId"].as_i64().expect("a generation");
                members.push(Member { group: group.to_owned(), id, epoch, is_classic: true });
            }
        }
        return;
    };
    let is_member = |other: &Member| other.id == member.id;
    match history.below(6) {
        0 => {
            let (_, response) = history.ask("JOIN_GROUP 9", &join(&member.id));
            if let Some(known) = members.iter_mut().find(|other| is_member(other)) {
                known.epoch = response["generationId"].as_i64().unwrap_or(known.epoch);
            }
        }
        1 | 2 => {
            let body = json!({
                "groupId": group, "generationId": member.epoch, "memberId": member.id, "groupInstanceId": null,
                "protocolType": "consumer", "protocolName": "range",
                "assignments": [{"memberId": member.id, "assignment": ""}],
            });
            history.ask("SYNC_GROUP 5", &body);
        }
        3 | 4 => {
            let body = json!({
                "groupId": group, "generationId": member.epoch, "memberId": member.id, "groupInstanceId": null,
            });
            history.ask("HEARTBEAT 4", &body);
        }
        _ => {
            let leaving = json!({"memberId": member.id, "groupInstanceId": null, "reason": null});
            history.ask("LEAVE_GROUP 5", &json!({"groupId": group, "members": [leaving]}));
            members.retain(|other| !is_member(other));
        }
    }
}

/// A classic consumer's subscription to a topic, version 1 without partitions, in base 64.
fn subscription(topic: &str) -> String {
    let mut bytes = vec![0, 1, 0, 0, 0, 1];
    bytes.extend(u16::try_from(topic.len()).expect("a short name").to_be_bytes());
    bytes.extend(topic.as_bytes());
    bytes.extend([0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]);
    STANDARD.encode(bytes)
}
