//! The questions of `flock edit` without options: one for each setting, with its present value as the default.

use serde_json::{Value, json};

use super::super::Failure;
use super::values;
use crate::agent::prompt::archetype;
use crate::config::setting::{self, Setting, SettingValue};
use crate::config::{Agent, Role, SandboxMode};
use crate::home::Home;
use crate::openclaw::RUNTIME;
use crate::runtime::NATIVE;
use crate::runtime::program::{self, Program};
use crate::ui::ask::{self, SelectItem};

/// Asks for the settings and returns those whose answer differs from the present value.
pub(crate) fn settings(home: &Home, document: &Value, agent: &Agent) -> Result<Vec<SettingValue>, Failure> {
    ask::begin(&format!("Settings of {}", agent.id));
    let now = |setting| setting::get(document, &agent.id, setting);
    let typed = |setting, question: &str, read: fn(&str) -> Result<Value, String>| {
        text(setting, question, &now(setting), read).map(|value| (setting, value))
    };
    let roles = [Role::Worker, Role::Orchestrator, Role::Sysadmin].map(Role::as_str);
    let role = choose_word("Role", &roles, &now(Setting::Role))?;
    let mut names = vec!["none".to_owned()];
    names.extend(archetype::names(&home.archetypes()));
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let archetype = choose_word("Archetype", &names, &now(Setting::Archetype))?;
    let runtimes: Vec<&str> =
        [NATIVE, RUNTIME].into_iter().chain(program::PROGRAMS.map(Program::name)).collect();
    let runtime = choose_word("Runtime", &runtimes, &now(Setting::Runtime))?;
    // An empty answer can't clear a setting by accident: the default word does that.
    let model = typed(Setting::Model, "Model", values::model)?;
    let efforts = [values::DEFAULT, "off", "low", "medium", "high"];
    let effort = choose_word("Reasoning effort of its model", &efforts, &now(Setting::Effort))?;
    let mut answers = vec![
        (Setting::Role, json!(role)),
        (Setting::Archetype, if archetype == "none" { Value::Null } else { json!(archetype) }),
        (Setting::Runtime, json!(runtime)),
        model,
        (Setting::Effort, if effort == values::DEFAULT { Value::Null } else { json!(effort) }),
    ];
    // A sysadmin and an agent on the host have no container that these limits could apply to.
    if role != Role::Sysadmin.as_str() && agent.sandbox == SandboxMode::All {
        answers.push(typed(Setting::Memory, "Memory limit of its container", values::memory)?);
        answers.push(typed(Setting::Cpus, "Limit of cores of its container", values::cores)?);
    }
    answers.push(typed(Setting::BudgetTokens, "Limit of tokens in one day", values::tokens)?);
    answers.push(typed(Setting::BudgetUsd, "Limit of dollars in one day", values::dollars)?);
    answers.retain(|(setting, value)| *value != now(*setting));
    ask::end("That is all there is to ask");
    Ok(answers)
}

/// Lets a person choose one of these words. The present value is preselected.
fn choose_word<'a>(question: &str, words: &[&'a str], now: &Value) -> Result<&'a str, Failure> {
    let items: Vec<SelectItem> =
        words.iter().map(|word| SelectItem { label: (*word).to_owned(), note: String::new() }).collect();
    let first = words.iter().position(|word| now == word).unwrap_or_default();
    let place = ask::choose(question, &items, first)?;
    Ok(words[place])
}

/// Asks for a value that `read` accepts, or for the word that removes the setting.
fn text(
    setting: Setting,
    question: &str,
    now: &Value,
    read: fn(&str) -> Result<Value, String>,
) -> Result<Value, Failure> {
    let question = format!("{question}, or \"{}\"", values::DEFAULT);
    let answer = ask::text(&question, &values::text(setting, now), move |text| read(text).map(drop))?;
    // The prompt has already checked the answer with `read`, so this fallback is never used.
    Ok(read(&answer).unwrap_or_else(|_| now.clone()))
}
