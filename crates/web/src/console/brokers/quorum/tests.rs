//! Problems of the controllers.

use levada_wire::error_code::ErrorCode;

use super::*;

#[test]
fn silent_or_leaderless_controllers_are_a_problem() {
    let led_by = |leader: i32| {
        let mut log = PartitionData::default();
        log.leader_id = leader;
        problem_of(&Ok(log))
    };
    assert_eq!(led_by(0), None);
    assert_eq!(led_by(-1), Some(ControllersProblem::NoLeader));
    let silent = Some(ControllersProblem::Silent(PATIENCE));
    assert_eq!(problem_of(&Err(Failed::ControllersSilent(PATIENCE))), silent);
    let refused = |code: ErrorCode| {
        let checked = check(code.code(), None, || "describe the quorum".to_owned());
        problem_of(&checked.map(|()| PartitionData::default()))
    };
    assert_eq!(refused(ErrorCode::RequestTimedOut), silent);
    assert_eq!(refused(ErrorCode::ClusterAuthorizationFailed), None, "hidden from this visitor");
}
