//! Batches: several messages in one request, which version 2025-03-26 of the protocol alone has.

use futures_util::{StreamExt as _, stream};
use serde_json::Value;

use super::error::{self, McpError};
use super::reply::Reply;
use super::session::Asker;
use super::{BATCH_VERSION, exchange};

/// Most messages of a batch.
pub(super) const MAX_BATCH: usize = 50;

/// Most messages of a batch that are processed at the same time.
const MAX_CONCURRENT: usize = 8;

/// Most bytes of the answers of a batch together.
const MAX_ANSWERS: usize = 16 << 20;

/// Answers a batch: with the answers of its requests in their order, or with none if it has no requests. Dropping the
/// future cancels the calls that it waits for.
pub(super) async fn answer(asker: &Asker, messages: Vec<Value>) -> Reply {
    if asker.version != BATCH_VERSION {
        let text =
            format!("several messages at once are taken only in version {BATCH_VERSION} of the protocol");
        return Reply::wrong(error::INVALID_REQUEST, text);
    }
    if messages.is_empty() {
        return Reply::wrong(error::INVALID_REQUEST, "there is no message in this batch");
    }
    if messages.len() > MAX_BATCH {
        return Reply::wrong(error::INVALID_REQUEST, format!("a batch has at most {MAX_BATCH} messages"));
    }
    let each = stream::iter(messages).map(|message| {
        let asker = asker.clone();
        async move {
            if message["method"] == "initialize" {
                // Nothing can be asked before it is answered, so it has no place beside other messages.
                let alone = McpError::new(error::INVALID_REQUEST, "initialize can't be in a batch");
                return Some(alone.response(message.get("id").unwrap_or(&Value::Null)));
            }
            exchange(&asker, Some(message), None).await.body
        }
    });
    let answers: Vec<Value> = each.buffered(MAX_CONCURRENT).filter_map(async |answer| answer).collect().await;
    if answers.is_empty() {
        return Reply::accepted();
    }
    Reply::message(Value::Array(bounded(answers, MAX_ANSWERS)))
}

/// Replaces the answers for which there is no room by errors.
fn bounded(answers: Vec<Value>, most: usize) -> Vec<Value> {
    let mut left = most;
    let fit = |answer: Value| {
        let size = answer.to_string().len();
        if size <= left {
            left -= size;
            return answer;
        }
        let text =
            "done, but the answers of this batch are too long together: ask alone for what is left out";
        McpError::internal(text).response(answer.get("id").unwrap_or(&Value::Null))
    };
    answers.into_iter().map(fit).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn answers_that_are_too_long_together_are_left_out_one_by_one() {
        let answer = |id: u64, size: usize| json!({"jsonrpc": "2.0", "id": id, "result": "x".repeat(size)});
        let kept = bounded(vec![answer(1, 400), answer(2, 1_000), answer(3, 400)], 1_000);
        let shown: Vec<(&Value, bool)> =
            kept.iter().map(|kept| (&kept["id"], kept["error"].is_null())).collect();
        assert_eq!(shown, [(&json!(1), true), (&json!(2), false), (&json!(3), true)]);
    }
}
