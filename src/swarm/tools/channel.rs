//! The channel tools: post, read, list, create, assign members, and archive.

use std::sync::Arc;

use crate::agent::prompt::without_marks;
use crate::id::{AgentId, ChannelId, Party};
use crate::store::{Channel, ChannelState, Page, Post};
use crate::swarm::archive::{ArchiveAction, ArchiveProgress};
use crate::swarm::channel::{ChannelSpec, PostReceipt};
use crate::swarm::{Actor, Swarm, notice};
use crate::tool::arguments::Arguments;
use crate::tool::function::FunctionTool;
use crate::tool::{CallContext, Tool, ToolError, ToolResult, safe_text, team};

/// Number of messages that a read returns by default, and the maximum.
const DEFAULT_LIMIT: u32 = 20;
const MAX_LIMIT: u32 = 100;
/// Maximum number of bytes that one read shows.
const MAX_READ: usize = 48 << 10;

/// Returns the tools of this module.
#[must_use]
pub(crate) fn all(swarm: &Arc<Swarm>) -> Vec<Arc<dyn Tool>> {
    vec![
        FunctionTool::shared(&team::CHANNEL_POST, swarm, |s, c, a| Box::pin(post(s, c, a))),
        FunctionTool::shared(&team::CHANNEL_READ, swarm, |s, c, a| {
            Box::pin(async move { read(s, c, &a).await })
        }),
        FunctionTool::shared(&team::CHANNEL_LIST, swarm, |s, c, a| {
            Box::pin(async move { list(s, c, &a).await })
        }),
        FunctionTool::shared(&team::ARCHIVE_READY, swarm, |s, c, a| Box::pin(ready(s, c, a))),
        FunctionTool::shared(&team::CHANNEL_CREATE, swarm, |s, c, a| Box::pin(create(s, c, a))),
        FunctionTool::shared(&team::ASSIGN_MEMBERS, swarm, |s, c, a| Box::pin(assign(s, c, a))),
        FunctionTool::shared(&team::CHANNEL_ARCHIVE, swarm, |s, c, a| Box::pin(archive(s, c, a))),
    ]
}

fn id(arguments: &Arguments) -> Result<ChannelId, ToolError> {
    let text: String = arguments.required("channelId")?;
    let text = text.trim();
    // Models often include the `#` that marks a channel in texts.
    Ok(text.strip_prefix('#').unwrap_or(text).parse()?)
}

fn parties(arguments: &Arguments, name: &str) -> Result<Vec<Party>, ToolError> {
    let names: Vec<String> = arguments.optional(name)?.unwrap_or_default();
    let party = |name: &String| {
        let name = name.trim();
        name.strip_prefix('@').unwrap_or(name).parse()
    };
    Ok(names.iter().map(party).collect::<Result<_, _>>()?)
}

async fn post(swarm: &Arc<Swarm>, context: &CallContext, arguments: Arguments) -> ToolResult {
    let id = id(&arguments)?;
    let message: String = arguments.required("message")?;
    let notify = arguments.optional("notify")?.unwrap_or(true);
    let by = Actor::call(context);
    let text = message.clone();
    let PostReceipt { seq, is_new, .. } = swarm.post(&by, &id, message, notify).await?;
    if !is_new {
        // Models sometimes post the same text twice. The answer says why nothing was added.
        return Ok(format!(
            "not posted again: the last message of #{id}, seq {seq}, is yours and says the same"
        ));
    }
    // The notes tell the model about mentions that reach nobody, while it can still correct them.
    let notes = if notify { swarm.unheard(&by.party, &id, &text).await? } else { Vec::new() };
    let notes: String = notes.iter().map(|note| format!("\n{note}")).collect();
    Ok(format!("posted to #{id} as seq {seq}{notes}"))
}

async fn read(swarm: &Arc<Swarm>, context: &CallContext, arguments: &Arguments) -> ToolResult {
    let id = id(arguments)?;
    let reader = Actor::call(context).party;
    let limit = arguments.limit(DEFAULT_LIMIT, MAX_LIMIT)?;
    if let Some(query) = arguments.optional::<String>("query")? {
        let (channel, found) = swarm.search(&reader, &id, &query, limit).await?;
        return Ok(shown(&channel, &found, 0));
    }
    let offset: Option<u64> = arguments.optional("offset")?;
    // An offset applies to one message, so only that one is read.
    let limit = if offset.is_some() { 1 } else { limit };
    let page = match (arguments.optional("after")?, arguments.optional("before")?) {
        (Some(_), Some(_)) => return Err(ToolError::model("give `after` or `before`, not both")),
        (Some(after), None) => Page::After(after),
        (None, Some(before)) => Page::Before(before),
        (None, None) => Page::Last,
    };
    let (channel, messages) = swarm.read(&reader, &id, page, limit).await?;
    let offset = usize::try_from(offset.unwrap_or(0)).unwrap_or(usize::MAX);
    if let (1.., Some(post)) = (offset, messages.first())
        && offset >= post.content.len()
    {
        let (seq, size) = (post.seq, post.content.len());
        return Err(ToolError::model(format!("message {seq} has only {size} bytes")));
    }
    Ok(shown(&channel, &messages, offset))
}

/// Renders the channel's header and the messages, the first from `offset` on. If some do not fit, the text says how to
/// get them.
fn shown(channel: &Channel, messages: &[Post], offset: usize) -> String {
    let members: Vec<String> = channel.members.iter().map(|member| member.party.to_string()).collect();
    let mut text = format!(
        "#{} ({}), {} messages; members: {}\nTopic:\n{}",
        channel.id,
        channel.state.as_str(),
        channel.last_seq,
        members.join(", "),
        // The topic was written by whoever created the channel, so it is quoted like a message.
        notice::quoted(&without_marks(&channel.topic)),
    );
    let mut room = MAX_READ;
    let mut last = None;
    for post in messages {
        let is_whole = offset == 0 && post.content.len() <= MAX_READ;
        // Marks that flock itself uses in prompts are removed from what others wrote.
        let whole = is_whole.then(|| notice::line(post.seq, &post.author, &without_marks(&post.content)));
        let line = whole.filter(|line| line.len() <= MAX_READ).unwrap_or_else(|| render_part(post, offset));
        // At least one message is always shown, so that reading on makes progress.
        if let (Some(last), true) = (last, line.len() > room) {
            return format!("{text}\nmore follow: continue with after {last}");
        }
        room = room.saturating_sub(line.len());
        last = Some(post.seq);
        text.push('\n');
        text.push_str(&line);
    }
    if messages.is_empty() {
        text.push_str("\nno such messages");
    }
    text
}

/// Renders a part of a long message from `offset` on, and says where the next part begins.
fn render_part(post: &Post, offset: usize) -> String {
    let text = &post.content;
    // A model may give any number, also one in the middle of a character.
    let from = text.floor_char_boundary(offset);
    // Leave room for the text around the part.
    let mut size = MAX_READ - 512;
    loop {
        let piece = safe_text::start(&text[from..], size);
        let line = notice::line(post.seq, &post.author, &without_marks(piece));
        // Escaping can make a text many times longer. Even then a few bytes always fit.
        if line.len() > MAX_READ - 256 && size > 64 {
            size /= 2;
            continue;
        }
        let (to, all, after) = (from + piece.len(), text.len(), post.seq.saturating_sub(1));
        let next =
            if to == all { String::new() } else { format!("; next: after: {after}, limit: 1, offset: {to}") };
        return format!("{line}\n(bytes {from} to {to} of {all}{next})");
    }
}

async fn list(swarm: &Arc<Swarm>, context: &CallContext, arguments: &Arguments) -> ToolResult {
    let member: Option<String> = arguments.optional("member")?;
    let member = member.map(|name| name.trim().parse::<Party>()).transpose()?;
    let archived: Option<bool> = arguments.optional("archived")?;
    let found = swarm.readable_channels(&Actor::call(context).party, member.as_ref()).await?;
    let is_wanted = |channel: &&Channel| {
        archived.is_none_or(|archived| archived == (channel.state == ChannelState::Archived))
    };
    let lines: Vec<String> = found
        .iter()
        .filter(is_wanted)
        .map(|channel| {
            format!(
                "#{} ({}): {} members, {} messages: {}",
                channel.id,
                channel.state.as_str(),
                channel.members.len(),
                channel.last_seq,
                notice::one_line(&without_marks(safe_text::start(&channel.topic, 80))),
            )
        })
        .collect();
    Ok(if lines.is_empty() { "no channels".to_owned() } else { lines.join("\n") })
}

async fn create(swarm: &Arc<Swarm>, context: &CallContext, arguments: Arguments) -> ToolResult {
    let wanted = ChannelSpec {
        id: id(&arguments)?,
        topic: arguments.required("topic")?,
        members: parties(&arguments, "members")?,
        message: arguments.optional("message")?,
    };
    let channel = swarm.create_channel(&Actor::call(context), wanted).await?;
    let members: Vec<String> = channel.members.iter().map(|member| member.party.to_string()).collect();
    Ok(format!("created #{}; members: {}", channel.id, members.join(", ")))
}

async fn assign(swarm: &Arc<Swarm>, context: &CallContext, arguments: Arguments) -> ToolResult {
    let id = id(&arguments)?;
    let (add, remove) = (parties(&arguments, "add")?, parties(&arguments, "remove")?);
    let (joined, left) = swarm.assign_members(&Actor::call(context), &id, &add, &remove).await?;
    let names = |parties: &[Party]| match parties {
        [] => "nobody".to_owned(),
        some => some.iter().map(Party::to_string).collect::<Vec<_>>().join(", "),
    };
    Ok(format!("#{id}: joined: {}; left: {}", names(&joined), names(&left)))
}

async fn archive(swarm: &Arc<Swarm>, context: &CallContext, arguments: Arguments) -> ToolResult {
    let id = id(&arguments)?;
    let action: Option<String> = arguments.optional("action")?;
    let what = match (action.as_deref(), arguments.optional("force")?) {
        // `force: true` without an action means the same as `action: force`.
        (Some("force"), _) | (None, Some(true)) => ArchiveAction::Force,
        (None | Some("begin"), _) => ArchiveAction::Begin,
        (Some("cancel"), _) => ArchiveAction::Cancel,
        (Some("reopen"), _) => ArchiveAction::Reopen,
        (Some(_), _) => {
            return Err(ToolError::model("`action`: begin, force, cancel or reopen"));
        }
    };
    Ok(describe_progress(&id, &swarm.archive(&Actor::call(context), &id, what).await?))
}

async fn ready(swarm: &Arc<Swarm>, context: &CallContext, arguments: Arguments) -> ToolResult {
    let id = id(&arguments)?;
    let stand = swarm.mark_archive_ready(&Actor::call(context), &context.agent, &id).await?;
    Ok(describe_progress(&id, &stand))
}

fn describe_progress(id: &ChannelId, stand: &ArchiveProgress) -> String {
    let names = |agents: &[AgentId]| agents.iter().map(AgentId::as_str).collect::<Vec<_>>().join(", ");
    match stand.state {
        ChannelState::Active => format!("#{id} is active"),
        ChannelState::Archived => format!("#{id} is archived"),
        ChannelState::Archiving => format!(
            "#{id} is being archived: {} of {} ready, waiting for {}",
            stand.ready.len(),
            stand.ready.len() + stand.waiting.len(),
            names(&stand.waiting)
        ),
    }
}

#[cfg(test)]
#[path = "channel_tests.rs"]
mod tests;
