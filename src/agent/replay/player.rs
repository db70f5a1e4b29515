//! Walks through a transcript and makes the request for each recorded answer.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::sync::Arc;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::{CallVerdict, FORMAT, PromptSection, Replay, ReplayStep, ReplayedCall, ReplayedCompaction};
use crate::agent::TurnError;
use crate::agent::preview::RequestPreviewer;
use crate::agent::prompt::SectionText;
use crate::agent::transcript::hygiene::AppliedRule;
use crate::agent::transcript::{self, MessageRecord, Record, TranscriptError, TurnPhase};
use crate::config::Agent;
use crate::error::chain;
use crate::id::{ModelRef, hex};
use crate::provider::{Block, Message, Role};
use crate::runtime::NATIVE;
use crate::tool::policy::{self, Decision};

/// Longest line of a transcript that is read, in bytes.
const MAX_LINE: u64 = 64 << 20;
/// The beginning of the result of a call that the policy refused.
const REFUSED: &str = "not run: ";

/// Plays the transcript at a path again, for an agent of the present configuration.
///
/// # Errors
///
/// - [`TurnError::WrongRuntime`] if the agent does not run on flock's own loop: another program writes its own requests.
/// - [`TurnError::Transcript`] if the transcript can't be read.
pub(crate) fn replay(
    previewer: &RequestPreviewer<'_>,
    agent: &Agent,
    path: &Path,
) -> Result<Replay, TurnError> {
    if agent.runtime != NATIVE {
        return Err(TurnError::WrongRuntime { agent: agent.id.clone(), runtime: agent.runtime.clone() });
    }
    let mut made = Replay {
        format: FORMAT,
        session: String::new(),
        agent: agent.id.to_string(),
        prompts: BTreeMap::new(),
        steps: Vec::new(),
        compactions: Vec::new(),
    };
    let Some(file) = transcript::look(path)? else { return Ok(made) };
    let mut player = Player { previewer, agent, file: &file, began: 0, made: &mut made };
    player.play(path)?;
    Ok(made)
}

struct Player<'a, 'p> {
    previewer: &'a RequestPreviewer<'p>,
    agent: &'a Agent,
    file: &'a File,
    /// The time at which the conversation began: that of the header, or of the last reset or compaction.
    began: i64,
    made: &'a mut Replay,
}

impl Player<'_, '_> {
    fn play(&mut self, path: &Path) -> Result<(), TurnError> {
        let fail = TranscriptError::reading(path);
        let mut reader = BufReader::new(self.file.try_clone().map_err(&fail)?);
        let (mut line, mut at) = (Vec::new(), 0u64);
        // A program of another runtime writes its own requests, so its turns are left out.
        let mut is_native = true;
        loop {
            line.clear();
            let read =
                std::io::Read::take(&mut reader, MAX_LINE).read_until(b'\n', &mut line).map_err(&fail)?;
            if read == 0 {
                return Ok(());
            }
            match Record::parse(line.trim_ascii_end()) {
                Ok(Record::Session(header)) => {
                    self.made.session = header.key.to_string();
                    self.began = header.created;
                }
                Ok(Record::Reset(reset)) => self.began = reset.at,
                Ok(Record::Compaction(compaction)) => {
                    // One that a person asked for is no decision of flock's.
                    if is_native && compaction.turn.is_some() {
                        self.compaction(compaction.number, at);
                    }
                    self.began = compaction.at;
                }
                Ok(Record::Turn(turn)) if turn.state == TurnPhase::Started => {
                    is_native = turn.runtime.is_none();
                }
                // The policy decides nothing about a client's tools, and a client's results are no outcomes of flock's.
                Ok(Record::Turn(turn)) if !turn.pending.is_empty() => {
                    if let Some(step) = self.made.steps.last_mut() {
                        let is_clients = |name: &str| turn.pending.iter().any(|call| call.name == name);
                        step.calls.retain(|call| !is_clients(&call.tool));
                    }
                }
                Ok(Record::Message(message)) => match message.message.role {
                    Role::Assistant if is_native && !message.filled && !message.imported => {
                        self.answer(&message, at);
                    }
                    _ => self.results(&message),
                },
                // Other records, and lines that are none, are no part of a request.
                _ => {}
            }
            at += read as u64;
        }
    }

    /// Makes the request for a recorded answer, from what stands before it in the file.
    fn answer(&mut self, answer: &MessageRecord, at: u64) {
        let named = answer.model.as_deref().and_then(|model| model.parse::<ModelRef>().ok());
        let own = self.agent.model.clone();
        let mut step = ReplayStep {
            step: self.made.steps.len() + 1,
            answer: answer.id.clone(),
            calls: answer.message.content.iter().filter_map(|block| call(self.agent, block)).collect(),
            ..ReplayStep::default()
        };
        let mut tried = None;
        for model in named.into_iter().chain(own) {
            let shown = self.previewer.before(self.agent, &model, (self.file, at), self.began);
            step.model = model.to_string();
            let is_made = shown.is_ok();
            tried = Some(shown);
            if is_made {
                break;
            }
        }
        match tried {
            Some(Ok(shown)) => {
                let texts: Vec<&str> = shown.sections.iter().map(|section| section.text.as_str()).collect();
                step.prompt = digest(texts.join("\n\n").as_bytes());
                let sections = || {
                    let section = |section: &SectionText| PromptSection {
                        name: section.name.clone(),
                        text: section.text.clone(),
                    };
                    shown.sections.iter().map(section).collect()
                };
                self.made.prompts.entry(step.prompt.clone()).or_insert_with(sections);
                step.tools = shown.request.tools.iter().map(|tool| tool.name.clone()).collect();
                step.tool_texts = digest_of(&serde_json::to_value(&shown.request.tools).unwrap_or_default());
                let message =
                    |message: &Arc<Message>| digest_of(&serde_json::to_value(&**message).unwrap_or_default());
                step.messages = shown.request.messages.iter().map(message).collect();
                let rule = |applied: &AppliedRule| (applied.rule.name(), applied.message.clone());
                step.hygiene = shown.applied.iter().map(rule).collect();
                step.compaction = shown.compaction.map(|compaction| (compaction.before, compaction.after));
                step.request = digest(&shown.body);
            }
            Some(Err(error)) => step.problem = Some(chain(&error)),
            None => step.problem = Some("the agent has no model".to_owned()),
        }
        self.made.steps.push(step);
    }

    /// Notes whether the present code would compact where the recorded run did.
    fn compaction(&mut self, number: u32, at: u64) {
        let Some(model) = self.agent.model.clone() else { return };
        let shown = self.previewer.before(self.agent, &model, (self.file, at), self.began);
        let Ok(shown) = shown else { return };
        let before_step = self.made.steps.len() + 1;
        self.made.compactions.push(ReplayedCompaction {
            number,
            before_step,
            is_due: shown.compaction.is_some(),
        });
    }

    /// Notes the recorded outcomes of calls.
    fn results(&mut self, message: &MessageRecord) {
        for block in &message.message.content {
            let Block::ToolResult { call_id, content, is_error, .. } = block else { continue };
            let call = self.made.steps.iter_mut().rev().flat_map(|step| &mut step.calls);
            let Some(call) = call.into_iter().find(|call| call.id == *call_id && call.recorded.is_none())
            else {
                continue;
            };
            let text = content.iter().find_map(|block| match block {
                Block::Text { text, .. } => Some(text.as_str()),
                _ => None,
            });
            let is_refused = *is_error && text.is_some_and(|text| text.starts_with(REFUSED));
            call.recorded = Some(if is_refused { CallVerdict::Refuse } else { CallVerdict::Run });
        }
    }
}

/// Returns the call in a block, with the present decision about it.
fn call(agent: &Agent, block: &Block) -> Option<ReplayedCall> {
    let Block::ToolCall { id, name, arguments, .. } = block else { return None };
    let (decision, reason) = match policy::decide(agent, name, arguments) {
        Decision::Allow => (CallVerdict::Run, None),
        Decision::Ask(reason) => (CallVerdict::Ask, Some(reason)),
        Decision::Deny(reason) => (CallVerdict::Refuse, Some(reason)),
    };
    Some(ReplayedCall { id: id.clone(), tool: name.clone(), decision, reason, recorded: None })
}

fn digest(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes)[..8])
}

fn digest_of(value: &Value) -> String {
    digest(value.to_string().as_bytes())
}
