//! `completion/complete`: the names that fit into an address, as far as the agent may know them.

use serde_json::{Value, json};

use super::error::McpError;
use super::uri::{self, Place, ResourceUri};
use super::{listing, prompts, text};
use crate::gateway::relay::Ticket;
use crate::gateway::state::Gateway;
use crate::id::FolderName;

/// Most values of an answer. It is MCP's own limit.
const MOST: usize = 100;

/// Answers `completion/complete`.
pub(super) async fn complete(gateway: &Gateway, ticket: &Ticket, params: &Value) -> Result<Value, McpError> {
    let agent = super::agent(gateway, ticket)?;
    let argument = text(&params["argument"], "name")?;
    let begun = text(&params["argument"], "value")?.to_owned();
    let wanted = &params["ref"];
    let unknown = || McpError::invalid(format!("{argument:?} is no argument of this"));
    let home = gateway.home().clone();
    let names: Vec<String> = match text(wanted, "type")? {
        "ref/prompt" => {
            let name = text(wanted, "name")?.to_owned();
            let names = listing::on_files(ticket, move || prompts::names(&home, &agent)).await?;
            if !names.iter().any(|known| known.as_str() == name) {
                return Err(McpError::invalid("there is no such prompt"));
            }
            // No skill says which values its arguments can have.
            return Ok(completion(Vec::new()));
        }
        "ref/resource" => match (text(wanted, "uri")?, argument) {
            (uri::CHANNEL, "channel") => {
                let channels = listing::channels(gateway, &agent).await?;
                channels.iter().map(|channel| channel.id.to_string()).collect()
            }
            (uri::VAULT_FILE, "vault") => {
                let vaults = listing::on_files(ticket, move || listing::vaults(&home, &agent)).await?;
                vaults.iter().map(FolderName::to_string).collect()
            }
            (uri::VAULT_FILE, "path") => {
                let vault = params["context"]["arguments"]["vault"].as_str().unwrap_or_default();
                match vault.parse() {
                    Ok(vault) => {
                        let files = move || listing::vault_files(&home, &agent, &vault);
                        paths(&listing::on_files(ticket, files).await?)
                    }
                    // The vault has to be chosen first.
                    Err(_) => Vec::new(),
                }
            }
            (uri::FINDING, "path") => {
                let ways = gateway.swarm.workspaces().clone();
                paths(&listing::on_files(ticket, move || listing::findings(&ways, &agent)).await?)
            }
            (uri::SKILL_FILE, "skill") => {
                let skills = listing::on_files(ticket, move || prompts::names(&home, &agent)).await?;
                skills.iter().map(FolderName::to_string).collect()
            }
            (uri::SKILL_FILE, "path") => {
                let skill = params["context"]["arguments"]["skill"].as_str().unwrap_or_default();
                match skill.parse() {
                    Ok(skill) => {
                        let files = move || prompts::files(&home, &agent, &skill);
                        listing::on_files(ticket, files).await?
                    }
                    // The skill has to be chosen first.
                    Err(_) => Vec::new(),
                }
            }
            (uri::CHANNEL, "after" | "before")
            | (uri::FINDING | uri::VAULT_FILE | uri::SKILL_FILE, "offset") => Vec::new(),
            (uri::CHANNEL | uri::FINDING | uri::VAULT_FILE | uri::SKILL_FILE, _) => return Err(unknown()),
            // A whole address leaves nothing to complete.
            (address, _) if ResourceUri::parse(address).is_ok() => Vec::new(),
            _ => return Err(McpError::invalid("there is no such pattern of addresses")),
        },
        _ => return Err(McpError::invalid("the reference is to a prompt or a resource")),
    };
    let names: Vec<String> = names.into_iter().filter(|name| name.starts_with(&begun)).collect();
    listing::record(gateway, ticket, "completion/complete", names.len().min(MOST)).await?;
    Ok(completion(names))
}

fn paths<T>(files: &[(Place, T)]) -> Vec<String> {
    let path = |(place, _): &(Place, T)| match place {
        Place::Finding(path) | Place::VaultFile(_, path) | Place::SkillFile(_, path) => path.clone(),
        Place::Channel(id) => id.to_string(),
    };
    files.iter().map(path).collect()
}

fn completion(mut names: Vec<String>) -> Value {
    let total = names.len();
    names.truncate(MOST);
    json!({"completion": {"values": names, "total": total, "hasMore": total > MOST}})
}
