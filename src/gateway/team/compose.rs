//! The words in which a turn is told what is new. Pure.

use crate::store::{Batch, Item, ItemKind};
use crate::swarm::notice;

/// The notification of a channel's messages.
#[must_use]
pub fn batch(batch: &Batch, budget: usize) -> String {
    let messages: Vec<notice::Line<'_>> = batch
        .messages
        .iter()
        .map(|given| notice::Line {
            seq: given.seq,
            author: &given.author,
            size: given.size,
            text: given.content.as_deref(),
        })
        .collect();
    notice::render(&notice::Notice {
        channel: batch.channel.id.as_str(),
        topic: &batch.channel.topic,
        lines: &messages,
        more: batch.more,
        budget,
    })
}

/// What waited for a session: the text of the input, and what is to be known beside it.
#[must_use]
pub fn item(item: &Item) -> (String, Option<String>) {
    let task = item.task.as_deref().unwrap_or("none");
    match item.kind {
        ItemKind::Session => {
            (item.text.clone(), Some(format!("The message comes from your own session {}.", item.sender)))
        }
        ItemKind::Dm => (
            format!("[Direct message from {}, task {task}]\n{}", item.sender, notice::quoted(&item.text)),
            Some("Your final text is the answer; only its sender gets it.".to_owned()),
        ),
        ItemKind::Answer => (
            format!("[Answer from {} to your task {task}]\n{}", item.sender, notice::quoted(&item.text)),
            Some("Nobody gets your final text; post or send what somebody should know.".to_owned()),
        ),
        ItemKind::Result => {
            (format!("[Outcome of your request {task}]\n{}", notice::quoted(&item.text)), None)
        }
        ItemKind::Notice => (format!("[flock]\n{}", notice::quoted(&item.text)), None),
        ItemKind::Resume => (
            format!(
                "[flock] Your last turn here was broken off: {}. What it was given is above. A tool call without a \
                 result may or may not have been done: look before you do it again. Go on.",
                item.text
            ),
            None,
        ),
    }
}
