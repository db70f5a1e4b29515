//! The state of this API's items that a conversation keeps, and its place in the blocks: a call's two ids are joined
//! into one, a message's id and phase become the signature of its text, and a reasoning item becomes the signature of
//! its thinking.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::super::call::{self, IdStyle};

/// Joins the two ids of a call into its id in a conversation: the id that its result refers to, and the id of its item.
pub(super) fn joined_id(call: &str, item: &str) -> String {
    match (call, item) {
        (call, "") => call.to_owned(),
        ("", item) => item.to_owned(),
        (call, item) => format!("{call}|{item}"),
    }
}

/// Splits a call's id into the part that its result refers to, and the item's id if this API issued one.
pub(super) fn split_id(id: &str) -> (Cow<'_, str>, Option<&str>) {
    let (own, item) = match id.split_once('|') {
        Some((own, item)) if !own.is_empty() && !item.is_empty() => (own, Some(item)),
        _ => (id, None),
    };
    let own = match call::wire_id(own, IdStyle::Plain) {
        Cow::Borrowed(own) => Cow::Borrowed(own),
        // The first part was rewritten. Two calls may differ in their second part alone, so the whole id is hashed.
        Cow::Owned(_) => call::wire_id(id, IdStyle::Plain),
    };
    // An id of another form comes from another provider and is not sent as an item's id.
    (own, item.filter(|item| has_id_form(item, "fc_")))
}

/// The content of a text's signature: the message that the text came from.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct MessageSignature<'a> {
    v: u8,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub id: Option<Cow<'a, str>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Cow<'a, str>>,
}

impl<'a> MessageSignature<'a> {
    /// Returns the signature for a message, or `None` if there is nothing to keep.
    pub(super) fn write(id: &'a str, phase: Option<&'a str>) -> Option<String> {
        let id = Some(id).filter(|id| !id.is_empty()).map(Cow::Borrowed);
        if id.is_none() && phase.is_none() {
            return None;
        }
        serde_json::to_string(&Self { v: 1, id, phase: phase.map(Cow::Borrowed) }).ok()
    }

    /// Reads a signature. A signature of another API gives empty fields.
    pub(super) fn read(signature: Option<&'a str>) -> Self {
        let none = Self::default();
        let Some(signature) = signature else { return none };
        let said = if signature.starts_with('{') {
            serde_json::from_str(signature).ok().filter(|said: &Self| said.v == 1).unwrap_or(none)
        // An older form of the signature is the plain id.
        } else {
            Self { id: Some(Cow::Borrowed(signature)), ..none }
        };
        Self {
            id: said.id.filter(|id| has_id_form(id, "msg_")),
            phase: said.phase.filter(|phase| matches!(&**phase, "commentary" | "final_answer")),
            ..said
        }
    }
}

/// Returns the signature of a text without the id, for use if the item that it names no longer exists. Only the phase
/// remains: commentary or final answer.
#[must_use]
pub(crate) fn strip_item_id(signature: &str) -> Option<String> {
    MessageSignature::write("", MessageSignature::read(Some(signature)).phase.as_deref())
}

fn has_id_form(id: &str, prefix: &str) -> bool {
    id.starts_with(prefix) && matches!(call::wire_id(id, IdStyle::Plain), Cow::Borrowed(_))
}

/// Returns a reasoning item in the form in which it is kept: complete, but without null fields.
pub(super) fn keep(mut item: Value) -> Option<String> {
    let entries = item.as_object_mut()?;
    // The API refuses null fields when they are sent back.
    entries.retain(|_, value| !value.is_null());
    serde_json::to_string(&item).ok()
}

/// A reasoning item in a request.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum ReasoningItem<'a> {
    Kept(&'a RawValue),
    Nameless(Map<String, Value>),
}

impl<'a> ReasoningItem<'a> {
    /// Reads the item from a thinking block's signature, without its id unless `ids` is set. Returns `None` for a
    /// signature of another API.
    pub(super) fn read(signature: &'a str, ids: bool) -> Option<Self> {
        #[derive(Deserialize)]
        struct Kind<'a> {
            #[serde(rename = "type", borrow)]
            kind: Cow<'a, str>,
        }
        if !signature.starts_with('{') {
            return None;
        }
        let kind = serde_json::from_str::<Kind<'_>>(signature).ok()?.kind;
        if kind != "reasoning" && !kind.starts_with("reasoning.") {
            return None;
        }
        if ids {
            return serde_json::from_str(signature).ok().map(Self::Kept);
        }
        let mut item: Map<String, Value> = serde_json::from_str(signature).ok()?;
        // `shift_remove` keeps the order of the other fields.
        item.shift_remove("id");
        Some(Self::Nameless(item))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn two_ids_are_joined_and_split_again() {
        let id = joined_id("call_1", "fc_1");
        assert_eq!(id, "call_1|fc_1");
        assert_eq!(split_id(&id), (Cow::Borrowed("call_1"), Some("fc_1")));
        assert_eq!(split_id("toolu_1"), (Cow::Borrowed("toolu_1"), None));
        assert_eq!(split_id("call_1|item"), (Cow::Borrowed("call_1"), None));
        let (a, _) = split_id("functions.exec:0|fc_a");
        let (b, _) = split_id("functions.exec:0|fc_b");
        assert!(a != b && a.len() <= 64);
        for odd in ["|", "a|", "|b", ""] {
            assert!(!split_id(odd).0.is_empty(), "{odd}");
        }
    }

    #[test]
    fn a_text_keeps_its_id_and_phase() {
        let signature = MessageSignature::write("msg_1", Some("final_answer")).unwrap();
        let said = MessageSignature::read(Some(&signature));
        assert_eq!((said.id.as_deref(), said.phase.as_deref()), (Some("msg_1"), Some("final_answer")));
        assert_eq!(MessageSignature::read(Some("msg_2")).id.as_deref(), Some("msg_2"));
        for foreign in ["c2lnbmVk", "{\"v\":2,\"id\":\"msg_1\"}", "{", "{\"v\":1,\"id\":\"rs_1\"}"] {
            assert_eq!(MessageSignature::read(Some(foreign)).id, None, "{foreign}");
        }
        assert_eq!(MessageSignature::write("", None), None);
        let alone = strip_item_id(&signature).unwrap();
        assert_eq!(
            MessageSignature::read(Some(&alone)),
            MessageSignature { id: None, ..MessageSignature::read(Some(&signature)) }
        );
        assert_eq!(strip_item_id(&alone), Some(alone.clone()));
        for without in ["msg_1", "c2lnbmVk", "{\"v\":1,\"phase\":\"other\"}"] {
            assert_eq!(strip_item_id(without), None, "{without}");
        }
    }

    #[test]
    fn a_reasoning_item_survives_a_round_trip() {
        let item = json!({"id": "rs_1", "type": "reasoning", "summary": [], "content": null,
            "encrypted_content": "gAAA"});
        let kept = keep(item).unwrap();
        assert_eq!(kept, r#"{"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":"gAAA"}"#);
        let text = |ids| serde_json::to_string(&ReasoningItem::read(&kept, ids).unwrap()).unwrap();
        assert_eq!(text(true), kept);
        assert_eq!(text(false), r#"{"type":"reasoning","summary":[],"encrypted_content":"gAAA"}"#);
        for foreign in ["c2lnbmVk", "{\"type\":\"message\"}", "{", "[1]"] {
            assert!(ReasoningItem::read(foreign, true).is_none(), "{foreign}");
        }
    }
}
