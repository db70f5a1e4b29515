//! The tool `flock_schedule`, with which an agent asks for a schedule, and lists and removes its own.

use std::sync::Arc;

use crate::clean::summary;
use crate::id::ScheduleName;
use crate::swarm::Actor;
use crate::swarm::schedule::by_agent;
use crate::swarm::task::MAX_SUMMARY;
use crate::swarm::triage::{Request, Triage};
use crate::tool::arguments::Arguments;
use crate::tool::function::FunctionTool;
use crate::tool::{CallContext, Tool, ToolError, ToolResult, team};

/// Returns the tool of this module.
#[must_use]
pub(crate) fn all(triage: &Arc<Triage>) -> Vec<Arc<dyn Tool>> {
    vec![FunctionTool::shared(&team::SCHEDULE, triage, |t, c, a| Box::pin(run(t, c, a)))]
}

async fn run(triage: &Arc<Triage>, context: &CallContext, arguments: Arguments) -> ToolResult {
    arguments.only(&["action", "name", "to", "text", "when"])?;
    let action: Option<String> = arguments.optional("action")?;
    let swarm = triage.swarm();
    match action.as_deref().unwrap_or("list") {
        "list" => Ok(swarm.agent_schedules_text(&context.agent).await?),
        "remove" => {
            let name: String = arguments.required("name")?;
            let name: ScheduleName = name.parse()?;
            swarm.remove_agent_schedule(&Actor::call(context), &context.agent, &name).await?;
            Ok(format!("schedule {name} is removed"))
        }
        "request" => {
            let request = read(context, &arguments)?;
            if let Some(wish) = by_agent::wish_of(&request) {
                swarm.check_agent_schedule(&context.agent, &wish).await?;
            }
            let text: String = arguments.required("text")?;
            // The text explains itself, so it also serves as the reason.
            let reason = summary(&text, MAX_SUMMARY);
            Ok(triage.request(&Actor::call(context), request, &reason, &context.cancel).await?)
        }
        _ => Err(ToolError::model("`action` must be list, request or remove")),
    }
}

fn read(context: &CallContext, arguments: &Arguments) -> Result<Request, ToolError> {
    // Models often send an empty string for a parameter that they do not use.
    let given = |name: &str| -> Result<Option<String>, ToolError> {
        let value: Option<String> = arguments.optional(name)?;
        Ok(value.filter(|text| !text.trim().is_empty()))
    };
    let when: String = arguments.required("when")?;
    let When { cron, every, at, tz } = When::read(&when);
    Ok(Request::Schedule {
        to: given("to")?.unwrap_or_else(|| format!("@{}", context.agent)),
        text: arguments.required("text")?,
        cron,
        every,
        at,
        tz,
    })
}

/// The times that an agent names in one text: a cron pattern, an interval or a single time. A pattern and a time can be
/// followed by a time zone.
#[derive(Debug, Default, PartialEq, Eq)]
struct When {
    cron: Option<String>,
    every: Option<String>,
    at: Option<String>,
    tz: Option<String>,
}

impl When {
    /// Splits a text. The parts are checked later.
    fn read(text: &str) -> Self {
        let words: Vec<&str> = text.split_whitespace().collect();
        // A pattern begins with a nickname, or has five words.
        let pattern = if text.trim_start().starts_with('@') { 1 } else { 5 };
        if words.len() >= pattern {
            let tz = words.get(pattern..).filter(|rest| !rest.is_empty()).map(|rest| rest.join(" "));
            let cron = words.into_iter().take(pattern).collect::<Vec<_>>().join(" ");
            return Self { cron: Some(cron), tz, ..Self::default() };
        }
        match words.as_slice() {
            // A time has a date with two hyphens.
            [word] if !word.contains('-') => Self { every: Some((*word).to_owned()), ..Self::default() },
            [time @ .., zone] if !time.is_empty() && zone.starts_with(|c: char| c.is_alphabetic()) => {
                Self { at: Some(time.join(" ")), tz: Some((*zone).to_owned()), ..Self::default() }
            }
            _ => Self { at: Some(words.join(" ")), ..Self::default() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_names_times_in_one_text() {
        let some = |text: &str| Some(text.to_owned());
        for (text, wanted) in [
            ("0 9 * * 1-5", When { cron: some("0 9 * * 1-5"), ..When::default() }),
            (
                "0 9 * * 1-5  Europe/Berlin",
                When { cron: some("0 9 * * 1-5"), tz: some("Europe/Berlin"), ..When::default() },
            ),
            ("@daily UTC", When { cron: some("@daily"), tz: some("UTC"), ..When::default() }),
            ("2h", When { every: some("2h"), ..When::default() }),
            ("2026-12-01T09:00", When { at: some("2026-12-01T09:00"), ..When::default() }),
            ("2026-12-01 09:00", When { at: some("2026-12-01 09:00"), ..When::default() }),
            (
                "2026-12-01 09:00 UTC",
                When { at: some("2026-12-01 09:00"), tz: some("UTC"), ..When::default() },
            ),
            ("", When { at: some(""), ..When::default() }),
        ] {
            assert_eq!(When::read(text), wanted, "{text}");
        }
    }
}
