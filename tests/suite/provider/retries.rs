//! Asking again.

use std::time::Duration;

use flock::config::model::Api;
use flock::provider::ProviderError;
use flock::provider::retry::{self, Policy};

use super::{ALL, Stage, hello, plain_all, said, text};
use crate::support::model_server::{Chunk, Reply};

const QUICK: Policy = Policy {
    attempts: 3,
    silent_attempts: 2,
    first_wait: Duration::from_millis(1),
    longest_wait: Duration::from_millis(2),
    longest_asked_wait: Duration::from_secs(1),
};

struct Run {
    answer: Result<flock::provider::Response, ProviderError>,
    said: String,
    retries: Vec<(u32, String)>,
}

async fn run(stage: &Stage) -> Run {
    let mut deltas = Vec::new();
    let mut retries = Vec::new();
    let request = hello();
    let resolved = stage.resolve();
    let answer = retry::call(
        &QUICK,
        resolved.provider.as_ref(),
        &request,
        &mut |delta| deltas.push(delta),
        &mut |retrying| retries.push((retrying.attempt, retrying.reason.to_string())),
    )
    .await;
    Run { answer, said: said(&deltas), retries }
}

#[tokio::test]
async fn a_provider_that_recovers_is_asked_again() {
    for api in ALL {
        let stage = Stage::new(api);
        stage.server.reply(Reply::status(500, "no")).reply(Reply::status(529, "busy"));
        let run = run(&stage).await;
        assert_eq!(plain_all(&run.answer.unwrap().content), [text("ok")]);
        assert_eq!(run.retries.iter().map(|retry| retry.0).collect::<Vec<_>>(), [1, 2]);
        assert!(run.retries[1].1.contains("busy"));
        assert_eq!(stage.server.requests().len(), 3);
    }
}

#[tokio::test]
async fn it_is_given_up_after_the_last_attempt() {
    let stage = Stage::new(Api::OpenAiCompletions);
    stage.server.always(Reply::status(429, "slow").header("retry-after-ms", "1"));
    let run = run(&stage).await;
    assert!(matches!(run.answer, Err(ProviderError::Limited { .. })));
    assert_eq!((run.retries.len(), stage.server.requests().len()), (2, 3));
}

#[tokio::test]
async fn a_wait_that_is_too_long_is_left_to_the_person() {
    let stage = Stage::new(Api::OpenAiCompletions);
    stage.server.always(Reply::status(429, "slow").header("retry-after", "3600"));
    assert_eq!(run(&stage).await.retries.len(), 0);
}

#[tokio::test]
async fn what_the_provider_refuses_is_not_asked_again() {
    for status in [400, 401, 404] {
        let stage = Stage::new(Api::AnthropicMessages);
        stage.server.always(Reply::status(status, "no"));
        assert!(run(&stage).await.answer.is_err());
        assert_eq!(stage.server.requests().len(), 1);
    }
}

#[tokio::test]
async fn what_a_person_has_read_is_not_said_twice() {
    let stage = Stage::new(Api::OpenAiCompletions);
    let half = "data: {\"choices\":[{\"delta\":{\"content\":\"half\"}}]}\n\n";
    stage.server.reply(Reply::stream(vec![half.into(), Chunk::Reset]));
    let run = run(&stage).await;
    assert!(matches!(run.answer, Err(ProviderError::Failed { .. })), "{:?}", run.answer);
    assert_eq!((run.said.as_str(), run.retries.len()), ("half", 0));
}

#[tokio::test]
async fn half_a_stream_of_which_nothing_was_passed_on_is_asked_again() {
    let stage = Stage::new(Api::OpenAiCompletions);
    let half = "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"a\"}]}}]}\n\n";
    stage.server.reply(Reply::stream(vec![half.into(), Chunk::Reset]));
    let run = run(&stage).await;
    assert_eq!(run.answer.unwrap().content, [text("ok")]);
    assert_eq!(run.retries.len(), 1);
}
