//! `flock replay`: plays a recorded session again with the present code, and shows what would be different.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Context, Exit, Failure, database};
use crate::agent::preview::RequestPreviewer;
use crate::agent::replay::comparison::{self, Difference};
use crate::agent::replay::{FORMAT, Replay, recorded, replay};
use crate::config::Live;
use crate::error::Kind;
use crate::home::{Home, atomic};
use crate::id::{AgentId, ChannelId, SessionKey};
use crate::store::{Session, StoredPrompt};
use crate::tool::catalog;
use crate::ui::{StyledLine, TextStyle};

/// Play a recorded session again, and show what the present code would send
///
/// For each recorded answer of a model, makes the request that would be sent now at its place, with the recorded answers
/// and tool results. Asks no model and runs no tool. Shows where the prompt, the offered tools, the policy's decisions
/// or a compaction differ from what was recorded.
///
/// A transcript has no requests. To compare those as well, save a replay before a change of prompts, settings or flock
/// itself, and compare with it afterwards.
///
/// Exits with code 1 if something differs.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  flock replay agent:coder:flock:main:ann
  flock replay work --save before.json
  flock replay work --against before.json")]
pub(crate) struct Args {
    /// Key of a session, or a channel for the sessions of all its agents
    #[arg(value_name = "SESSION|CHANNEL", required_unless_present = "transcript")]
    which: Option<String>,
    /// File of a transcript that is not in this home
    #[arg(long, value_name = "FILE", conflicts_with = "which", requires = "agent")]
    transcript: Option<PathBuf>,
    /// Agent that plays the transcript of --transcript
    #[arg(long, value_name = "AGENT", requires = "transcript")]
    agent: Option<AgentId>,
    /// Write the replay to a file
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Saved replay to compare with, instead of what was recorded
    #[arg(long, value_name = "FILE")]
    against: Option<PathBuf>,
}

/// A file of replays.
#[derive(Serialize, Deserialize)]
struct SavedReplays {
    format: u32,
    replays: Vec<Replay>,
}

/// Largest file of replays that is read, in bytes.
const MAX_SAVED: u64 = 256 << 20;
/// The most sessions that are looked through for a channel.
const MAX_SESSIONS: u32 = 10_000;
/// The most changed lines of a section that people are shown.
const MAX_LINES: usize = 40;

/// Plays the sessions and prints the differences.
///
/// # Errors
///
/// Returns an error if there is no such session or channel, if its agent does not run on flock's own loop, or if a file
/// can't be read or written.
pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let home = context.home()?;
    let live = Arc::new(Live::open(home.clone())?);
    let config = live.current();
    let tools = catalog::specs();
    // The zone is a part of the prompt. It is fixed, so that a saved replay means the same on every machine.
    let previewer = RequestPreviewer { home: &home, config: &config, tools: &tools, zone: TimeZone::UTC };
    let earlier = args.against.as_deref().map(read_saved).transpose()?;
    let mut made = Vec::new();
    for source in sources(args, &home)? {
        let agent = config.require_agent(&source.agent)?;
        if earlier.is_none() && args.save.is_none() {
            context.printer.detail(format!("playing {}", source.path.display()));
        }
        let played = replay(&previewer, agent, &source.path)?;
        if played.session.is_empty() {
            let text = format!("{} is no transcript", source.path.display());
            return Err(Failure::new(Kind::Failed, text).hint("flock session list"));
        }
        let found = match &earlier {
            Some(earlier) => match earlier.iter().find(|before| before.session == played.session) {
                Some(before) => comparison::compare(before, &played),
                None => vec![Difference::new(None, "steps", "the saved replay does not have it".to_owned())],
            },
            None => from_record(&played, source.prompt.as_ref(), &previewer, agent)?,
        };
        made.push((played, found));
    }
    if let Some(file) = &args.save {
        let replays = made.iter().map(|(played, _)| played.clone()).collect();
        let bytes = serde_json::to_vec_pretty(&SavedReplays { format: FORMAT, replays }).unwrap_or_default();
        atomic::write(file, &bytes, 0o600)?;
        context.printer.say(StyledLine::new().plain("saved ").accent(file.display().to_string()));
    }
    let differs = made.iter().any(|(_, found)| !found.is_empty());
    if context.printer.is_json() {
        let sessions: Vec<Value> = made.iter().map(|(played, found)| described(played, found)).collect();
        context.printer.json(&json!({"differs": differs, "sessions": sessions}));
    } else {
        made.iter().for_each(|(played, found)| show(played, found, context));
    }
    Ok(if differs { Exit::Failed(Kind::Failed) } else { Exit::Done })
}

/// A transcript to play.
struct Source {
    agent: AgentId,
    path: PathBuf,
    /// The prompt that the session was last given.
    prompt: Option<(i64, StoredPrompt)>,
}

fn sources(args: &Args, home: &Home) -> Result<Vec<Source>, Failure> {
    if let (Some(path), Some(agent)) = (&args.transcript, &args.agent) {
        return Ok(vec![Source { agent: agent.clone(), path: path.clone(), prompt: None }]);
    }
    let which = args.which.as_deref().unwrap_or_default();
    let none = || {
        let text = format!("there is no session or channel {:?}", crate::clean::summary(which, 80));
        Failure::new(Kind::Failed, text).hint("flock session list")
    };
    let sessions: Vec<Session> = if which.starts_with("agent:") {
        let key: SessionKey = which.parse()?;
        let found = database::read(home, async |reader| reader.sessions().find(&key).await)?.flatten();
        found.into_iter().collect()
    } else {
        let channel: ChannelId = which.parse().map_err(|_| none())?;
        let all = database::read(home, async |reader| reader.sessions().list(None, MAX_SESSIONS).await)?;
        let is_of = |session: &Session| session.key.channel().as_ref() == Some(&channel);
        all.unwrap_or_default().into_iter().filter(is_of).collect()
    };
    if sessions.is_empty() {
        return Err(none());
    }
    let mut found = Vec::new();
    for session in sessions {
        let prompt =
            database::read(home, async |reader| reader.sessions().prompt(&session.key).await)?.flatten();
        let path = home.sessions(session.key.agent()).join(format!("{}.jsonl", session.file));
        let prompt = prompt.map(|prompt| (session.began_at, prompt));
        found.push(Source { agent: session.key.agent().clone(), path, prompt });
    }
    found.sort_by(|one, other| one.agent.cmp(&other.agent));
    Ok(found)
}

/// Returns the differences from what was recorded.
fn from_record(
    played: &Replay,
    prompt: Option<&(i64, StoredPrompt)>,
    previewer: &RequestPreviewer<'_>,
    agent: &crate::config::Agent,
) -> Result<Vec<Difference>, Failure> {
    let mut found = Vec::new();
    if let Some((began, stored)) = prompt {
        // The stored prompt has this machine's own zone.
        let there = RequestPreviewer { zone: TimeZone::system(), ..previewer.clone() };
        let sections = there.sections(agent, *began)?;
        found.extend(recorded::prompt_differences(&stored.text, &sections));
    }
    found.extend(recorded::differences(played));
    Ok(found)
}

fn read_saved(file: &Path) -> Result<Vec<Replay>, Failure> {
    let bytes = atomic::read(file, MAX_SAVED)?.ok_or_else(|| {
        Failure::new(Kind::Failed, format!("there is no file {}", file.display()))
            .hint("flock replay SESSION --save FILE")
    })?;
    let wrong = |why: String| {
        let text = format!("{} is no saved replay: {why}", file.display());
        Failure::new(Kind::Failed, text).hint("flock replay SESSION --save FILE")
    };
    let saved: SavedReplays = serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))?;
    if saved.format == FORMAT {
        Ok(saved.replays)
    } else {
        Err(wrong(format!("it has format {}, this flock knows {FORMAT}", saved.format)))
    }
}

fn described(played: &Replay, found: &[Difference]) -> Value {
    let step = |step: &crate::agent::replay::ReplayStep| {
        json!({
            "step": step.step,
            "answer": step.answer,
            "model": step.model,
            "messages": step.messages.len(),
            "tools": step.tools,
            "hygiene": step.hygiene.iter().map(|(rule, record)| json!({"rule": rule, "record": record})).collect::<Vec<_>>(),
            "compaction": step.compaction.map(|(before, after)| json!({"before": before, "after": after})),
            "calls": step.calls,
            "request": step.request,
            "problem": step.problem,
        })
    };
    json!({
        "session": played.session,
        "agent": played.agent,
        "steps": played.steps.iter().map(step).collect::<Vec<_>>(),
        "differences": found,
    })
}

fn show(played: &Replay, found: &[Difference], context: &Context) {
    let printer = &context.printer;
    let changed = played.steps.iter().filter(|step| !step.hygiene.is_empty()).count();
    let text = format!(": {} answers, {changed} of their requests changed by hygiene", played.steps.len());
    printer.line(StyledLine::new().accent(played.session.clone()).plain(text));
    if found.is_empty() {
        printer.line(StyledLine::new().plain("  ").with(TextStyle::Good, "nothing differs"));
    }
    for difference in found {
        let place = difference.step.map(|step| format!("answer {step}, ")).unwrap_or_default();
        let line = StyledLine::new().plain("  ").with(TextStyle::Warn, format!("{place}{}", difference.what));
        printer.line(line.plain(format!(": {}", difference.text)));
        for line in difference.lines.iter().take(MAX_LINES) {
            let tone = if line.sign == '+' { TextStyle::Good } else { TextStyle::Bad };
            printer.line(StyledLine::new().plain("    ").with(tone, format!("{}{}", line.sign, line.text)));
        }
        if difference.lines.len() > MAX_LINES {
            printer.line(format!("    {} more lines; --json has all", difference.lines.len() - MAX_LINES));
        }
    }
}
