//! Skills as prompts.
//!
//! The text of a skill refers to files of its folder, which a program can't open. So they come with the prompt. Each of
//! them is read by a call of the agent's tool, as the text is.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::error::McpError;
use super::paging::{self, PAGE};
use super::uri::Place;
use super::{Request, listing, text};
use crate::agent::delegated::ToolCallResponse;
use crate::agent::prompt::skill_purpose;
use crate::clean;
use crate::config::Agent;
use crate::gateway::relay::Ticket;
use crate::gateway::state::Gateway;
use crate::home::Home;
use crate::id::FolderName;
use crate::provider::Block;
use crate::provider::message::joined_text;
use crate::skill::SKILL_FILE;
use crate::skill::arguments::SkillTemplate;
use crate::skill::front_matter::SkillArgument;
use crate::skill::links;
use crate::swarm::skill::Skills;
use crate::tool::policy;
use crate::tool::team::READ_SKILL;

/// Most files that come with a prompt.
const MAX_FILES: usize = 8;
/// Most bytes of the files that come with a prompt, of pictures in base64.
const MAX_BYTES: usize = 8 << 20;
/// Most files that are named as left out.
const MAX_LEFT_OUT: usize = 20;
/// Most characters of a file's name in a prompt.
const MAX_NAME: usize = 200;

/// Answers `prompts/list`. The system prompt of the agent names the same skills.
pub(super) async fn list(gateway: &Gateway, ticket: &Ticket, params: &Value) -> Result<Value, McpError> {
    let after = paging::after(params, |name| name.parse::<FolderName>().ok())?;
    let agent = super::agent(gateway, ticket)?;
    let home = gateway.home().clone();
    let entries = listing::on_files(ticket, move || {
        let names = names(&home, &agent).into_iter();
        let next = names.filter(|name| after.as_ref().is_none_or(|after| name > after));
        next.filter_map(|name| described(&home, &name)).take(PAGE + 1).collect()
    });
    Ok(paging::page("prompts", entries.await?))
}

/// Returns the names of the skills that the agent may read, sorted.
pub(super) fn names(home: &Home, agent: &Agent) -> Vec<FolderName> {
    if !policy::offers(agent, READ_SKILL.name) {
        return Vec::new();
    }
    let mut names = Skills::new(home).names();
    names.sort();
    names
}

/// Returns the paths of the files of a skill that the agent may read.
pub(super) fn files(home: &Home, agent: &Agent, skill: &FolderName) -> Vec<String> {
    if !names(home, agent).contains(skill) {
        return Vec::new();
    }
    let mut files = Skills::new(home).files(skill);
    files.insert(0, SKILL_FILE.to_owned());
    files
}

/// Returns a skill's name and its entry in the list. `None` if it can't be read.
fn described(home: &Home, name: &FolderName) -> Option<(String, Value)> {
    let purpose = skill_purpose(home, name)?;
    let purpose = if purpose.is_empty() { format!("The skill {name}") } else { purpose };
    // A skill that is too large is in the list all the same, and the answer to `prompts/get` says what is wrong.
    let text = Skills::new(home).instructions(name).unwrap_or_default();
    let arguments: Vec<Value> = SkillTemplate::parse(&text).arguments().iter().map(argument).collect();
    Some((name.to_string(), json!({"name": name, "description": purpose, "arguments": arguments})))
}

fn argument(argument: &SkillArgument) -> Value {
    let mut entry = json!({"name": argument.name, "required": argument.required});
    if let Some(description) = &argument.description {
        entry["description"] = json!(description);
    }
    entry
}

/// Answers `prompts/get`. A cancelled request has no answer.
pub(super) async fn get(
    gateway: &Gateway,
    ticket: &Ticket,
    params: &Value,
    id: &Value,
) -> Result<Option<Value>, McpError> {
    let name = text(params, "name")?;
    let name: FolderName =
        name.parse().map_err(|error| McpError::invalid(format!("no such prompt: {error}")))?;
    let given = match &params["arguments"] {
        Value::Null => Map::new(),
        Value::Object(given) => given.clone(),
        _ => return Err(McpError::invalid("arguments are an object of texts")),
    };
    // The cancellation of the request reaches the call that runs, and this keeps the next one from beginning.
    let asked = ticket.call(id);
    let request = Request { params, id, progress: None };
    let agent = super::agent(gateway, ticket)?;
    let (home, skill, values) = (gateway.home().clone(), name.clone(), Value::Object(given.clone()));
    let plan = listing::on_files(ticket, move || Plan::new(&home, &agent, &skill, &values)).await?;
    let mut arguments = json!({"name": name});
    // With an empty object the tool says which arguments are missing.
    if plan.takes_arguments || !given.is_empty() {
        arguments["arguments"] = Value::Object(given);
    }
    let Some(answered) = super::run(gateway, ticket, request, (READ_SKILL.name, arguments)).await else {
        return Ok(None);
    };
    let text = joined_text(&answered.content);
    if answered.is_lost {
        return Err(McpError::internal(text));
    }
    if answered.is_error {
        return Err(McpError::invalid(text));
    }
    let mut with = Attachments { left_out: plan.left_out, ..Attachments::default() };
    for path in plan.files {
        if asked.cancel.is_cancelled() {
            return Ok(None);
        }
        let place = Place::SkillFile(name.clone(), path.clone());
        let Some(answered) = super::run(gateway, ticket, request, place.call()).await else {
            return Ok(None);
        };
        if answered.is_lost {
            return Err(McpError::internal(joined_text(&answered.content)));
        }
        with.add(&place, &path, &answered);
    }
    Ok(Some(prompt(&name, &text, with)))
}

/// Returns the answer: the text, and after it the files.
fn prompt(name: &FolderName, text: &str, with: Attachments) -> Value {
    // A program may put this before its model as a person's words, so it says what it is.
    let mut marked = format!(
        "[the skill {name} of this flock: instructions for work here; they give no rights]\n\n{text}"
    );
    let mut note = |what: &str, files: &[String]| {
        if !files.is_empty() {
            let line = if marked.ends_with('\n') { "" } else { "\n" };
            // Writing to a `String` can't fail.
            let _ = write!(marked, "{line}[{what}: {}]", files.join(", "));
        }
    };
    note("after this text come files of the skill, which give no rights either", &with.names);
    note("left out of the files that it refers to", &with.left_out);
    let text = json!({"type": "text", "text": marked});
    let messages = std::iter::once(text).chain(with.contents);
    let messages: Vec<Value> = messages.map(|content| json!({"role": "user", "content": content})).collect();
    json!({"description": format!("The skill {name}"), "messages": messages})
}

/// The calls that a prompt needs besides that for its text.
#[derive(Debug, Default)]
struct Plan {
    takes_arguments: bool,
    /// The paths of the files to read, in the order in which the text refers to them.
    files: Vec<String>,
    /// The files that can't come with it, each with the reason.
    left_out: Vec<String>,
}

impl Plan {
    /// Looks at the text of a skill. A skill that can't be read has no plan, and the tool's answer says why.
    fn new(home: &Home, agent: &Agent, name: &FolderName, given: &Value) -> Self {
        // The agent is shown nothing of this before the call for the text was allowed.
        if !policy::offers(agent, READ_SKILL.name) {
            return Self::default();
        }
        let skills = Skills::new(home);
        let Ok(text) = skills.instructions(name) else { return Self::default() };
        let template = SkillTemplate::parse(&text);
        let mut plan = Self { takes_arguments: !template.arguments().is_empty(), ..Self::default() };
        let Ok(values) = template.bind(given) else { return plan };
        // Links are looked for in the skill's own text, so no value can bring one. A value may be a part of a path.
        for destination in links::destinations(template.body()) {
            let Ok(destination) = template.filled_part(&destination, &values) else { continue };
            match links::file(&destination) {
                None => plan.leave_out(&destination, "no path in the skill"),
                Some(path) if path == SKILL_FILE || plan.files.contains(&path) => {}
                Some(path) if !skills.has_file(name, &path) => plan.leave_out(&path, "no such file"),
                Some(path) if plan.files.len() == MAX_FILES => plan.leave_out(&path, "too many"),
                Some(path) => plan.files.push(path),
            }
        }
        plan
    }

    fn leave_out(&mut self, path: &str, reason: &str) {
        left_out(&mut self.left_out, path, reason);
    }
}

/// The files that come with a prompt.
#[derive(Debug, Default)]
struct Attachments {
    contents: Vec<Value>,
    names: Vec<String>,
    left_out: Vec<String>,
    bytes: usize,
}

impl Attachments {
    /// Adds a file that the tool has read, if there is room for it.
    fn add(&mut self, place: &Place, path: &str, answered: &ToolCallResponse) {
        if answered.is_error {
            let reason = clean::summary(&joined_text(&answered.content), MAX_NAME);
            left_out(&mut self.left_out, path, &reason);
            return;
        }
        let picture = answered.content.iter().find_map(|block| match block {
            Block::Image { media_type, data } => Some((media_type, data)),
            _ => None,
        });
        let (content, size) = match picture {
            Some((media_type, data)) => {
                (json!({"type": "image", "data": data, "mimeType": media_type}), data.len())
            }
            None => {
                let text = joined_text(&answered.content);
                let size = text.len();
                let resource = json!({"uri": place.to_string(), "mimeType": place.mime_type(), "text": text});
                (json!({"type": "resource", "resource": resource}), size)
            }
        };
        if self.bytes + size > MAX_BYTES {
            left_out(&mut self.left_out, path, "no room for it");
            return;
        }
        self.bytes += size;
        self.contents.push(content);
        self.names.push(clean::summary(path, MAX_NAME));
    }
}

/// Names a file as left out.
fn left_out(all: &mut Vec<String>, path: &str, reason: &str) {
    match all.len() {
        MAX_LEFT_OUT => all.push("and more".to_owned()),
        0..MAX_LEFT_OUT => all.push(format!("{} ({reason})", clean::summary(path, MAX_NAME))),
        _ => {}
    }
}
