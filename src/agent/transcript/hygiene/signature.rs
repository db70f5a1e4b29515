//! Checks the form of signatures. Only the provider can check their validity.

use crate::provider::Block;
use crate::provider::google::signature::is_base64;

/// Returns `true` if thinking has a signature that is not blank. Redacted thinking counts as signed by its data.
pub(super) fn is_signed(block: &Block) -> bool {
    let says = |text: &Option<String>| text.as_deref().is_some_and(|text| !text.trim().is_empty());
    matches!(block, Block::Thinking { signature, redacted, .. } if says(signature) || says(redacted))
}

/// Returns `true` if thinking has a signature in Base64.
pub(super) fn is_signed_in_base64(block: &Block) -> bool {
    let fits = |text: &Option<String>| text.as_deref().is_some_and(is_base64);
    matches!(block, Block::Thinking { signature, redacted, .. } if fits(signature) || fits(redacted))
}

/// Returns `true` for an item id that the Responses API puts on a text or call.
pub(super) fn is_item_id(signature: &str) -> bool {
    let signature = signature.trim_start();
    signature.starts_with("msg_") || (signature.starts_with('{') && signature.contains("\"msg_"))
}

/// Returns `true` if thinking is a complete reasoning item of the Responses API.
pub(super) fn is_reasoning_item(block: &Block) -> bool {
    #[derive(serde::Deserialize)]
    struct Item<'a> {
        #[serde(borrow)]
        id: std::borrow::Cow<'a, str>,
        #[serde(borrow, rename = "type")]
        kind: std::borrow::Cow<'a, str>,
    }
    let Block::Thinking { signature: Some(signature), .. } = block else { return false };
    serde_json::from_str::<Item<'_>>(signature).is_ok_and(|item| {
        item.id.starts_with("rs_") && (item.kind == "reasoning" || item.kind.starts_with("reasoning."))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reasoning_item_is_an_object_of_that_type() {
        let thinking = |signature: &str| Block::Thinking {
            thinking: String::new(),
            signature: Some(signature.to_owned()),
            redacted: None,
        };
        assert!(is_reasoning_item(&thinking(r#"{"id":"rs_1","type":"reasoning","encrypted_content":"x"}"#)));
        assert!(is_reasoning_item(&thinking(r#"{"type":"reasoning.summary","id":"rs_1"}"#)));
        for other in
            [r#"{"id":"msg_1","type":"reasoning"}"#, r#"{"id":"rs_1","type":"message"}"#, "rs_1", "", "[]"]
        {
            assert!(!is_reasoning_item(&thinking(other)), "{other}");
        }
    }
}
