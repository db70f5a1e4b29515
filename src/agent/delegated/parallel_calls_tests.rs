use futures_util::FutureExt as _;
use serde_json::json;

use super::*;

/// A tool that only reads, so its calls run in parallel.
const READING_TOOL: &str = "flock_channel_read";
const POSTING_TOOL: &str = "flock_channel_post";

struct CallsFixture {
    beside: ParallelCalls<'static>,
    inbound: mpsc::Sender<Inbound>,
    /// Ends the call with this id, once it has begun.
    ends: Vec<(String, CancellationToken)>,
    /// Keeps the receivers alive, because a dropped one means that nobody waits for the answer.
    answers: Vec<oneshot::Receiver<ToolCallResponse>>,
}

impl CallsFixture {
    fn new() -> Self {
        let (inbound, taken) = mpsc::channel(256);
        Self { beside: ParallelCalls::new(taken), inbound, ends: Vec::new(), answers: Vec::new() }
    }

    /// Sends a call and returns its cancellation token.
    fn asks(&mut self, id: &str, tool: &str) -> CancellationToken {
        let cancel = CancellationToken::new();
        let asked = IncomingCall {
            id: id.to_owned(),
            tool: tool.to_owned(),
            arguments: json!({}),
            cancel: cancel.clone(),
            progress: None,
        };
        let (reply, answer) = oneshot::channel();
        self.answers.push(answer);
        assert!(self.inbound.try_send(Inbound::Call(asked, reply)).is_ok());
        cancel
    }

    /// Begins all calls that may begin, collects those that have ended, and returns both as text.
    fn goes_on(&mut self) -> Vec<String> {
        let mut seen = Vec::new();
        while let Some(Some(came)) = self.beside.next().now_or_never() {
            match came {
                CallEvent::Call(call) => {
                    let (name, tool) = (call.asked.id.clone(), call.asked.tool.clone());
                    seen.push(name.clone());
                    let ends = CancellationToken::new();
                    self.ends.push((name.clone(), ends.clone()));
                    let over = self.beside.over().clone();
                    let work = async move {
                        tokio::select! {
                            () = ends.cancelled() => {}
                            () = over.cancelled() => {}
                        }
                        let ended = Ok(CallEnd { answer: None, halted: None, is_handed_out: false });
                        FinishedCall { name, call, started: Instant::now(), ended }
                    };
                    self.beside.begin(&tool, Box::pin(work));
                }
                CallEvent::Done(done) => seen.push(format!("{} ended", done.name)),
                CallEvent::Report(_) => seen.push("told".to_owned()),
            }
        }
        seen
    }

    fn ends(&mut self, id: &str) -> Vec<String> {
        self.ends.iter().filter(|(name, _)| name == id).for_each(|(_, ends)| ends.cancel());
        self.goes_on()
    }
}

#[tokio::test]
async fn reading_calls_run_in_parallel_up_to_sixteen() {
    let mut line = CallsFixture::new();
    for n in 1..=18 {
        line.asks(&n.to_string(), READING_TOOL);
    }
    let begun = line.goes_on();
    assert_eq!(begun, (1..=16).map(|n| n.to_string()).collect::<Vec<_>>());
    assert_eq!(line.ends("7"), ["7 ended", "17"], "in the order they came");
    assert_eq!(line.ends("1"), ["1 ended", "18"]);
}

#[tokio::test]
async fn changing_calls_run_alone_in_arrival_order() {
    let mut line = CallsFixture::new();
    for (id, tool) in [
        ("a", READING_TOOL),
        ("b", READING_TOOL),
        ("c", POSTING_TOOL),
        ("d", READING_TOOL),
        ("e", "flock_nothing"),
        ("f", POSTING_TOOL),
    ] {
        line.asks(id, tool);
    }
    assert_eq!(line.goes_on(), ["a", "b"]);
    assert_eq!(line.ends("b"), ["b ended"], "the first look is still under way");
    assert_eq!(line.ends("a"), ["a ended", "c"]);
    assert_eq!(line.ends("c"), ["c ended", "d"]);
    assert_eq!(line.ends("d"), ["d ended", "e"], "what nobody knows runs alone, too");
    assert_eq!(line.ends("e"), ["e ended", "f"]);
}

#[tokio::test]
async fn a_cancelled_queued_call_blocks_no_other() {
    let mut line = CallsFixture::new();
    line.asks("a", READING_TOOL);
    let gives_up = line.asks("b", POSTING_TOOL);
    let further = line.asks("c", POSTING_TOOL);
    line.asks("d", READING_TOOL);
    assert_eq!(line.goes_on(), ["a"]);
    further.cancel();
    // The waiting task notices it at once.
    let waits = async {
        match line.beside.next().await {
            Some(CallEvent::Call(call)) => call.asked.id,
            _ => panic!("the next call begins"),
        }
    };
    let (id, ()) = tokio::join!(waits, async { gives_up.cancel() });
    assert_eq!(id, "d");
}

#[tokio::test]
async fn reports_keep_their_order_between_calls() {
    let mut line = CallsFixture::new();
    line.asks("a", POSTING_TOOL);
    assert!(line.inbound.try_send(Inbound::Report(ProgramReport::Over)).is_ok());
    line.asks("b", READING_TOOL);
    assert_eq!(line.goes_on(), ["a", "told"]);
    assert_eq!(line.ends("a"), ["a ended", "b"]);
}

#[tokio::test]
async fn the_end_of_the_turn_cancels_running_calls_and_begins_no_other() {
    let mut line = CallsFixture::new();
    for (id, tool) in [("a", READING_TOOL), ("b", READING_TOOL), ("c", POSTING_TOOL)] {
        line.asks(id, tool);
    }
    assert_eq!(line.goes_on(), ["a", "b"]);
    let CallsFixture { beside, mut answers, .. } = line;
    let left: Vec<FinishedCall> = beside.end().collect().await;
    let mut left: Vec<&str> = left.iter().map(|done| done.name.as_str()).collect();
    left.sort_unstable();
    assert_eq!(left, ["a", "b"]);
    assert!(answers.remove(2).await.is_err(), "nobody waits for what is never begun");
}

#[tokio::test]
async fn accepted_calls_still_run_after_close() {
    let mut line = CallsFixture::new();
    line.asks("a", POSTING_TOOL);
    line.asks("b", POSTING_TOOL);
    line.beside.close();
    assert_eq!(line.goes_on(), ["a"]);
    assert_eq!(line.ends("a"), ["a ended", "b"]);
    assert_eq!(line.ends("b"), ["b ended"]);
    assert!(matches!(line.beside.next().now_or_never(), Some(None)));
}
