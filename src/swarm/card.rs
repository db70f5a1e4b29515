//! Agent cards: descriptions of what each agent is for and can do, so that others find the right one to ask. A card is
//! made from the agent's role and archetype. Parts that the agent itself wrote replace the generated ones.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Actor, Swarm, SwarmError};
use crate::agent::prompt::archetype;
use crate::clean::summary;
use crate::clock::unix_ms;
use crate::config::{Agent, Role};
use crate::id::AgentId;
use crate::store::{CardUpdate, Level, StoredCard, TaskCounts};

/// Maximum number of characters of the name of a card or a skill.
pub(crate) const MAX_NAME: usize = 80;
/// Maximum number of characters of a card's description.
pub(crate) const MAX_DESCRIPTION: usize = 1000;
/// Maximum number of characters of a skill's description or of an example.
pub(crate) const MAX_SKILL_TEXT: usize = 300;
/// Maximum number of characters of a skill's id or of a tag.
pub(crate) const MAX_WORD: usize = 50;
/// Maximum number of skills of a card.
pub(crate) const MAX_SKILLS: usize = 20;
/// Maximum number of tags of a skill, and of examples.
pub(crate) const MAX_LIST: usize = 10;

/// A capability of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CardSkill {
    /// Identifier for programs, unique on the card.
    pub id: String,
    /// Display name.
    pub name: String,
    #[serde(default)]
    pub description: String,
    /// Search words.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Example requests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<String>,
}

/// An agent's card. Every text is one line without invisible characters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Card {
    pub agent: AgentId,
    pub role: Role,
    /// Display name.
    pub name: String,
    /// Description of the agent's purpose.
    pub description: String,
    pub skills: Vec<CardSkill>,
    /// Unix milliseconds of the agent's last change to its card. `None` if it never changed it.
    pub updated_at: Option<i64>,
}

/// A change to a card. Fields that are `None` stay as they are.
#[derive(Clone, Debug, Default)]
pub(crate) struct CardEdit {
    pub name: Option<String>,
    pub description: Option<String>,
    /// The complete new list: JSON objects with the fields of [`CardSkill`].
    pub skills: Option<Vec<Value>>,
}

/// A search for cards. All given conditions must match.
#[derive(Clone, Debug, Default)]
pub(crate) struct CardQuery {
    /// Text that occurs anywhere on the card, ignoring case.
    pub text: Option<String>,
    pub role: Option<Role>,
    /// Id or tag of a skill.
    pub skill: Option<String>,
}

/// Returns `true` if a card matches the search.
#[must_use]
pub(crate) fn matches(card: &Card, query: &CardQuery) -> bool {
    let has_text = |text: &String| {
        let text = text.to_lowercase();
        let has = |field: &str| field.to_lowercase().contains(&text);
        let in_skill = |skill: &CardSkill| {
            has(&skill.id)
                || has(&skill.name)
                || has(&skill.description)
                || skill.tags.iter().any(|tag| has(tag))
        };
        has(card.agent.as_str())
            || has(&card.name)
            || has(&card.description)
            || card.skills.iter().any(in_skill)
    };
    let has_skill = |word: &String| {
        card.skills.iter().any(|skill| skill.id == *word || skill.tags.iter().any(|tag| tag == word))
    };
    query.text.as_ref().is_none_or(has_text)
        && query.role.is_none_or(|role| card.role == role)
        && query.skill.as_ref().is_none_or(has_skill)
}

/// Generates the card of an agent from its role and archetype. `focus` is the list of strengths from the archetype.
#[must_use]
pub(crate) fn made(agent: &Agent, focus: &[String]) -> Card {
    let (description, skills) = match agent.role {
        Role::Orchestrator => (
            "Brings the team together: creates channels, adds members and workers.".to_owned(),
            vec![
                skill(
                    "channels",
                    "Channels",
                    "Creates channels, assigns members, archives finished channels.",
                    "team",
                ),
                skill("lifecycle", "Agents", "Adds workers and requests the removal of others.", "team"),
            ],
        ),
        Role::Sysadmin => (
            "Looks after the machine for the team: judges requests and keeps things running.".to_owned(),
            vec![
                skill(
                    "triage",
                    "Triage",
                    "Judges requests for packages, hosts, mounts and commands.",
                    "system",
                ),
                skill("health", "Health", "Finds out why something does not run.", "system"),
            ],
        ),
        Role::Worker => {
            // Roles with fixed duties have fixed skills. A worker's skills come from its archetype.
            let kind = agent.archetype.as_deref().unwrap_or("worker");
            let skills = focus.iter().map(|point| skill_from_focus(point, kind)).collect::<Vec<_>>();
            (format!("A worker of the team: {}.", summary(kind, MAX_NAME)), dedup_by_id(skills))
        }
    };
    Card {
        agent: agent.id.clone(),
        role: agent.role,
        name: agent.id.to_string(),
        description,
        skills,
        updated_at: None,
    }
}

fn skill(id: &str, name: &str, description: &str, tag: &str) -> CardSkill {
    CardSkill {
        id: id.to_owned(),
        name: name.to_owned(),
        description: description.to_owned(),
        tags: vec![tag.to_owned(), id.to_owned()],
        examples: Vec::new(),
    }
}

fn skill_from_focus(point: &str, kind: &str) -> CardSkill {
    // An archetype is a text of the owner without limits, so it is cut to what a card may hold.
    let text = summary(point, MAX_SKILL_TEXT);
    let slug: String =
        text.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' }).collect();
    let words: Vec<&str> = slug.split('-').filter(|word| !word.is_empty()).collect();
    // Only ASCII is left in the slug, so it can be cut at any byte.
    let mut id = words.join("-");
    id.truncate(MAX_WORD);
    CardSkill {
        id: if id.is_empty() { "focus".to_owned() } else { id.trim_end_matches('-').to_owned() },
        name: summary(&text, MAX_NAME),
        description: text,
        tags: vec![summary(kind, MAX_WORD)],
        examples: Vec::new(),
    }
}

fn dedup_by_id(mut skills: Vec<CardSkill>) -> Vec<CardSkill> {
    let mut seen = std::collections::HashSet::new();
    // Two points of an archetype may give the same id, and ids are unique on a card.
    skills.retain(|skill| seen.insert(skill.id.clone()));
    skills
}

/// Checks and cleans the skills that an agent wrote.
///
/// # Errors
///
/// Returns a message for the agent with the index of the first invalid skill and what is wrong with it.
pub(crate) fn checked_skills(written: &[Value]) -> Result<Vec<CardSkill>, String> {
    // Checked before parsing, so that the work for a huge list is bounded.
    if written.len() > MAX_SKILLS {
        return Err(format!("a card has at most {MAX_SKILLS} skills"));
    }
    let mut skills: Vec<CardSkill> = Vec::new();
    for (number, value) in written.iter().enumerate() {
        let at = |reason: String| format!("skills[{number}]: {reason}");
        // An unknown field is an error, so that a misspelled one is not silently lost.
        let skill: CardSkill = Deserialize::deserialize(value)
            // The error may quote what the agent wrote, so it is cleaned and cut.
            .map_err(|error: serde_json::Error| at(summary(&error.to_string(), 200)))?;
        let skill = validate_skill(&skill).map_err(at)?;
        if skills.iter().any(|other| other.id == skill.id) {
            return Err(format!("skills[{number}]: two skills have the id {}", skill.id));
        }
        skills.push(skill);
    }
    Ok(skills)
}

fn validate_skill(skill: &CardSkill) -> Result<CardSkill, String> {
    // Ids are compared exactly by programs and by `flock_discover`, so they have one spelling.
    let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_' | '.');
    if skill.id.is_empty() || skill.id.len() > MAX_WORD || !skill.id.chars().all(word) {
        return Err(format!("`id` must be 1 to {MAX_WORD} of a-z, 0-9, '-', '_' and '.'"));
    }
    if skill.tags.len() > MAX_LIST || skill.examples.len() > MAX_LIST {
        return Err(format!("there are at most {MAX_LIST} tags and {MAX_LIST} examples"));
    }
    let list = |what: &str, texts: &[String], limit| -> Result<Vec<String>, String> {
        texts.iter().map(|text| line(what, text, limit)).collect()
    };
    Ok(CardSkill {
        id: skill.id.clone(),
        name: line("name", &skill.name, MAX_NAME)?,
        // The only text that may be empty.
        description: match skill.description.trim() {
            "" => String::new(),
            text => line("description", text, MAX_SKILL_TEXT)?,
        },
        tags: list("tags", &skill.tags, MAX_WORD)?,
        examples: list("examples", &skill.examples, MAX_SKILL_TEXT)?,
    })
}

/// Cleans a text and joins it to one line. Returns an error if it is too long or nothing is left of it.
fn line(what: &str, text: &str, limit: usize) -> Result<String, String> {
    // Refused and not cut, so that the agent knows what others will read.
    if text.chars().count() > limit {
        return Err(format!("`{what}` has at most {limit} characters"));
    }
    let clean = summary(text, limit);
    if clean.is_empty() { Err(format!("`{what}` is empty")) } else { Ok(clean) }
}

impl Swarm {
    /// Returns the cards of all agents, in the order of the configuration.
    pub(crate) async fn cards(&self) -> Result<Vec<Card>, SwarmError> {
        let said: HashMap<AgentId, StoredCard> =
            self.store().cards().list().await?.into_iter().map(|card| (card.agent.clone(), card)).collect();
        let config = self.config();
        Ok(config.agents.iter().map(|agent| self.build_card(agent, said.get(&agent.id))).collect())
    }

    /// Returns the card of an agent.
    ///
    /// # Errors
    ///
    /// Returns [`SwarmError::NoAgent`] if there is no such agent.
    pub(crate) async fn card(&self, agent: &AgentId) -> Result<Card, SwarmError> {
        self.cards()
            .await?
            .into_iter()
            .find(|card| card.agent == *agent)
            .ok_or_else(|| SwarmError::NoAgent(agent.clone()))
    }

    fn build_card(&self, agent: &Agent, said: Option<&StoredCard>) -> Card {
        let folder = self.live.home().archetypes();
        // An archetype that was deleted meanwhile only leaves the card without its skills.
        let text = agent.archetype.as_deref().and_then(|name| archetype::find(&folder, name).ok());
        let mut card = made(agent, &text.map(|text| archetype::focus(&text)).unwrap_or_default());
        if let Some(said) = said {
            card.updated_at = Some(said.updated_at);
            if let Some(name) = &said.name {
                card.name.clone_from(name);
            }
            if let Some(description) = &said.description {
                card.description.clone_from(description);
            }
            // Stored skills that can't be parsed are ignored, and the generated ones are shown.
            if let Some(skills) = said.skills.as_deref().and_then(|text| serde_json::from_str(text).ok()) {
                card.skills = skills;
            }
        }
        card
    }

    /// Stores changes that an agent makes to its own card. An agent can't change another one's card.
    ///
    /// # Errors
    ///
    /// Returns [`SwarmError::Invalid`] if the caller is not an agent, if nothing is given, or if a text is empty or too
    /// long.
    pub(crate) async fn update_card(&self, by: &Actor, new: CardEdit) -> Result<Card, SwarmError> {
        // The agent comes from the session, so nobody can change another agent's card.
        let Some(agent) = by.party.agent() else {
            return Err(SwarmError::Invalid("only an agent has a card".to_owned()));
        };
        if new.name.is_none() && new.description.is_none() && new.skills.is_none() {
            return Err(SwarmError::Invalid("give at least one of name, description and skills".to_owned()));
        }
        let take = |what, text: Option<String>, limit| {
            text.map(|text| line(what, &text, limit)).transpose().map_err(SwarmError::Invalid)
        };
        let skills = new.skills.as_deref().map(checked_skills).transpose().map_err(SwarmError::Invalid)?;
        let update = CardUpdate {
            name: take("name", new.name, MAX_NAME)?,
            description: take("description", new.description, MAX_DESCRIPTION)?,
            skills: skills.map(|skills| serde_json::json!(skills).to_string()),
        };
        let entry = by.entry("card.update", agent.as_str(), Level::Green, String::new());
        self.store().cards().update(agent.clone(), update, entry, unix_ms()).await?;
        self.notifier().publish("card.changed", &serde_json::json!({"agent": agent}));
        self.card(agent).await
    }

    /// Returns the matching cards, each with the number of its agent's tasks by outcome.
    pub(crate) async fn discover(&self, query: &CardQuery) -> Result<Vec<(Card, TaskCounts)>, SwarmError> {
        let counts = self.store().tasks().counts().await?;
        let found = self.cards().await?.into_iter().filter(|card| matches(card, query));
        Ok(found
            .map(|card| {
                let count = counts.get(card.agent.as_str()).copied().unwrap_or_default();
                (card, count)
            })
            .collect())
    }
}

#[cfg(test)]
#[path = "card_tests.rs"]
mod tests;
