//! The report that a person is shown about a skill. Everything in a skill is hostile: the printer escapes what would control a
//! terminal, and each line of a file has a mark before it, so that none can look like a line of flock.

use std::collections::{BTreeMap, BTreeSet};

use crate::clean;
use crate::cli::{Context, Failure};
use crate::clock;
use crate::home::Home;
use crate::id::FolderName;
use crate::skill::difference::SkillDifference;
use crate::skill::front_matter::SkillArgument;
use crate::skill::inspection::{InspectedFile, Inspection};
use crate::skill::{RecordedOrigin, SkillContent, SkillOrigin, SkillRecord};
use crate::ui::pager::{self, PagerRow};
use crate::ui::{StyledLine, TextStyle};

/// The most items of a list on a terminal. `--json` has more.
const MAX_SHOWN: usize = 40;

/// Reads a source, and shows that it is read.
pub(super) fn fetch(
    origin: &SkillOrigin,
    home: &Home,
    context: &Context,
) -> Result<(SkillContent, RecordedOrigin), Failure> {
    let progress = context.printer.progress("reading the source of the skill");
    let read = origin.read(home, &|received| progress.detail(&format!("{} KiB received", received >> 10)))?;
    progress.done("read the source of the skill");
    Ok(read)
}

/// Prints what a skill contains.
pub(super) fn contents(name: &FolderName, found: &Inspection, context: &Context) {
    let title = StyledLine::new().with(TextStyle::Strong, name.as_str());
    context.printer.line(title.plain(format!("  {}", clean::inline(&found.description))));
    field("files", &format!("{} with {} bytes", found.files.len(), found.bytes), context);
    for file in found.files.iter().take(MAX_SHOWN) {
        context.printer.line(described(file));
    }
    if found.files.len() > MAX_SHOWN {
        context.printer.line(format!("    … and {} more", found.files.len() - MAX_SHOWN));
    }
    let scripts = found.files.iter().filter(|file| !file.script.is_empty()).count();
    if scripts > 0 {
        field("scripts", &format!("{scripts} of these files, which flock never runs"), context);
    }
    places("hosts", &found.hosts, context);
    list("arguments", found.arguments.iter().map(argument), context);
    list("tools", found.tools.iter(), context);
    list("flock", found.flock_tools.iter(), context);
    places("commands", &found.commands, context);
    list("left out", found.left_out.iter(), context);
    for text in found.hidden.iter().take(MAX_SHOWN) {
        let characters = text.characters.join(" ");
        context.printer.warn(&clean::inline(&format!(
            "{} has characters that nobody sees in line {}: {characters}",
            text.file, text.line
        )));
    }
    if found.hidden.len() > MAX_SHOWN {
        context.printer.warn(&format!("{} more lines have some", found.hidden.len() - MAX_SHOWN));
    }
    if found.is_cut {
        context.printer.warn("it names more than these lists hold");
    }
}

/// Prints where a skill comes from, and what pins it.
pub(super) fn origin(record: &SkillRecord, context: &Context) {
    field("source", &pinned(&record.source), context);
    field("hash", &record.hash, context);
}

/// Prints when and by whom a skill was imported.
pub(super) fn history(record: &SkillRecord, context: &Context) {
    let by = |at, by: &str| format!("{} by {by}", clock::local(at));
    field("imported", &by(record.imported_at, &record.imported_by), context);
    if let (Some(at), Some(who)) = (record.updated_at, &record.updated_by) {
        field("updated", &by(at, who), context);
    }
}

/// Prints a difference, page by page if a person can be asked. Returns `true` if the person saw the end.
///
/// # Errors
///
/// Returns an error if the person cancels, or if the terminal can't be read.
pub(super) fn difference(found: &SkillDifference, context: &Context) -> Result<bool, Failure> {
    let row = |text: String| PagerRow { name: String::new(), text };
    let mut rows = Vec::new();
    if found.files.is_empty() {
        rows.push(row("no file changes".to_owned()));
    }
    for file in &found.files {
        let path = clean::inline(&file.path).into_owned();
        rows.push(PagerRow { name: path, text: format!("  {}", file.change.as_str()) });
        rows.extend(file.notes.iter().map(|note| row(format!("  {note}"))));
        // The bar keeps a line of a file from looking like a line of flock.
        rows.extend(file.lines.iter().map(|line| row(format!("  | {}", clean::inline(line)))));
    }
    let is_seen = pager::show(&context.printer, &rows, context.may_ask())?;
    if found.left_out > 0 {
        context.printer.warn(&format!("{} lines are not shown in full; --full shows them", found.left_out));
    }
    Ok(is_seen)
}

/// Prints what an update does to the pin.
pub(super) fn moved(before: &SkillRecord, after: &SkillRecord, context: &Context) {
    let change = |name: &str, before: &str, after: &str| {
        if before == after {
            field(name, after, context);
        } else {
            field(name, &format!("{before} → {after}"), context);
        }
    };
    change("source", &pinned(&before.source), &pinned(&after.source));
    change("hash", &before.hash, &after.hash);
}

/// Returns a source with what pins it.
#[must_use]
pub(super) fn pinned(source: &RecordedOrigin) -> String {
    match source {
        RecordedOrigin::Folder { .. } => source.summary(),
        RecordedOrigin::Git { commit, .. } => format!("{} (commit {commit})", source.summary()),
    }
}

/// Returns a word as a shell takes it.
#[must_use]
pub(super) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-:=+,".contains(c);
    if word.chars().all(is_plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

fn described(file: &InspectedFile) -> StyledLine {
    let line = StyledLine::new().plain(format!("    {}  {}", clean::inline(&file.path), file.bytes));
    let line = if file.is_text { line } else { line.with(TextStyle::Dim, "  no text") };
    if file.script.is_empty() {
        return line;
    }
    line.with(TextStyle::Warn, format!("  script: {}", clean::inline(&file.script.join(", "))))
}

/// Returns an argument with what the skill says about it.
fn argument(argument: &SkillArgument) -> String {
    let optional = if argument.required { "" } else { " (optional)" };
    let about = argument.description.as_ref().map(|text| format!(": {text}")).unwrap_or_default();
    format!("{}{optional}{about}", argument.name)
}

fn places(name: &str, items: &BTreeMap<String, BTreeSet<String>>, context: &Context) {
    let named = items.iter().map(|(item, files)| {
        let mut named: Vec<&str> = files.iter().take(3).map(String::as_str).collect();
        if named.len() < files.len() {
            named.push("…");
        }
        format!("{item} ({})", named.join(", "))
    });
    list(name, named, context);
}

fn list<S: AsRef<str>>(name: &str, items: impl ExactSizeIterator<Item = S>, context: &Context) {
    let count = items.len();
    if count == 0 {
        return;
    }
    let shown: Vec<String> = items.take(MAX_SHOWN).map(|item| item.as_ref().to_owned()).collect();
    let more = if count > MAX_SHOWN { format!(" and {} more", count - MAX_SHOWN) } else { String::new() };
    field(name, &format!("{}{more}", shown.join(", ")), context);
}

fn field(name: &str, value: &str, context: &Context) {
    let line = StyledLine::new().with(TextStyle::Dim, format!("  {name:<9} "));
    context.printer.line(line.plain(clean::inline(value).into_owned()));
}
