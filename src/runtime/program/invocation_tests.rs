//! The command lines of all programs, and rules that apply to each of them.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::{Value, json};
use uuid::Uuid;

use super::interface::{ConversationStart, Invocation, Program, RunLocation, TurnSpec};
use super::{PROGRAMS, environment, listed, named};
use crate::config::{Api, Effort};
use crate::tool::policy::DisabledTools;

const SYSTEM: &str = "You are \"bob\".\n\nUse ${AvailableTools} and $HOME, '''quotes''' and \\ signs.";
const PROMPT: &str = "[Current Message]\n/help @SOUL.md $skill\0 --version";

pub(super) fn turn<'a>(program: &dyn Program) -> TurnSpec<'a> {
    let api = *APIS.iter().find(|api| program.speaks(**api)).unwrap();
    TurnSpec {
        provider: "provider-1",
        place: RunLocation::Sandbox,
        model: "model-1",
        api: Some(api),
        context_window: 200_000,
        max_tokens: 8_000,
        effort: None,
        system: SYSTEM,
        withheld: DisabledTools::default(),
        prompt: PROMPT,
        conversation: ConversationStart::New(Uuid::from_u128(1)),
        origin: "http://127.0.0.1:3128",
        relay_token: Some("relay-token-1"),
        mcp_token: "mcp-token-1",
        state: Some("/state"),
        user_settings: None,
        files: "/turn",
        workspace: "/workspace",
        probe_answer: None,
    }
}

const APIS: [Api; 7] = [
    Api::OpenAiCompletions,
    Api::OpenAiResponses,
    Api::OpenAiCodexResponses,
    Api::AnthropicMessages,
    Api::GoogleGenerativeAi,
    Api::GoogleGeminiCli,
    Api::BedrockConverseStream,
];

pub(super) fn shown(run: &Result<Invocation, String>) -> String {
    let run = match run {
        Ok(run) => run,
        Err(error) => return format!("refused: {error}\n"),
    };
    let mut shown = String::new();
    for word in &run.arguments {
        let _ = writeln!(shown, "{word:?}");
    }
    for (name, value) in &run.environment {
        let _ = writeln!(shown, "{name}={value}");
    }
    let _ = writeln!(shown, "< {:?}", run.input);
    for file in &run.files {
        let _ = writeln!(shown, "file {}:\n{}\n.", file.name, file.content);
    }
    if let Some(kept) = run.kept {
        let _ = writeln!(shown, "state keeps {}", kept.join(", "));
    }
    for link in run.links {
        let _ = writeln!(shown, "state links {link}");
    }
    for file in &run.state {
        match &file.content {
            Some(content) => {
                let _ = writeln!(shown, "state {}:\n{content}\n.", file.path);
            }
            None => {
                let _ = writeln!(shown, "no state {}", file.path);
            }
        }
    }
    shown
}

fn told(name: &str, probe_answer: Option<&str>) -> String {
    let program = listed(name).unwrap();
    let first = TurnSpec { probe_answer, ..turn(program) };
    let next = TurnSpec {
        conversation: ConversationStart::Resumed("conversation-1"),
        effort: Some(Effort::High),
        ..first.clone()
    };
    let off = TurnSpec { effort: Some(Effort::Off), ..first.clone() };
    let own = TurnSpec {
        place: RunLocation::Host,
        model: "",
        api: None,
        context_window: 0,
        max_tokens: 0,
        relay_token: None,
        state: program.facts().login.and(first.state),
        system: "",
        ..first.clone()
    };
    let without = |commands, writing, reading| TurnSpec {
        withheld: DisabledTools { commands, writing, patching: writing, reading },
        ..first.clone()
    };
    let mut told = String::new();
    let begun = shown(&program.invocation(&first));
    let _ = write!(told, "== new\n{begun}");
    for (title, turn) in [
        ("resumed, effort high", &next),
        ("effort off", &off),
        ("own login, no system prompt", &own),
        ("without commands", &without(true, false, false)),
        ("that may only read", &without(true, true, false)),
        ("without any of its tools", &without(true, true, true)),
    ] {
        let _ = writeln!(told, "\n== {title}: what differs");
        let other = shown(&program.invocation(turn));
        let (a, b): (Vec<&str>, Vec<&str>) = (begun.lines().collect(), other.lines().collect());
        for gone in a.iter().filter(|line| !b.contains(line)) {
            let _ = writeln!(told, "- {gone}");
        }
        for added in b.iter().filter(|line| !a.contains(line)) {
            let _ = writeln!(told, "+ {added}");
        }
    }
    told
}

#[test]
fn claude_code_invocations_match_the_snapshot() {
    insta::assert_snapshot!(told("claude", None));
    let program = listed("claude").unwrap();
    let environment = |turn: TurnSpec<'_>| program.invocation(&turn).unwrap().environment;
    let has = |environment: &[(String, String)], name: &str, value: &str| {
        environment.contains(&(name.to_owned(), value.to_owned()))
    };
    // A model with a small context and a short answer.
    let little = environment(TurnSpec { context_window: 32_768, max_tokens: 1_000, ..turn(program) });
    for (name, value) in [
        ("CLAUDE_CODE_MAX_OUTPUT_TOKENS", "1000"),
        ("CLAUDE_CODE_MAX_CONTEXT_TOKENS", "32768"),
        ("CLAUDE_CODE_AUTO_COMPACT_WINDOW", "100000"),
        ("CLAUDE_CODE_DISABLE_THINKING", "1"),
    ] {
        assert!(has(&little, name, value), "{name}: {little:?}");
    }
    // A model without effort levels gets a number of tokens, but not one that decides itself how much it thinks.
    let budget = |model: &str, effort: Effort, max_tokens: u64| {
        let environment = environment(TurnSpec { model, effort: Some(effort), max_tokens, ..turn(program) });
        let found = environment.into_iter().find(|(name, _)| name == "MAX_THINKING_TOKENS");
        found.map(|(_, value)| value)
    };
    for (model, effort, max_tokens, expected) in [
        ("claude-sonnet-4-5", Effort::Low, 32_000, Some("2048")),
        ("claude-sonnet-4-5", Effort::High, 32_000, Some("16000")),
        ("claude-sonnet-4-5", Effort::High, 8_000, Some("4000")),
        ("claude-sonnet-4-5", Effort::High, 64_000, Some("16384")),
        ("claude-sonnet-4-5", Effort::High, 0, Some("16384")),
        ("claude-sonnet-4-5", Effort::Off, 32_000, None),
        ("claude-opus-4-7", Effort::High, 32_000, None),
        ("model-1", Effort::High, 32_000, None),
    ] {
        assert_eq!(budget(model, effort, max_tokens).as_deref(), expected, "{model} {effort:?} {max_tokens}");
    }
    // A setting for the sandbox is not used on the host, whoever answers.
    let on_host = environment(TurnSpec { place: RunLocation::Host, ..turn(program) });
    assert!(!has(&on_host, "IS_SANDBOX", "1") && has(&on_host, "ANTHROPIC_API_KEY", "relay-token-1"));
    assert!(program.refuses_host(true).is_some() && program.refuses_host(false).is_none());
}

/// Returns a list of models with two entries, as Codex prints it.
pub(super) fn models() -> String {
    let model = |slug: &str, levels: &[&str]| {
        let levels: Vec<Value> = levels.iter().map(|level| json!({"effort": level})).collect();
        json!({
            "slug": slug, "context_window": 272_000, "supports_search_tool": true,
            "supported_reasoning_levels": levels, "base_instructions": "How to work.", "service_tiers": [{"id": "x"}],
        })
    };
    json!({"models": [model("gpt-5.5", &["none", "low"]), model("gpt-6-sol", &["low"]), 3]}).to_string()
}

#[test]
fn codex_invocations_match_the_snapshot() {
    let program = listed("codex").unwrap();
    let probe_answer = program.probe(&turn(program)).unwrap();
    assert_eq!(probe_answer.invocation.arguments, ["debug", "models", "--bundled"]);
    assert!((probe_answer.take)("").is_none() && (probe_answer.take)("{\"models\":[]}").is_none());
    let models = (probe_answer.take)(&models()).unwrap();
    insta::assert_snapshot!(told("codex", Some(&models)));

    let known = TurnSpec {
        probe_answer: Some(&models),
        model: "gpt-6-sol",
        effort: Some(Effort::Off),
        ..turn(program)
    };
    let run = program.invocation(&known).unwrap();
    let list: Value = serde_json::from_str(&run.files[0].content).unwrap();
    assert_eq!(list["models"].as_array().unwrap().len(), 1);
    assert_eq!(list["models"][0]["slug"], "gpt-6-sol");
    assert_eq!(list["models"][0]["supports_search_tool"], false);
    let config = run.state.last().unwrap().content.clone().unwrap();
    assert!(config.contains("model_reasoning_effort = \"low\""), "{config}");
}

#[test]
fn every_program_waits_longer_for_flocks_tools_than_flock_does() {
    let patience = environment::PATIENCE.as_secs();
    for (name, probe_answer, written) in [
        ("claude", None, format!("\"timeout\":{patience}000")),
        ("codex", None, format!("mcp_servers.flock.tool_timeout_sec = {patience}\n")),
        ("gemini", Some("own"), format!("\"timeout\":{patience}000")),
        ("opencode", None, format!("\"timeout\":{patience}000")),
    ] {
        let program = listed(name).unwrap();
        let run = program.invocation(&TurnSpec { probe_answer, ..turn(program) });
        let told = shown(&run);
        assert!(told.contains(&written), "{told}");
    }
}

#[test]
fn settings_of_codex_are_toml() {
    let program = listed("codex").unwrap();
    let system = "a \"quoted\"\n\\ 한 \u{7f}\u{1b}\t '";
    let run = program.invocation(&TurnSpec { system, ..turn(program) }).unwrap();
    let config = run.state.last().unwrap().content.clone().unwrap();
    let line = config.lines().find_map(|line| line.strip_prefix("developer_instructions = ")).unwrap();
    // The value reads alike as JSON and as TOML.
    assert_eq!(serde_json::from_str::<String>(line).unwrap(), system);
    assert!(!config.contains('\u{7f}') && !config.contains('\u{1b}'), "{config:?}");
    let long = "x".repeat(200 << 10);
    let own = TurnSpec { system: &long, relay_token: None, state: None, api: None, ..turn(program) };
    let error = program.invocation(&own).unwrap_err();
    assert!(error.contains("developer_instructions") && error.contains("models.providers"), "{error}");
    assert!(program.invocation(&TurnSpec { system: &long, ..turn(program) }).is_ok());
}

#[test]
fn gemini_cli_invocations_match_the_snapshot() {
    let program = listed("gemini").unwrap();
    let probe_answer = program.probe(&turn(program)).unwrap();
    assert_eq!(probe_answer.file.as_deref(), Some("own-system.md"));
    assert!((probe_answer.take)(" \n").is_none());
    let own = (probe_answer.take)("You work well.\n").unwrap();
    let asked = shown(&Ok(probe_answer.invocation));
    assert!(!asked.contains("token-1") && !asked.contains("/mcp") && !asked.contains("3128"), "{asked}");
    assert!(asked.contains("GEMINI_WRITE_SYSTEM_MD=/state/own-system.md"), "{asked}");
    insta::assert_snapshot!(told("gemini", Some(&own)));

    // With the login of the user, nothing else of the user's settings is taken.
    let with = |user_settings| TurnSpec {
        place: RunLocation::Host,
        api: None,
        relay_token: None,
        probe_answer: Some("You work well."),
        user_settings,
        ..turn(program)
    };
    let chosen =
        "{\"security\": {\"auth\": {\"selectedType\": \"oauth-personal\"}}, \"mcpServers\": {\"x\": {}}}";
    let key = "{\"security\": {\"auth\": {\"selectedType\": \"gemini-api-key\"}}}";
    for (user_settings, kind) in [
        (None, json!({})),
        (Some(chosen), json!({"selectedType": "oauth-personal"})),
        (Some(key), json!({"selectedType": "gemini-api-key"})),
    ] {
        let turn = with(user_settings);
        let run = program.invocation(&turn).unwrap();
        assert!(run.links.contains(&".gemini/oauth_creds.json"));
        assert!(!run.environment.iter().any(|(name, _)| name.contains("KEY") || name.contains("BASE_URL")));
        let has = |wanted: &str| run.environment.iter().any(|(name, _)| name == wanted);
        assert!(has("GEMINI_SYSTEM_MD"));
        assert_eq!(has("GEMINI_EXP"), user_settings == Some(key), "an account has switches of its own");
        let settings: Value = serde_json::from_str(run.state[0].content.as_ref().unwrap()).unwrap();
        assert_eq!(settings["security"]["auth"], kind);
        assert_eq!(settings["mcpServers"].as_object().unwrap().len(), 1);
        let probe_answer = program.probe(&turn).unwrap().invocation;
        assert!(probe_answer.links.is_empty(), "what it is asked first needs no login");
    }
    let error = program.invocation(&with(Some("{,}"))).unwrap_err();
    assert!(error.contains("settings of Gemini CLI's user"), "{error}");

    let missing = program.invocation(&TurnSpec { probe_answer: None, ..turn(program) });
    assert!(missing.unwrap_err().contains("own system prompt"));
    let none = TurnSpec { system: "", ..turn(program) };
    assert!(program.probe(&none).is_none() && program.invocation(&none).is_ok());
    let run = program.invocation(&TurnSpec {
        model: "gemini-2.5-pro",
        effort: Some(Effort::Low),
        probe_answer: Some(&own),
        ..turn(program)
    });
    let settings = run.unwrap().state.pop().unwrap().content.unwrap();
    let settings: Value = serde_json::from_str(&settings).unwrap();
    let change = &settings["modelConfigs"]["customOverrides"][0];
    assert_eq!(change["match"]["model"], "gemini-2.5-pro");
    let generating = &change["modelConfig"]["generateContentConfig"];
    assert_eq!(generating["thinkingConfig"]["thinkingBudget"], 2_048);
    assert_eq!(generating["maxOutputTokens"], 8_000);
    let share = |model: &str, context_window: u64| {
        let run = TurnSpec { model, context_window, probe_answer: Some(&own), ..turn(program) };
        let settings = program.invocation(&run).unwrap().state.pop().unwrap().content.unwrap();
        let settings: Value = serde_json::from_str(&settings).unwrap();
        settings["model"]["compressionThreshold"].as_f64()
    };
    assert_eq!(share("gemini-2.5-pro", 262_144), Some(0.125));
    assert_eq!(share("gemma-4-31b-it", 128_000), Some(0.25));
    assert_eq!(share("gemini-2.5-pro", 1_048_576), None);
}

#[test]
fn opencode_invocations_match_the_snapshot() {
    insta::assert_snapshot!(told("opencode", None));
    let program = listed("opencode").unwrap();
    for (api, sdk, base) in [
        (Api::OpenAiCompletions, "@ai-sdk/openai-compatible", "/relay/completions/v1"),
        (Api::OpenAiResponses, "@ai-sdk/openai", "/relay/responses/v1"),
        (Api::AnthropicMessages, "@ai-sdk/anthropic", "/relay/anthropic/v1"),
        (Api::GoogleGenerativeAi, "@ai-sdk/google", "/relay/google/v1beta"),
    ] {
        let run = program.invocation(&TurnSpec { api: Some(api), model: "a/b:c", ..turn(program) }).unwrap();
        let config = run.environment.iter().find(|(name, _)| name == "OPENCODE_CONFIG_CONTENT").unwrap();
        let config: Value = serde_json::from_str(&config.1).unwrap();
        assert_eq!(config["provider"]["flock"]["npm"], sdk);
        assert_eq!(config["provider"]["flock"]["options"]["baseURL"], format!("http://127.0.0.1:3128{base}"));
        assert_eq!(config["provider"]["flock"]["models"]["a/b:c"]["limit"]["output"], 8_000);
        assert!(run.arguments.iter().any(|word| word == "flock/a/b:c"));
    }
    let odd = TurnSpec { api: Some(Api::BedrockConverseStream), ..turn(program) };
    assert!(program.invocation(&odd).is_err());
}

/// Returns turns of all kinds that a program does not refuse.
fn runs(program: &dyn Program) -> Vec<(TurnSpec<'static>, Invocation)> {
    let first = TurnSpec { probe_answer: Some("What it says itself."), ..turn(program) };
    let mut runs = Vec::new();
    for conversation in [first.conversation, ConversationStart::Resumed("conversation-1")] {
        for (relay_token, state, api) in [
            (first.relay_token, first.state, first.api),
            (first.relay_token, None, first.api),
            (None, program.facts().login.and(first.state), None),
        ] {
            for effort in [None, Some(Effort::Off), Some(Effort::Low), Some(Effort::High)] {
                let turn = TurnSpec { conversation, relay_token, state, api, effort, ..first.clone() };
                if let Ok(run) = program.invocation(&turn) {
                    runs.push((turn, run));
                }
            }
        }
    }
    assert!(runs.len() >= 8, "{}", program.name());
    runs
}

#[test]
fn required_options_are_those_that_turns_use() {
    let long = |program: &dyn Program, word: &str| match word {
        "-c" => "--config".to_owned(),
        "-m" => "--model".to_owned(),
        "-o" => "--output-format".to_owned(),
        "-p" if program.name() == "claude" => "--print".to_owned(),
        "-p" => "--prompt".to_owned(),
        "-s" => "--session".to_owned(),
        other => other.to_owned(),
    };
    // An option that the program has but its help does not list, so the help cannot show if it is missing.
    let unlisted = ["--append-system-prompt-file"];
    for program in PROGRAMS {
        let options = program.facts().options;
        assert!(!options.help.is_empty(), "{}", program.name());
        let runs = runs(program);
        // The word `-` means standard input and is not an option.
        let words = runs.iter().flat_map(|(_, run)| &run.arguments).filter(|word| word.len() > 1);
        let started: BTreeSet<String> =
            words.filter(|word| word.starts_with('-')).map(|word| long(program, word)).collect();
        let asked: BTreeSet<String> = options
            .names
            .iter()
            .chain(unlisted.iter().filter(|_| program.name() == "claude"))
            .map(|name| (*name).to_owned())
            .collect();
        assert_eq!(started, asked, "{}", program.name());
    }
}

#[test]
fn command_lines_and_files_hold_no_secrets() {
    for program in PROGRAMS {
        for (turn, run) in runs(program) {
            let words = run.arguments.join("\n");
            let files = run.files.iter().map(|file| file.content.clone());
            let state = run.state.iter().filter_map(|file| file.content.clone());
            for text in files.chain(state).chain([words.clone(), run.input.clone()]) {
                assert!(!text.contains("relay-token-1") && !text.contains("mcp-token-1"), "{text}");
            }
            assert!(!words.contains("[Current Message]"), "{words}");
            // Codex with its own login has no other place for it.
            assert!(
                !words.contains("You are") || turn.state.is_none() && program.name() == "codex",
                "{words}"
            );
            let tokens: Vec<&str> = run
                .environment
                .iter()
                .filter(|(_, value)| value.contains("-token-1"))
                .map(|(name, _)| name.as_str())
                .collect();
            assert!(!tokens.is_empty() && tokens.len() <= 2, "{tokens:?}");
            assert!(run.environment.iter().all(|(_, value)| !value.contains("You are")));
        }
    }
}

#[test]
fn the_system_prompt_and_the_prompt_are_passed_separately() {
    for program in PROGRAMS {
        for (_, run) in runs(program) {
            let places = run
                .files
                .iter()
                .map(|file| &file.content)
                .chain(run.state.iter().filter_map(|file| file.content.as_ref()));
            let found: usize = places.chain(&run.arguments).map(|text| text.matches("You are").count()).sum();
            assert_eq!(found, 1, "{}", program.name());
            assert!(
                run.input.starts_with("[Current Message]\n/help ") && !run.input.contains('\0'),
                "{:?}",
                run.input
            );
            assert!(!run.input.contains("You are"));
        }
    }
}

#[test]
fn without_the_relay_user_files_are_not_touched() {
    for program in PROGRAMS {
        for (turn, run) in runs(program) {
            let all = shown(&Ok(run.clone()));
            assert_eq!(all.contains("/relay/"), turn.relay_token.is_some(), "{all}");
            assert!(run.links.is_empty() || turn.relay_token.is_none(), "{all}");
            if turn.state.is_none() {
                assert!(run.state.is_empty() && run.links.is_empty() && !all.contains("/state"), "{all}");
            }
            assert!(all.contains("http://127.0.0.1:3128/mcp"), "{all}");
        }
    }
}

#[test]
fn names_are_not_used_twice() {
    for (at, program) in PROGRAMS.iter().enumerate() {
        assert!(PROGRAMS.iter().skip(at + 1).all(|other| other.name() != program.name()));
        assert_eq!(named(program.name()).as_deref().map(Program::name), Some(program.name()));
        assert_eq!(program.version(program.facts().oldest).as_deref(), Some(program.facts().oldest));
        assert!(APIS.iter().any(|api| program.speaks(*api)));
        assert!(!program.speaks(Api::BedrockConverseStream) && !program.speaks(Api::GoogleGeminiCli));
    }
    assert!(named("").is_none() && named("native").is_none());
}
