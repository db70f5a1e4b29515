//! One question to the gateway and its streamed answer.

use std::time::Duration;

use serde_json::{Value, json};

use crate::cli::Failure;
use crate::error::Kind;
use crate::id::SessionKey;
use crate::supervise::loopback::{Call, Client};
use crate::ui::Printer;

/// What came of a question.
#[derive(Debug, Default, PartialEq)]
pub struct Answer {
    /// The turn's id.
    pub turn: String,
    /// All text, in the order it came.
    pub text: String,
    /// OpenAI's word for why it ended.
    pub finish_reason: Option<String>,
    /// Tokens, as OpenAI counts them.
    pub usage: Option<Value>,
    /// The last line that was printed has no end yet.
    open_line: bool,
}

/// Who is asked, and how.
pub struct Question {
    /// The gateway.
    pub gateway: Client,
    /// The session that goes on.
    pub session: SessionKey,
    /// Whether a frozen agent is waited for.
    pub waits: bool,
}

/// The gateway sends a sign of life every 15 seconds: after this it is gone.
const SILENCE: Duration = Duration::from_secs(60);

/// Asks, and prints the answer as it comes, unless a program wants it whole. Dropping the future ends the
/// turn.
///
/// # Errors
///
/// In the gateway's words.
pub async fn ask(question: &Question, text: String, printer: &Printer) -> Result<Answer, Failure> {
    let Question { gateway, session, waits } = question;
    let body = json!({
        "model": session.agent(),
        "messages": [{"role": "user", "content": text}],
        "stream": true,
        "stream_options": {"include_usage": true},
    });
    let call = Call::post("/v1/chat/completions")
        .header("x-openclaw-session-key", session.as_str())
        .header("x-flock-activity", "1")
        .header("x-flock-wait", if *waits { "1" } else { "0" })
        .json(&body)?;
    let response = gateway.ask(call, SILENCE).await?;
    let turn = response.header("x-flock-turn-id").unwrap_or_default().to_owned();
    let mut answer = Answer { turn, ..Answer::default() };
    let mut events = response.events();
    let mut is_whole = false;
    while let Some(event) = events.next(SILENCE).await? {
        if event.data == "[DONE]" {
            is_whole = true;
            break;
        }
        let data: Value = serde_json::from_str(&event.data).unwrap_or_default();
        if event.name.is_empty() {
            if let Some(failure) = failure(&data) {
                end_line(&mut answer, printer);
                return Err(failure);
            }
            let piece = answer.take(&data);
            // The gap after a tool's lines is there already: they are lines of their own.
            let shown = if answer.open_line { piece.as_str() } else { piece.trim_start_matches('\n') };
            if !shown.is_empty() && !printer.json_wanted() {
                printer.stream(shown);
                answer.open_line = !shown.ends_with('\n');
            }
        } else if let Some(line) = activity(&event.name, &data) {
            end_line(&mut answer, printer);
            printer.say(line);
        }
    }
    end_line(&mut answer, printer);
    if is_whole {
        Ok(answer)
    } else {
        Err(Failure::new(Kind::Failed, "the gateway broke the answer off").hint("flock logs gateway"))
    }
}

impl Answer {
    /// Takes a chunk in; gives the text in it.
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

/// What comes next must begin on a line of its own.
fn end_line(answer: &mut Answer, printer: &Printer) {
    if std::mem::take(&mut answer.open_line) {
        printer.stream("\n");
    }
}

fn failure(data: &Value) -> Option<Failure> {
    let error = data.get("error")?;
    let message = error["message"].as_str().unwrap_or("the turn failed");
    let failure = Failure::new(Kind::Failed, message);
    Some(match error["hint"].as_str() {
        Some(hint) => failure.hint(hint),
        None => failure,
    })
}

/// A short line about what the agent does.
fn activity(name: &str, data: &Value) -> Option<String> {
    let word = |key: &str| data[key].as_str().unwrap_or_default();
    Some(match name {
        "tool.started" => format!("· {} {}", word("tool"), word("arguments")),
        "tool.ended" if data["isError"] == true => format!("· {} failed", word("tool")),
        "turn.retrying" => format!("· asking the model again: {}", word("reason")),
        "turn.notice" => format!("· {}", word("text")),
        _ => return None,
    })
}
