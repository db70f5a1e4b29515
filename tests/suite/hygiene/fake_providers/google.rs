//! The judge for Google's generateContent API.

use serde_json::Value;

use super::{RejectionReason, is_picture, list, rule};
use crate::hygiene::generator;
use flock::agent::transcript::hygiene::Target;
use flock::agent::transcript::hygiene::policy::PolicyRow;
use flock::provider::google::signature::PLACEHOLDER_SIGNATURE;

const MAX_PICTURE_BYTES: usize = 20 * 1024 * 1024;

pub(super) fn judge(target: &Target, row: PolicyRow, body: &Value) -> Result<(), RejectionReason> {
    // Gemini CLI's API wraps the request.
    let body = if body["request"].is_object() { &body["request"] } else { body };
    let contents = list(body, "contents");
    rule!(
        contents.first().is_some_and(|turn| turn["role"] != "model"),
        "Please ensure that the first turn is a user turn"
    );
    let count =
        |turn: &Value, field: &str| list(turn, "parts").iter().filter(|part| part[field].is_object()).count();
    for (at, turn) in contents.iter().enumerate() {
        let parts = list(turn, "parts");
        // https://ai.google.dev/api/caching#Content
        rule!(!parts.is_empty(), "contents[{at}].parts must not be empty");
        for part in parts {
            signature(target, at, part)?;
            let inline = &part["inlineData"];
            if inline.is_object() {
                let (kind, data) = (inline["mimeType"].as_str(), inline["data"].as_str());
                let fits = is_picture(kind.unwrap_or_default(), data.unwrap_or_default(), MAX_PICTURE_BYTES);
                rule!(fits, "contents[{at}]: Unable to process input image");
            }
        }
        let calls = count(turn, "functionCall");
        if calls > 0 {
            // https://manifest.build/errors/gemini/400-missing-thought-signature/ quotes the rule
            rule!(
                at > 0 && contents[at - 1]["role"] != "model",
                "function call turn comes immediately after a user turn or after a function response turn"
            );
            let answers = contents.get(at + 1).map_or(0, |next| count(next, "functionResponse"));
            rule!(
                answers == calls,
                "the number of function response parts is equal to the number of function call parts: {answers} of {calls}"
            );
            let first = parts.iter().find(|part| part["functionCall"].is_object());
            let is_signed = first.is_some_and(|part| part["thoughtSignature"].is_string());
            // semantic-kernel #13417, goose #5792
            let wants = target.route.model().starts_with("gemini-3") && row != PolicyRow::AntigravityClaude;
            rule!(!wants || is_signed, "Function call is missing a thought_signature in functionCall parts");
        }
        let answers = count(turn, "functionResponse");
        let asked = if at > 0 { count(&contents[at - 1], "functionCall") } else { 0 };
        rule!(
            answers == 0 || asked == answers,
            "a function response turn comes immediately after a function call turn"
        );
    }
    Ok(())
}

fn signature(target: &Target, at: usize, part: &Value) -> Result<(), RejectionReason> {
    let Some(signature) = part["thoughtSignature"].as_str() else { return Ok(()) };
    // https://ai.google.dev/gemini-api/docs/thought-signatures
    let own = signature == generator::signature(&target.route) || signature == PLACEHOLDER_SIGNATURE;
    rule!(own, "contents[{at}]: thought_signature is not valid Base64, or not this model's");
    Ok(())
}
