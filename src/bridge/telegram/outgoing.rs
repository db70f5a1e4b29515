//! Sends and changes messages.

use std::sync::PoisonError;

use serde_json::{Value, json};

use super::Telegram;
use super::client::Failure;
use super::markup;
use super::multipart::Form;
use super::place::Place;
use crate::bridge::message::{Button, IncomingMessage, OutgoingFile, OutgoingMessage};
use crate::bridge::platform::PlatformError;

/// Largest number of messages that are remembered as sent in part.
const MAX_STARTED: usize = 1000;

/// A message of which a part was sent. A message with files is several ones in Telegram, and an attempt after a failure
/// goes on where the last one ended.
#[derive(Default)]
pub(super) struct Started {
    /// The id of the first one.
    first: Option<String>,
    /// Number of files that were sent.
    files: usize,
}

impl Telegram {
    /// Sends a message and then its files. A single file has the text below it if it is short enough.
    pub(super) async fn send_parts(&self, message: &OutgoingMessage<'_>) -> Result<String, PlatformError> {
        let place = self.place(message.external)?;
        let mut started = {
            let mut kept = self.started.lock().unwrap_or_else(PoisonError::into_inner);
            kept.remove(message.key).unwrap_or_default()
        };
        let sent = self.send_rest(place, message, &mut started).await;
        if let Err(
            PlatformError::RateLimited(_) | PlatformError::Unavailable(_) | PlatformError::Unauthorized(_),
        ) = &sent
            && started.first.is_some()
        {
            let mut kept = self.started.lock().unwrap_or_else(PoisonError::into_inner);
            if kept.len() >= MAX_STARTED {
                kept.clear();
            }
            kept.insert(message.key.to_owned(), started);
        }
        sent
    }

    async fn send_rest(
        &self,
        place: Place,
        message: &OutgoingMessage<'_>,
        started: &mut Started,
    ) -> Result<String, PlatformError> {
        let failed = |failure| self.failed(place, failure);
        let html = markup::html(message.author, message.markdown, message.mentions);
        let is_blank = markup::is_blank(&html);
        let mut head = head(place, message.reply_to);
        if let Some(keyboard) = keyboard(message.buttons) {
            head["reply_markup"] = keyboard;
        }
        if let [file] = message.files
            && !file.content.is_empty()
            && markup::fits(&html, markup::MAX_CAPTION)
        {
            if !is_blank {
                head["caption"] = json!(html);
                head["parse_mode"] = json!("HTML");
            }
            return self.send_file(place, &head, file).await.map_err(failed);
        }
        if started.first.is_none() && (!is_blank || message.files.is_empty()) {
            started.first = Some(self.send_text(place, head, &html).await.map_err(failed)?);
        }
        for file in &message.files[started.files.min(message.files.len())..] {
            let head = self::head(place, None);
            let sent = if file.content.is_empty() {
                // Telegram takes no empty file.
                let text = markup::html("", &format!("`{}` is empty.", file.name.replace('`', "'")), &[]);
                self.send_text(place, head, &text).await
            } else {
                self.send_file(place, &head, file).await
            };
            let id = sent.map_err(failed)?;
            started.first.get_or_insert(id);
            started.files += 1;
        }
        started.first.clone().ok_or_else(|| PlatformError::Refused("the message is empty".to_owned()))
    }

    async fn send_text(&self, place: Place, mut head: Value, html: &str) -> Result<String, Failure> {
        text(&mut head, html);
        let sent = self.client.call("sendMessage", &head).await?;
        id_of(place, &sent)
    }

    async fn send_file(&self, place: Place, head: &Value, file: &OutgoingFile) -> Result<String, Failure> {
        let mut form = Form::new();
        for (name, value) in head.as_object().into_iter().flatten() {
            match value {
                Value::String(text) => form.text(name, text),
                other => form.text(name, &other.to_string()),
            }
        }
        form.file("document", &file.name, &file.content);
        let (kind, body) = form.finish();
        let sent = self.client.upload("sendDocument", &kind, body).await?;
        id_of(place, &sent)
    }

    /// Replaces the text of a message, which may stand below a file. Its buttons go, because none are named.
    pub(super) async fn replace(
        &self,
        message: &str,
        new: &OutgoingMessage<'_>,
    ) -> Result<(), PlatformError> {
        const SAME: &str = "message is not modified";
        let place = self.place(new.external)?;
        let number = Self::number(place, message)?;
        let html = markup::html(new.author, new.markdown, new.mentions);
        let mut parameters = json!({"chat_id": place.chat, "message_id": number});
        text(&mut parameters, &html);
        match self.client.call("editMessageText", &parameters).await {
            Err(failure) if failure.says("there is no text in the message") => {
                let parameters = json!({
                    "chat_id": place.chat, "message_id": number, "caption": html, "parse_mode": "HTML",
                });
                self.settle(place, "editMessageCaption", &parameters, SAME).await
            }
            Err(failure) if !failure.says(SAME) => Err(self.failed(place, failure)),
            _ => Ok(()),
        }
    }

    /// Answers in the private chat with the sender, or as a reply where the sender never wrote to the bot in private.
    pub(super) async fn answer(&self, to: &IncomingMessage, markdown: &str) -> Result<(), PlatformError> {
        let html = markup::html("", markdown, &[]);
        let place = self.place(&to.external)?;
        if !to.is_direct
            && !to.sender.is_bot
            && let Ok(private) = Place::parse(&to.sender.account)
        {
            match self.send_text(private, head(private, None), &html).await {
                Err(failure) if failure.says("") => {}
                sent => return sent.map(drop).map_err(|failure| self.failed(private, failure)),
            }
        }
        let head = head(place, Some(&to.id));
        self.send_text(place, head, &html).await.map(drop).map_err(|failure| self.failed(place, failure))
    }
}

/// Returns the parameters that say where a message goes.
fn head(place: Place, reply_to: Option<&str>) -> Value {
    let mut head = json!({"chat_id": place.chat});
    if let Some(topic) = place.topic {
        head["message_thread_id"] = json!(topic);
    }
    if let Some(answered) = reply_to.and_then(|id| place.message_number(id)) {
        // The answered message may have been deleted, which bots do not learn.
        head["reply_parameters"] = json!({"message_id": answered, "allow_sending_without_reply": true});
    }
    head
}

fn text(parameters: &mut Value, html: &str) {
    parameters["text"] = json!(html);
    parameters["parse_mode"] = json!("HTML");
    // For a preview, Telegram would fetch an address that an agent wrote: that tells its owner what the agent knows.
    parameters["link_preview_options"] = json!({"is_disabled": true});
}

fn keyboard(buttons: &[Button]) -> Option<Value> {
    let row: Vec<Value> = buttons
        .iter()
        .map(|button| {
            let style = if button.is_positive { "success" } else { "danger" };
            json!({"text": button.label, "callback_data": button.id, "style": style})
        })
        .collect();
    (!row.is_empty()).then(|| json!({"inline_keyboard": [row]}))
}

fn id_of(place: Place, sent: &Value) -> Result<String, Failure> {
    let number = sent["message_id"].as_i64().filter(|&number| number > 0);
    // It was sent, so an error would have it sent again. A message with this id is never found.
    Ok(place.message_id(number.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_goes_to_its_topic_and_names_what_it_answers() {
        let place = Place::new(-1_001_234_567_890, Some(4));
        let wanted = json!({"chat_id": -1_001_234_567_890_i64, "message_thread_id": 4,
            "reply_parameters": {"message_id": 9, "allow_sending_without_reply": true}});
        assert_eq!(head(place, Some("9")), wanted);
        let general = head(Place::new(-1_001_234_567_890, Some(1)), Some("g9"));
        assert_eq!(general, json!({"chat_id": -1_001_234_567_890_i64}));
    }

    #[test]
    fn buttons_stand_in_one_row() {
        let button =
            |id: &str, is_positive| Button { id: id.to_owned(), label: id.to_uppercase(), is_positive };
        let wanted = json!({"inline_keyboard": [[
            {"text": "A", "callback_data": "a", "style": "success"},
            {"text": "B", "callback_data": "b", "style": "danger"},
        ]]});
        assert_eq!(keyboard(&[button("a", true), button("b", false)]), Some(wanted));
        assert_eq!(keyboard(&[]), None);
    }
}
