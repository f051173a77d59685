//! Errors in the log of a real Kafka. A broker of Levada must cause none, apart from a list with
//! reasons.

/// Errors that a Kafka may log: parts of the line and its cause, and the reason.
const EXPECTED: [([&str; 2], &str); 6] = [
    (
        ["EventPerformanceMonitor", "Exceptionally slow controller event"],
        "the machine was busy with other work for two seconds",
    ),
    (
        ["processExpiredBrokerHeartbeat: controller event queue overloaded", ""],
        "the machine was busy with other work while brokers started; the broker repeats its heartbeat",
    ),
    (
        ["Unexpected error handling request RequestHeader(apiKey=CONTROLLER_REGISTRATION", ""],
        "a controller that registers itself at a leader which is replaced at that moment repeats the request",
    ),
    (
        [
            "RequestHeader(apiKey=BROKER_HEARTBEAT",
            "NotControllerException: The active controller appears to be node",
        ],
        "a heartbeat may arrive between the election of a controller and its activation; the broker repeats it",
    ),
    (
        ["state.change.logger: [Broker id=", "to exist, but it was missing. Creating..."],
        "a broker of Kafka logs this for each replica that a reassignment gives it",
    ),
    (
        ["RequestHeader(apiKey=ASSIGN_REPLICAS_TO_DIRS", "StaleBrokerEpochException"],
        "a process that wakes after another one has taken its registration may report once before it learns that",
    ),
];

/// Number of lines of a log that are shown for an error: the first lines of the stack name the
/// cause.
const CAUSE_LINES: usize = 12;

/// Errors of a log that have no reason in the list, and none of these parts of the line and its
/// cause.
pub fn errors(log: &str, expected: &[[&str; 2]]) -> Vec<String> {
    let lines: Vec<&str> = log.lines().collect();
    let told = |at: usize| lines[at..lines.len().min(at + CAUSE_LINES)].join("\n    ");
    let is_expected = |at: usize| {
        let expected = EXPECTED.iter().map(|(parts, _)| parts).chain(expected);
        expected.into_iter().any(|parts| parts.iter().all(|part| told(at).contains(part)))
    };
    let is_error = |at: &usize| lines[*at].starts_with("ERROR") || lines[*at].starts_with("FATAL");
    (0..lines.len()).filter(is_error).filter(|at| !is_expected(*at)).map(told).collect()
}
