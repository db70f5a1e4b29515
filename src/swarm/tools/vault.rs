//! The `flock_workspace_*` tools for the shared vaults, and `flock_read_skill`.

use std::sync::Arc;

use serde_json::Value;

use crate::clean;
use crate::clock::unix_ms;
use crate::home::Home;
use crate::home::beneath::{BeneathError, FileKind};
use crate::id::FolderName;
use crate::provider::Block;
use crate::skill::arguments::{ArgumentError, SkillTemplate};
use crate::store::{Level, Store, text_digest};
use crate::swarm::Actor;
use crate::swarm::skill::{FileContent, SkillError, SkillPath, Skills};
use crate::swarm::vault::{MAX_ENTRIES, VaultError, Vaults, WriteMode, shown};
use crate::tool::arguments::Arguments;
use crate::tool::files::image;
use crate::tool::function::{FunctionTool, blocking};
use crate::tool::{CallContext, Tool, ToolError, ToolOutput, ToolResult, lines, team};

/// The services on which the tools work.
struct VaultServices {
    vaults: Vaults,
    skills: Skills,
    store: Arc<Store>,
}

/// The work of a tool. It may block.
type VaultToolFn<O> = fn(&VaultServices, &CallContext, &Arguments) -> ToolResult<O>;

/// Returns the tools of this module in the order in which they are offered.
#[must_use]
pub fn all(home: &Home, store: &Arc<Store>) -> Vec<Arc<dyn Tool>> {
    let services = &Arc::new(VaultServices {
        vaults: Vaults::new(home).fenced(store.syncer().fence().clone()),
        skills: Skills::new(home),
        store: Arc::clone(store),
    });
    vec![
        FunctionTool::shared(&team::WORKSPACE_LIST, services, |s, c, a| Box::pin(run(s, c, a, list))),
        FunctionTool::shared(&team::WORKSPACE_READ, services, |s, c, a| Box::pin(run(s, c, a, read))),
        FunctionTool::shared(&team::WORKSPACE_WRITE, services, |s, c, a| Box::pin(run(s, c, a, write))),
        FunctionTool::shared(&team::WORKSPACE_TREE, services, |s, c, a| Box::pin(run(s, c, a, tree))),
        FunctionTool::shared(&team::READ_SKILL, services, |s, c, a| Box::pin(run(s, c, a, read_skill))),
    ]
}

async fn run<O: Send + 'static>(
    services: &Arc<VaultServices>,
    context: &CallContext,
    arguments: Arguments,
    work: VaultToolFn<O>,
) -> ToolResult<O> {
    let (services, context) = (Arc::clone(services), context.clone());
    blocking(move || work(&services, &context, &arguments)).await
}

/// Maximum number of files or lines that are shown of a vault.
const MAX_SHOWN: usize = 500;

fn list(shared: &VaultServices, _: &CallContext, arguments: &Arguments) -> ToolResult {
    let Some(name) = arguments.optional::<String>("workspace")?.filter(|name| !name.is_empty()) else {
        return list_vaults(shared);
    };
    let name: FolderName = name.parse()?;
    // All entries are read, because folders count as entries but are not listed.
    let (entries, more) = shared.vaults.entries(&name, usize::MAX, MAX_ENTRIES)?;
    let files: Vec<_> = entries.iter().filter(|entry| entry.kind == FileKind::File).collect();
    let mut lines: Vec<String> = files
        .iter()
        .take(MAX_SHOWN)
        .map(|file| format!("{} ({} bytes)", shown(&file.path), file.size))
        .collect();
    if files.is_empty() {
        lines.push(format!("{name} has no files"));
    }
    if more || files.len() > MAX_SHOWN {
        lines.push(format!("[{} of {}{} files]", lines.len(), files.len(), if more { "+" } else { "" }));
    }
    Ok(lines.join("\n"))
}

fn list_vaults(shared: &VaultServices) -> ToolResult {
    let summaries = shared.vaults.summaries()?;
    if summaries.is_empty() {
        // The text says who can make one, so that agents do not try.
        return Ok("there are no vaults; only a person can create one".to_owned());
    }
    let line = |vault: &crate::swarm::vault::VaultSummary| {
        let more = if vault.more { " and more" } else { "" };
        format!("{}: {} files{more}, {} bytes", vault.name, vault.files, vault.bytes)
    };
    Ok(summaries.iter().map(line).collect::<Vec<_>>().join("\n"))
}

fn read(shared: &VaultServices, _: &CallContext, arguments: &Arguments) -> ToolResult {
    let name: FolderName = arguments.required::<String>("workspace")?.parse()?;
    let path: String = arguments.required("path")?;
    let first = arguments.optional::<u64>("offset")?.unwrap_or(1);
    // Lines are counted from 1, as in the tool `read`.
    let limit = arguments.optional::<u64>("limit")?.unwrap_or(lines::MAX_LINES);
    let (place, text) = shared.vaults.read(&name, &path)?;
    lines::part(&place, &text, first, limit, "")
}

fn write(shared: &VaultServices, context: &CallContext, arguments: &Arguments) -> ToolResult {
    let name: FolderName = arguments.required::<String>("workspace")?.parse()?;
    let path: String = arguments.required("path")?;
    let content: String = arguments.required("content")?;
    let how = match arguments.optional::<bool>("append")? {
        Some(true) => WriteMode::Append,
        _ => WriteMode::Replace,
    };
    let (place, size) = shared.vaults.write(&name, &path, &content, how)?;
    tracing::info!(agent = %context.agent, %place, size, "an agent wrote into a vault");
    // The audit gets the digest and not the text: a vault may hold private notes.
    let how_much = format!("{} bytes, sha256 {}", content.len(), text_digest(&content));
    let entry = Actor::call(context).entry("vault.write", &place.to_string(), Level::Green, how_much);
    // This runs on a blocking thread, so waiting here does not stall the runtime.
    let written = tokio::runtime::Handle::current().block_on(shared.store.audit().append(entry, unix_ms()));
    written.map_err(|failure| ToolError::Fatal(Box::new(failure)))?;
    Ok(match how {
        WriteMode::Replace => format!("wrote {size} bytes to {place}"),
        WriteMode::Append => format!("added {} bytes to {place}, which now has {size}", content.len()),
    })
}

fn tree(shared: &VaultServices, _: &CallContext, arguments: &Arguments) -> ToolResult {
    let name: FolderName = arguments.required::<String>("workspace")?.parse()?;
    let depth = arguments.optional::<u64>("maxDepth")?.unwrap_or(3).clamp(1, 10);
    let depth = usize::try_from(depth).unwrap_or(3);
    let (entries, more) = shared.vaults.entries(&name, depth, MAX_SHOWN)?;
    let mut drawn = format!("{name}/");
    for entry in &entries {
        let level = entry.path.components().count();
        let last = shown(entry.path.file_name().map_or(entry.path.as_path(), std::path::Path::new));
        let line = match entry.kind {
            FileKind::Folder => format!("{last}/"),
            FileKind::File => format!("{last} ({} bytes)", entry.size),
            // Shown, so that the agent understands why the name can't be opened.
            FileKind::Link => format!("{last} (a link; not followed)"),
            FileKind::Other => format!("{last} (not a file)"),
        };
        drawn.push('\n');
        drawn.push_str(&"  ".repeat(level));
        drawn.push_str(&line);
    }
    if more {
        drawn.push_str("\n[there are more entries]");
    }
    Ok(drawn)
}

fn read_skill(shared: &VaultServices, _: &CallContext, arguments: &Arguments) -> ToolResult<ToolOutput> {
    let failed = |failure: SkillError| ToolError::model(failure.to_string());
    let wanted: SkillPath = arguments.required::<String>("name")?.parse().map_err(failed)?;
    let first = arguments.optional::<u64>("offset")?.unwrap_or(1);
    let SkillPath { name, file } = wanted;
    let part = |text: &str| lines::part(&format!("the skill {name}"), text, first, lines::MAX_LINES, "");
    if let Some(file) = file {
        return match shared.skills.file(&name, &file).map_err(failed)? {
            FileContent::Text(text) => part(&text).map(ToolOutput::text),
            FileContent::Picture(bytes) => {
                let place = format!("{name}/{}", clean::inline(&file.to_string_lossy()));
                let (text, picture) = image::shown(&place, &bytes)?;
                Ok(vec![Block::text(text), picture].into())
            }
        };
    }
    let text = shared.skills.instructions(&name).map_err(failed)?;
    // Without values the placeholders stay, so that the reader knows what they stand for. Some models write an empty text
    // for an argument that they do not mean to give.
    let given = arguments.optional::<Value>("arguments")?;
    let text = match given.filter(|given| given.as_str().is_none_or(|text| !text.trim().is_empty())) {
        None => text,
        Some(given) => filled(&text, &given).map_err(|failure| ToolError::model(failure.to_string()))?,
    };
    let part = part(&text)?;
    let files = shared.skills.files(&name);
    if files.is_empty() {
        return Ok(ToolOutput::text(part));
    }
    let line = if part.ends_with('\n') { "" } else { "\n" };
    let note = format!("{part}{line}[other files, each read as {name}/PATH: {}]", files.join(", "));
    Ok(ToolOutput::text(note))
}

fn filled(text: &str, given: &Value) -> Result<String, ArgumentError> {
    let skill = SkillTemplate::parse(text);
    skill.filled(&skill.bind(given)?)
}

impl From<VaultError> for ToolError {
    fn from(failure: VaultError) -> Self {
        match failure {
            // Another gateway may go on with the turn, so this one says nothing more to the model.
            VaultError::File { source: BeneathError::CutOff { source, .. }, .. } => {
                Self::Fatal(Box::new(source))
            }
            failure => Self::model(failure.to_string()),
        }
    }
}

#[cfg(test)]
#[path = "vault_tests.rs"]
mod tests;
