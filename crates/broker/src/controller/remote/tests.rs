//! Tests of `controller::remote`, with a controller whose answers the test decides.

use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::time::Instant;

use bytes::BytesMut;
use levada_wire::RequestHeader;
use levada_wire::messages::create_topics_response::CreatableTopicResult;
use tokio::sync::oneshot;
use tokio::task::yield_now;

use super::*;

/// A controller that answers when the test says so.
#[derive(Default)]
struct Fake {
    /// Highest version of each API; none while no controller is known.
    version: Option<i16>,
    asked: Mutex<Vec<Vec<String>>>,
    /// The next forwarded requests wait for these.
    held: Mutex<VecDeque<oneshot::Receiver<()>>>,
    forwarded: Mutex<Vec<ClientRequest>>,
    answers: Mutex<VecDeque<oneshot::Receiver<Result<CreateTopicsResponse, ErrorCode>>>>,
}

impl Fake {
    fn expect(&self) -> oneshot::Sender<Result<CreateTopicsResponse, ErrorCode>> {
        let (answer, answered) = oneshot::channel();
        self.answers.lock().push_back(answered);
        answer
    }
}

impl ActiveController for Fake {
    fn forward(&self, request: ClientRequest) -> Pending<'_, Forwarded> {
        self.forwarded.lock().push(request);
        let held = self.held.lock().pop_front();
        Box::pin(async {
            if let Some(held) = held {
                let _ = held.await;
            }
            Forwarded::Failed(ErrorCode::NotController)
        })
    }

    fn create_topics(
        &self,
        request: CreateTopicsRequest,
    ) -> Pending<'_, Result<CreateTopicsResponse, ErrorCode>> {
        self.asked.lock().push(request.topics.iter().map(|topic| topic.name.as_str().to_owned()).collect());
        let answered = self.answers.lock().pop_front().expect("the test expects the request");
        Box::pin(async { answered.await.unwrap_or(Err(ErrorCode::RequestTimedOut)) })
    }

    fn producer_id(&self) -> Pending<'_, Result<i64, ErrorCode>> {
        Box::pin(async { Err(ErrorCode::RequestTimedOut) })
    }

    fn versions(&self, _: ApiKey) -> Option<RangeInclusive<i16>> {
        self.version.map(|version| 0..=version)
    }
}

fn topic(name: &str) -> CreatableTopic {
    let mut topic = CreatableTopic::default();
    topic.name = name.into();
    topic
}

/// Lets the tasks that were started come to where they wait.
async fn settle() {
    for _ in 0..40 {
        yield_now().await;
    }
}

#[tokio::test]
async fn topic_creation_in_progress_is_not_repeated() {
    let fake = Arc::new(Fake::default());
    let remote = Remote::new(fake.clone());
    let (first, second, third) = (fake.expect(), fake.expect(), fake.expect());
    remote.begin_creation(vec![topic("a")], 1, None);
    remote.begin_creation(vec![topic("a"), topic("b")], 1, None);
    remote.begin_creation(vec![topic("a"), topic("b")], 1, None);
    settle().await;
    assert_eq!(*fake.asked.lock(), [["a"], ["b"]]);
    // Created, refused and unanswered creations can be repeated.
    let mut refused = CreatableTopicResult::default();
    refused.error_code = ErrorCode::InvalidReplicationFactor.code();
    let mut response = CreateTopicsResponse::default();
    response.topics = vec![refused];
    first.send(Ok(response)).unwrap();
    second.send(Err(ErrorCode::RequestTimedOut)).unwrap();
    settle().await;
    remote.begin_creation(vec![topic("a"), topic("b")], 1, None);
    settle().await;
    assert_eq!(fake.asked.lock()[2..], [["a", "b"]]);
    drop(third);
}

#[tokio::test]
async fn topic_creations_beyond_limit_wait_for_retry() {
    let fake = Arc::new(Fake::default());
    let remote = Remote::new(fake.clone());
    let (first, second, _third) = (fake.expect(), fake.expect(), fake.expect());
    let many = |from: usize| (from..from + CREATING_MAX / 2 + 1).map(|number| topic(&number.to_string()));
    remote.begin_creation(many(0).collect(), 1, None);
    remote.begin_creation(many(CREATING_MAX).collect(), 1, None);
    remote.begin_creation(vec![topic("late")], 1, None);
    settle().await;
    let counts: Vec<usize> = fake.asked.lock().iter().map(Vec::len).collect();
    assert_eq!(counts, [CREATING_MAX / 2 + 1, CREATING_MAX / 2 - 1]);
    drop((first, second));
    settle().await;
    remote.begin_creation(vec![topic("late")], 1, None);
    settle().await;
    assert_eq!(fake.asked.lock()[2], ["late"]);
}

#[tokio::test]
async fn greedy_client_delays_others_by_one_request() {
    let fake = Arc::new(Fake::default());
    let (release, held): (Vec<_>, VecDeque<_>) = (0..400).map(|_| oneshot::channel()).unzip();
    *fake.held.lock() = held;
    let remote = Arc::new(Remote::new(fake.clone()));
    let forward = |user: &'static str, is_permitted| {
        let session = Session::new(user, Ipv4Addr::LOCALHOST.into());
        let request = ClientRequest { frame: Bytes::new(), correlation_id: 7, session };
        let remote = remote.clone();
        tokio::spawn(async move { remote.forward(request, None, is_permitted).await })
    };
    let greedy: Vec<_> = (0..300).map(|_| forward("greedy", true)).collect();
    let stranger: Vec<_> = (0..3).map(|_| forward("stranger", false)).collect();
    settle().await;
    let users =
        || -> Vec<String> { fake.forwarded.lock().iter().map(|one| one.session.user().to_owned()).collect() };
    assert_eq!(users(), ["greedy", "greedy", "greedy", "greedy", "stranger"]);
    let refused = greedy.iter().filter(|task| task.is_finished()).count();
    assert_eq!(refused, 300 - WAITING_MAX - 4, "too many wait");
    let other = forward("other", true);
    settle().await;
    let mut release = release.into_iter();
    release.next().unwrap().send(()).unwrap();
    settle().await;
    assert_eq!(users().last().map(String::as_str), Some("other"));
    drop(release);
    assert_eq!(other.await.unwrap(), Forwarded::Failed(ErrorCode::NotController));
    for task in stranger {
        task.await.unwrap();
    }
}

#[test]
fn forwarded_requests_end_before_their_timeout() {
    for (timeout_ms, expected_ms) in [
        (None, 20_000),
        (Some(i32::MAX), 20_000),
        (Some(30_000), 20_000),
        (Some(20_000), 15_000),
        (Some(4_000), 3_000),
        (Some(1), 1_000),
        (Some(i32::MIN), 1_000),
    ] {
        assert_eq!(forward_time(timeout_ms), Duration::from_millis(expected_ms), "{timeout_ms:?}");
    }
}

#[tokio::test]
async fn silent_controllers_time_out_a_request() {
    let fake = Arc::new(Fake::default());
    let (_answer, held) = oneshot::channel();
    fake.held.lock().push_back(held);
    let session = Session::new("alice", Ipv4Addr::LOCALHOST.into());
    let request = ClientRequest { frame: Bytes::new(), correlation_id: 7, session };
    let remote = Remote::new(fake.clone());
    let begun = Instant::now();
    let fate = remote.forward(request, Some(1), true).await;
    assert_eq!((fate, fake.forwarded.lock().len()), (Forwarded::Failed(ErrorCode::RequestTimedOut), 1));
    assert!(begun.elapsed() < Duration::from_millis(FORWARD_MS.unsigned_abs().into()));
}

#[tokio::test]
async fn topics_are_created_with_the_clients_rights() {
    for (version, expected) in [(None, 7), (Some(5), 5), (Some(9), 7)] {
        let fake = Arc::new(Fake { version, ..Fake::default() });
        let creator = Creator {
            client_id: Some("client".to_owned()),
            correlation_id: 23,
            session: Session::new("alice", Ipv4Addr::LOCALHOST.into()),
        };
        Remote::new(fake.clone()).begin_creation(vec![topic("a")], 1, Some(creator));
        settle().await;
        let forwarded = fake.forwarded.lock().pop().unwrap();
        assert_eq!((forwarded.session.user(), forwarded.correlation_id), ("alice", 23));
        let mut frame = BytesMut::from(&forwarded.frame[..]);
        let header = RequestHeader::decode(&mut frame).unwrap();
        assert_eq!((header.api, header.version), (ApiKey::CreateTopics, expected));
        assert_eq!(header.client_id.as_ref().map(|id| id.as_str()), Some("client"));
        let request: CreateTopicsRequest = levada_wire::decode(frame.freeze(), expected).unwrap();
        assert_eq!(request.topics[0].name.as_str(), "a");
    }
}

#[test]
fn forwarded_principal_shows_token_authentication() {
    let address = Ipv4Addr::LOCALHOST.into();
    for (session, by_token) in
        [(Session::new("alice", address), false), (Session::by_token("alice", address), true)]
    {
        let principal = principal(&session);
        assert_eq!((principal.kind.as_str(), principal.name.as_str()), ("User", "alice"));
        assert_eq!(principal.token_authenticated, by_token);
    }
}
