//! The settings that a command line asks for, and the refusal of those that an agent can't have.

use serde_json::{Value, json};

use super::super::{Failure, add};
use super::Args;
use crate::config::budgets;
use crate::config::setting::{Setting, SettingValue};
use crate::config::{Agent, Network, Role};
use crate::error::Kind;
use crate::id::{AgentId, ModelRef};
use crate::openclaw::RUNTIME;
use crate::runtime::program;

/// The word that removes a setting, so that the common default applies.
pub(crate) const DEFAULT: &str = "default";

/// Returns the settings that the options name, with their new values.
pub(crate) fn given(args: &Args) -> Vec<SettingValue> {
    let word = |text: &str| if text == DEFAULT { Value::Null } else { json!(text) };
    // Without either option the setting stays as it is, which is not the same as `false`.
    let on_host = (args.on_host || args.no_on_host).then(|| json!(args.on_host));
    let hosts: Vec<String> = args.egress.iter().map(ToString::to_string).collect();
    let egress = (args.no_egress || !hosts.is_empty()).then(|| json!(hosts));
    let archetype = |name: &String| if name == "none" { Value::Null } else { json!(name) };
    let all = [
        (Setting::Role, args.role.map(|role| json!(role.as_str()))),
        (Setting::Archetype, args.archetype.as_ref().map(archetype)),
        (Setting::Runtime, args.runtime.as_ref().map(|name| json!(name))),
        (Setting::OnHost, on_host),
        (Setting::Model, args.model.clone()),
        (Setting::Effort, args.effort.as_deref().map(word)),
        (Setting::Autonomy, args.autonomy.map(|autonomy| json!(autonomy.as_str()))),
        (Setting::Memory, args.memory.clone()),
        (Setting::Cpus, args.cpus.clone()),
        (Setting::Disk, args.disk.clone()),
        (Setting::Network, args.network.map(|network| json!(network.as_str()))),
        (Setting::Egress, egress),
        (Setting::BudgetTokens, args.budget_tokens.clone()),
        (Setting::BudgetUsd, args.budget_usd.clone()),
    ];
    all.into_iter().filter_map(|(setting, value)| Some((setting, value?))).collect()
}

/// Refuses settings that another command changes, and names that command.
pub(crate) fn refuse_unchangeable(args: &Args, id: &AgentId) -> Result<(), Failure> {
    let rename = |new: &String| format!("flock rename {id} {new}");
    let set = |folder: &String| format!("flock config set agents.list[{id}].workspace {folder}");
    let install = |packages: &String| format!("flock nix install {id} {}", packages.replace(',', " "));
    // These options are hidden. They exist only to give people who try them the right command.
    let refused = [
        ("the id", args.other_id.as_ref().map(rename)),
        ("the workspace", args.workspace.as_ref().map(set)),
        ("the packages", args.packages.as_ref().map(install)),
    ];
    let Some((what, hint)) = refused.into_iter().find_map(|(what, hint)| Some((what, hint?))) else {
        return Ok(());
    };
    Err(Failure::new(Kind::Usage, format!("another command changes {what} of an agent")).hint(hint))
}

/// Refuses settings that do not fit the agent after the change, which is `now`.
pub(crate) fn check(wanted: &[SettingValue], now: &Agent) -> Result<(), Failure> {
    let usage = |text: String| Failure::new(Kind::Usage, text);
    let is_of_container = |setting: &Setting| {
        matches!(setting, Setting::Network | Setting::Egress | Setting::Memory | Setting::Cpus)
    };
    // Removing a setting is always allowed, even where the setting would have no effect.
    let is_something = |value: &Value| !value.is_null() && *value != "none" && *value != json!([]);
    let limit = wanted.iter().find(|(setting, value)| is_of_container(setting) && is_something(value));
    let id = &now.id;
    if let (Role::Sysadmin, Some((setting, _))) = (now.role, limit) {
        return Err(usage(format!("a sysadmin has no sandbox, so --{} has no effect", setting.name()))
            .hint(format!("flock edit {id} --role worker")));
    }
    if now.on_host && !now.is_run_by_program() {
        let [one, ..] = program::PROGRAMS;
        let text = "--on-host is for agent programs".to_owned();
        return Err(usage(text).hint(format!("flock edit {id} --runtime {} --on-host", one.name())));
    }
    if let Some((setting, _)) = limit.filter(|_| now.runs_on_host()) {
        let text = format!("--{} is for a container, and {id} has none on the host", setting.name());
        return Err(usage(text).hint(format!("flock edit {id} --no-on-host")));
    }
    if wanted.contains(&(Setting::Network, json!("none")))
        && wanted.iter().any(|(setting, value)| *setting == Setting::Egress && is_something(value))
    {
        return Err(usage("--egress needs --network proxy".into()).hint("flock edit --help"));
    }
    if now.runtime == RUNTIME && now.network == Network::Proxy {
        let text = format!("agents on OpenClaw have no network, but agent {id} is configured to have one");
        return Err(usage(text).hint(format!("flock edit {id} --runtime {RUNTIME} --network none")));
    }
    Ok(())
}

/// Formats a value for people.
pub(crate) fn text(setting: Setting, value: &Value) -> String {
    match value {
        Value::Null if setting == Setting::Archetype => "none".to_owned(),
        Value::Null => DEFAULT.to_owned(),
        Value::Bool(is_so) => if *is_so { "yes" } else { "no" }.to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) if items.is_empty() => "none".to_owned(),
        Value::Array(items) => items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

pub(crate) fn model(text: &str) -> Result<Value, String> {
    or_default(text, |text| {
        text.parse::<ModelRef>().map(|model| json!(model.as_str())).map_err(|error| error.to_string())
    })
}

pub(crate) fn memory(text: &str) -> Result<Value, String> {
    or_default(text, |text| add::check_size(text).map(|()| json!(text)))
}

pub(crate) fn disk(text: &str) -> Result<Value, String> {
    // A disk limit takes the same sizes as a memory limit.
    or_default(text, |text| if text == "none" { Ok(json!(text)) } else { memory(text) })
}

pub(crate) fn cores(text: &str) -> Result<Value, String> {
    or_default(text, |text| {
        // The number itself is kept, so that `1.5` is written to the configuration as it was typed.
        let number = number(text, "a number of cores")?;
        add::check_cores(number.as_f64().unwrap_or_default()).map(|()| number)
    })
}

pub(crate) fn tokens(text: &str) -> Result<Value, String> {
    or_default(text, |text| match text.parse::<u64>() {
        Ok(number) => Ok(json!(number)),
        Err(_) => Err(format!("{text:?} is not a number of tokens; write it as in 500000")),
    })
}

pub(crate) fn dollars(text: &str) -> Result<Value, String> {
    or_default(text, |text| {
        let number = number(text, "a number of dollars")?;
        match budgets::micros(&number) {
            Some(_) => Ok(number),
            None => Err(format!("{text} is not a number of dollars from 0 to 1000000000")),
        }
    })
}

fn number(text: &str, what: &str) -> Result<Value, String> {
    let parsed = serde_json::from_str::<Value>(text).ok().filter(Value::is_number);
    parsed.ok_or_else(|| format!("{text:?} is not {what}; write it as in 1.5"))
}

fn or_default(text: &str, read: impl FnOnce(&str) -> Result<Value, String>) -> Result<Value, String> {
    if text == DEFAULT { Ok(Value::Null) } else { read(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_value_is_refused_with_an_example() {
        assert_eq!(memory("2g"), Ok(json!("2g")));
        assert_eq!(memory(DEFAULT), Ok(Value::Null));
        assert_eq!(disk("none"), Ok(json!("none")));
        assert_eq!(cores("2"), Ok(json!(2)));
        assert_eq!(dollars("2.5"), Ok(json!(2.5)));
        assert_eq!(tokens("500000"), Ok(json!(500_000)));
        assert_eq!(model("openai/gpt-5.5"), Ok(json!("openai/gpt-5.5")));
        for refused in
            [memory("1"), memory("none"), cores("0"), cores("x"), dollars("-1"), tokens("1.5"), model("opus")]
        {
            assert!(refused.is_err(), "{refused:?}");
        }
    }

    #[test]
    fn a_value_is_shown_in_words() {
        assert_eq!(text(Setting::Archetype, &Value::Null), "none");
        assert_eq!(text(Setting::Model, &Value::Null), "default");
        assert_eq!(text(Setting::OnHost, &json!(true)), "yes");
        assert_eq!(text(Setting::Egress, &json!(["a.org", "b.org:1"])), "a.org, b.org:1");
        assert_eq!(text(Setting::Cpus, &json!(1.5)), "1.5");
    }
}
