//! One question to the gateway and its streamed answer.

use std::time::Duration;

use serde_json::{Value, json};

use crate::cli::Failure;
use crate::error::Kind;
use crate::id::SessionKey;
use crate::supervise::gateway_client::{Call, Client};
use crate::ui::Printer;

/// The answer to a question.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct ChatAnswer {
    /// The id of the turn.
    pub turn: String,
    /// The whole text, in the order in which it arrived.
    pub text: String,
    /// The reason for the end, in OpenAI's terms.
    pub finish_reason: Option<String>,
    /// The token counts, in OpenAI's format.
    pub usage: Option<Value>,
    /// Set while the last printed line has no newline yet.
    open_line: bool,
}

/// The recipient of a question, and how to ask.
pub(crate) struct ChatTarget {
    pub gateway: Client,
    /// The session that the question continues.
    pub session: SessionKey,
    /// `true` if the request waits until a frozen agent is thawed.
    pub waits: bool,
}

/// Time without any event after which the gateway counts as gone. It sends a keep-alive every 15 seconds.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(60);

/// Asks the question and prints the answer as it arrives; with `--json` nothing is printed here.
///
/// Dropping the future cancels the turn.
///
/// # Errors
///
/// Returns the gateway's own error if the turn fails, and an error if the connection ends before the answer is
/// complete.
pub(crate) async fn ask(
    question: &ChatTarget,
    text: String,
    printer: &Printer,
) -> Result<ChatAnswer, Failure> {
    let ChatTarget { gateway, session, waits } = question;
    let body = json!({
        "model": session.agent(),
        "messages": [{"role": "user", "content": text}],
        "stream": true,
        "stream_options": {"include_usage": true},
    });
    let call = Call::post("/v1/chat/completions")
        .header("x-openclaw-session-key", session.as_str())
        // This header adds events about tools and retries to OpenAI's stream.
        .header("x-flock-activity", "1")
        .header("x-flock-wait", if *waits { "1" } else { "0" })
        .json(&body)?;
    let response = gateway.ask(call, SILENCE_TIMEOUT).await?;
    let turn = response.header("x-flock-turn-id").unwrap_or_default().to_owned();
    let mut answer = ChatAnswer { turn, ..ChatAnswer::default() };
    let mut events = response.events();
    let mut is_whole = false;
    while let Some(event) = events.next(SILENCE_TIMEOUT).await? {
        // A stream without this last event was cut off, and its text may be incomplete.
        if event.data == "[DONE]" {
            is_whole = true;
            break;
        }
        let data: Value = serde_json::from_str(&event.data).unwrap_or_default();
        // Chunks of the answer have no event name. Only flock's own events have one.
        if event.name.is_empty() {
            if let Some(failure) = failure(&data) {
                end_line(&mut answer, printer);
                return Err(failure);
            }
            let piece = answer.take(&data);
            // A blank line after the lines of a tool is dropped: they already end with a newline.
            let shown = if answer.open_line { piece.as_str() } else { piece.trim_start_matches('\n') };
            if !shown.is_empty() && !printer.is_json() {
                printer.stream(shown);
                answer.open_line = !shown.ends_with('\n');
            }
        } else if let Some(line) = activity_line(&event.name, &data) {
            end_line(&mut answer, printer);
            printer.say(line);
        }
    }
    end_line(&mut answer, printer);
    if is_whole {
        Ok(answer)
    } else {
        Err(Failure::new(Kind::Failed, "the gateway ended the answer before it was complete")
            .hint("flock logs gateway"))
    }
}

impl ChatAnswer {
    /// Adds a chunk to the answer and returns the text in it.
    fn take(&mut self, chunk: &Value) -> String {
        if let Some(usage) = chunk.get("usage").filter(|usage| !usage.is_null()) {
            self.usage = Some(usage.clone());
        }
        let choice = &chunk["choices"][0];
        if let Some(reason) = choice["finish_reason"].as_str() {
            self.finish_reason = Some(reason.to_owned());
        }
        let piece = choice["delta"]["content"].as_str().unwrap_or_default();
        self.text.push_str(piece);
        piece.to_owned()
    }
}

/// Ends an open line, so that the next output begins on a new line.
fn end_line(answer: &mut ChatAnswer, printer: &Printer) {
    if std::mem::take(&mut answer.open_line) {
        printer.stream("\n");
    }
}

fn failure(data: &Value) -> Option<Failure> {
    let error = data.get("error")?;
    let message = error["message"].as_str().unwrap_or("the turn failed");
    let mut failure = Failure::new(Kind::Failed, message);
    failure.hint = error["hint"].as_str().map(str::to_owned);
    Some(failure)
}

/// Returns a short line about what the agent does, or `None` if the event is not worth one.
fn activity_line(name: &str, data: &Value) -> Option<String> {
    let word = |key: &str| data[key].as_str().unwrap_or_default();
    Some(match name {
        "tool.started" => format!("· {} {}", word("tool"), word("arguments")),
        "tool.ended" if data["isError"] == true => format!("· {} failed", word("tool")),
        "turn.retrying" => format!("· asking the model again: {}", word("reason")),
        "turn.notice" => format!("· {}", word("text")),
        _ => return None,
    })
}
