//! Checks hygiene's promises on the messages before they are encoded. Encoders repair some faults themselves and would
//! hide that hygiene missed them.

use std::collections::HashSet;

use super::{RejectionReason, is_blank_block, is_picture, is_plain, rule};
use flock::agent::Provenance;
use flock::agent::transcript::hygiene::Target;
use flock::agent::transcript::hygiene::policy::{HygienePolicy, IdFormat, PolicyRow};
use flock::agent::transcript::{Entry, EntryKind};
use flock::provider::{Block, Role, StopReason};

/// `stored` is the conversation before hygiene.
pub(super) fn judge(stored: &[Entry], ready: &[Entry], target: &Target) -> Result<(), RejectionReason> {
    let policy = HygienePolicy::of(target);
    for (at, entry) in ready.iter().enumerate() {
        check_blocks(at, entry)?;
        check_ending(at, entry)?;
        if policy.ids == IdFormat::Pairs {
            check_items(at, entry)?;
        }
    }
    check_thinking(ready, target, &policy)?;
    if policy.signs_thinking() {
        check_signatures(stored, ready)?;
    }
    check_senders(stored, ready)
}

fn check_blocks(at: usize, entry: &Entry) -> Result<(), RejectionReason> {
    for block in &entry.message.content {
        match block {
            Block::ToolCall { id, name, arguments, .. } => {
                rule!(!id.trim().is_empty(), "{at}: a call has no id");
                rule!(is_plain(name, 64), "{at}: no tool is called {name:?}");
                rule!(!arguments.is_null(), "{at}: a call was cut off before its arguments");
            }
            Block::ToolResult { content, .. } => {
                rule!(!content.is_empty(), "{at}: a result is empty");
                rule!(!content.iter().any(is_blank_block), "{at}: a part of a result is blank");
                content.iter().try_for_each(|part| check_picture(at, part))?;
            }
            other => check_picture(at, other)?,
        }
    }
    Ok(())
}

fn check_picture(at: usize, block: &Block) -> Result<(), RejectionReason> {
    let Block::Image { media_type, data } = block else { return Ok(()) };
    rule!(is_picture(media_type, data, 5 << 20), "{at}: a picture is not what its media type says");
    Ok(())
}

/// Checks an answer that was not completed.
fn check_ending(at: usize, entry: &Entry) -> Result<(), RejectionReason> {
    let content = &entry.message.content;
    let is_thinking = |block: &Block| matches!(block, Block::Thinking { .. });
    let is_text = |block: &Block| matches!(block, Block::Text { .. });
    match entry.about.stop {
        Some(StopReason::Length) => {
            rule!(!content.iter().all(is_thinking), "{at}: reasoning that reached its limit is not whole");
        }
        Some(StopReason::Error | StopReason::Aborted) => {
            rule!(content.iter().all(is_text), "{at}: an answer that broke off has more than its text");
        }
        _ => {}
    }
    Ok(())
}

/// A call's item is accepted only beside the reasoning that it followed.
fn check_items(at: usize, entry: &Entry) -> Result<(), RejectionReason> {
    let mut reasoned = false;
    for block in &entry.message.content {
        reasoned |= matches!(block, Block::Thinking { .. });
        if let Block::ToolCall { id, .. } = block {
            rule!(reasoned || !id.contains("|fc_"), "{at}: {id} names an item without its reasoning");
        }
    }
    Ok(())
}

fn thinks(entry: &Entry) -> bool {
    entry.message.content.iter().any(|block| matches!(block, Block::Thinking { .. }))
}

fn check_thinking(ready: &[Entry], target: &Target, policy: &HygienePolicy) -> Result<(), RejectionReason> {
    let model = target.route.model();
    if policy.row == PolicyRow::KimiMessages {
        // #39798
        rule!(!ready.iter().any(thinks), "Kimi's coding service refuses the thinking that it signed");
    }
    if model.contains("claude-3-7") || policy.row == PolicyRow::CopilotClaude {
        let newest = ready.iter().rposition(|entry| entry.role() == Role::Assistant).unwrap_or(0);
        rule!(!ready[..newest].iter().any(thinks), "thinking of an older answer goes to {model}");
    }
    if policy.row == PolicyRow::Compatible && !model.starts_with("kimi") && target.reasoning != Some(true) {
        // Seen with self-hosted servers: the field is unknown, or the chat template repeats it.
        let is_running = ready.last().is_some_and(|last| last.role() == Role::Tool);
        let last = ready.iter().rposition(|entry| entry.role() == Role::User).unwrap_or(0);
        let from = if is_running { last } else { ready.len() };
        rule!(!ready[..from].iter().any(thinks), "reasoning of an earlier turn goes to {model}");
    }
    Ok(())
}

/// A signature covers the answer and everything before it.
fn check_signatures(stored: &[Entry], ready: &[Entry]) -> Result<(), RejectionReason> {
    let compactions = stored.iter().filter(|entry| entry.about.kind == EntryKind::Compacted);
    let newest = compactions.map(|entry| entry.about.at).max().unwrap_or(i64::MIN);
    let calls: HashSet<&str> =
        stored.iter().flat_map(|entry| entry.message.tool_calls()).map(|call| call.id).collect();
    for (at, entry) in ready.iter().enumerate().filter(|(_, entry)| thinks(entry)) {
        rule!(entry.about.at >= newest, "{at}: Invalid signature: what came before it was compacted");
        let edited = entry.message.tool_calls().find(|call| !calls.contains(call.id));
        rule!(edited.is_none(), "{at}: thinking cannot be modified, nor the calls beside it: {edited:?}");
    }
    Ok(())
}

/// Messages of other sessions are marked, and nothing else is.
fn check_senders(stored: &[Entry], ready: &[Entry]) -> Result<(), RejectionReason> {
    const MARK: &str = "[Inter-session message] ";
    const END: &str = "[Inter-session message ends]\n";
    // The generated texts begin with a number of their own.
    let begins = |text: &str| -> Vec<String> { text.split_whitespace().take(2).map(str::to_owned).collect() };
    let mut sent: HashSet<Vec<String>> = HashSet::new();
    for entry in stored.iter().filter(|entry| entry.role() == Role::User) {
        if let (Some(Provenance::InterSession { .. }), Some(Block::Text { text, .. })) =
            (&entry.about.provenance, entry.message.content.first())
            && !text.trim().is_empty()
        {
            sent.insert(begins(text));
        }
    }
    for (at, entry) in ready.iter().enumerate().filter(|(_, entry)| entry.role() == Role::User) {
        let mut marked = false;
        for block in &entry.message.content {
            let Block::Text { text, .. } = block else { continue };
            if text.starts_with(MARK) && text.contains(" isUser=false") {
                marked = true;
                continue;
            }
            if text.starts_with(END) {
                continue;
            }
            let looks = text.to_lowercase().contains("[inter-session message");
            rule!(!looks, "{at}: a text passes for a mark: {text}");
            // The mark comes right before the text that it belongs to.
            let was_marked = std::mem::take(&mut marked);
            let fits = !text.starts_with("said ") || was_marked == sent.contains(&begins(text));
            rule!(fits, "{at}: who sent this is not said: {text}");
        }
    }
    Ok(())
}
