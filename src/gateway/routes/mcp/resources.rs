//! Channels, findings and the files of vaults as resources: lists of their addresses, and their texts.

use serde_json::{Value, json};

use super::error::McpError;
use super::paging::{self, PAGE};
use super::uri::{self, Place, ResourceUri, UriError};
use super::{Request, listing, text};
use crate::agent::prompt::without_marks;
use crate::clean;
use crate::config::Agent;
use crate::gateway::relay::Ticket;
use crate::gateway::state::Gateway;
use crate::home::Home;
use crate::home::beneath::DirEntry;
use crate::provider::Block;
use crate::provider::message::joined_text;
use crate::sandbox::workspace_files::Workspaces;
use crate::store::Channel;
use crate::swarm::vault::shown;

/// Most characters of a channel's topic in a list.
const MAX_TOPIC: usize = 200;

/// Answers `resources/list`.
pub(super) async fn list(gateway: &Gateway, ticket: &Ticket, params: &Value) -> Result<Value, McpError> {
    let after = paging::after(params, |text| Some(ResourceUri::parse(text).ok()?.place))?;
    let agent = super::agent(gateway, ticket)?;
    let is_next = |place: &Place| after.as_ref().is_none_or(|after| place > after);
    let channels = listing::channels(gateway, &agent).await?;
    let channels = channels.iter().map(|channel| (Place::Channel(channel.id.clone()), channel));
    let channels = channels.filter(|(place, _)| is_next(place)).take(PAGE + 1);
    let mut entries: Vec<(String, Value)> =
        channels.map(|(place, channel)| (place.to_string(), of_channel(&place, channel))).collect();
    let room = PAGE + 1 - entries.len();
    if room > 0 {
        let (home, ways) = (gateway.home().clone(), gateway.swarm.workspaces().clone());
        let next = move || files((&home, &ways), &agent, after.as_ref(), room);
        entries.extend(listing::on_files(ticket, next).await?);
    }
    listing::record(gateway, ticket, "resources/list", entries.len().min(PAGE)).await?;
    Ok(paging::page("resources", entries))
}

/// Returns the next files after a place, at most `room`.
fn files(
    (home, ways): (&Home, &Workspaces),
    agent: &Agent,
    after: Option<&Place>,
    room: usize,
) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    let mut take = |listed: Vec<(Place, DirEntry)>| {
        let next = listed.into_iter().filter(|(place, _)| after.is_none_or(|after| place > after));
        found.extend(
            next.take(room - found.len()).map(|(place, file)| (place.to_string(), of_file(&place, &file))),
        );
        found.len() < room
    };
    if !take(listing::findings(ways, agent)) {
        return found;
    }
    for vault in listing::vaults(home, agent) {
        // A vault before the last one that was shown need not be looked through again.
        let is_past = matches!(after, Some(Place::VaultFile(last, _)) if vault < *last);
        if !is_past && !take(listing::vault_files(home, agent, &vault)) {
            break;
        }
    }
    found
}

fn of_channel(place: &Place, channel: &Channel) -> Value {
    // The topic was written by somebody else, so flock's own marks are removed from it.
    let topic = clean::label(&without_marks(&channel.topic), MAX_TOPIC);
    json!({
        "uri": place.to_string(),
        "name": format!("#{}", channel.id),
        "description": format!("Newest messages of the channel ({}). Its topic: {topic}", channel.state.as_str()),
        "mimeType": place.mime_type(),
    })
}

fn of_file(place: &Place, file: &DirEntry) -> Value {
    let (name, description) = match place {
        Place::VaultFile(vault, path) => (path, format!("File of the vault {vault}")),
        Place::SkillFile(skill, path) => (path, format!("File of the skill {skill}")),
        Place::Finding(path) => (path, "File of your findings".to_owned()),
        Place::Channel(id) => return json!({"uri": place.to_string(), "name": id}),
    };
    json!({
        "uri": place.to_string(),
        "name": shown(std::path::Path::new(name)),
        "description": description,
        "mimeType": place.mime_type(),
        "size": file.size,
    })
}

/// Answers `resources/templates/list`.
pub(super) fn templates(gateway: &Gateway, ticket: &Ticket, params: &Value) -> Result<Value, McpError> {
    // They fit on one page, so there is no cursor that could be right.
    paging::after::<()>(params, |_| None)?;
    super::agent(gateway, ticket)?;
    let template = |uri: &str, name: &str, description: &str| json!({"uriTemplate": uri, "name": name, "description": description});
    Ok(json!({"resourceTemplates": [
        template(uri::CHANNEL, "channel", "Messages of a channel: the newest, or those after or before a number"),
        template(uri::FINDING, "finding", "A file of your findings, from a line on"),
        template(uri::VAULT_FILE, "vault file", "A text file of a vault, from a line on"),
        template(uri::SKILL_FILE, "skill file", "A text file or a picture of a skill, from a line on"),
    ]}))
}

/// Reads the address of a resource.
///
/// # Errors
///
/// Returns an error if it is somebody else's, or not of a known form.
pub(super) fn address(uri: &str) -> Result<ResourceUri, McpError> {
    ResourceUri::parse(uri).map_err(|error| match error {
        UriError::Foreign => McpError::not_found(uri, error.to_string()),
        UriError::Invalid(_) => McpError::invalid(error.to_string()),
    })
}

/// Answers `resources/read`. A cancelled request has no answer.
pub(super) async fn read(
    gateway: &Gateway,
    ticket: &Ticket,
    params: &Value,
    id: &Value,
) -> Result<Option<Value>, McpError> {
    let uri = text(params, "uri")?;
    let found = address(uri)?;
    let Some(answered) =
        super::run(gateway, ticket, Request { params, id, progress: None }, found.call()).await
    else {
        return Ok(None);
    };
    let text = joined_text(&answered.content);
    if answered.is_lost {
        return Err(McpError::internal(text));
    }
    if answered.is_error {
        // One code for what does not exist and what this agent may not read. The text has the reason.
        return Err(McpError::not_found(uri, text));
    }
    let mut content = json!({"uri": uri, "mimeType": found.place.mime_type(), "text": text});
    let picture = answered.content.iter().find_map(|block| match block {
        Block::Image { media_type, data } => Some((media_type, data)),
        _ => None,
    });
    if let Some((media_type, data)) = picture {
        content = json!({"uri": uri, "mimeType": media_type, "blob": data});
    }
    Ok(Some(json!({"contents": [content]})))
}
