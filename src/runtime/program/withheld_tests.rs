use uuid::Uuid;

use super::super::interface::{ConversationStart, StateFile, TurnSpec};
use super::super::invocation_tests::{models, shown, turn};
use super::super::listed;
use super::*;

/// Returns the words of a setting: names of tools that a program may use, or may not.
fn words_between<'a>(told: &'a str, before: &str, after: &str) -> Vec<&'a str> {
    let (_, rest) = told.split_once(before).unwrap();
    let list = rest.split_once(after).unwrap().0;
    list.split(',').map(|name| name.trim_matches('"')).collect()
}

#[test]
fn disabled_tools_are_in_no_tool_list() {
    for bits in 0..16_u8 {
        let [commands, writing, patching, reading] = [1, 2, 4, 8].map(|bit| bits & bit > 0);
        let withheld = DisabledTools { commands, writing, patching, reading };
        let told = |name: &str, probe_answer: Option<&str>| {
            let program = listed(name).unwrap();
            assert!(program.facts().withholds);
            let [new, resumed] =
                [ConversationStart::New(Uuid::from_u128(1)), ConversationStart::Resumed("1")].map(
                    |conversation| {
                        shown(&program.invocation(&TurnSpec {
                            withheld,
                            probe_answer,
                            conversation,
                            ..turn(program)
                        }))
                    },
                );
            (new, resumed)
        };
        let (new, resumed) = told("claude", None);
        for told in [new, resumed] {
            let tools = words_between(&told, "\"--tools\"\n", "\n");
            for (name, is_withheld) in [
                ("Bash", commands),
                ("Write", writing),
                ("Edit", writing),
                ("NotebookEdit", writing),
                ("Read", reading),
                ("Glob", reading),
                ("Grep", reading),
                ("TodoWrite", false),
            ] {
                assert_eq!(tools.contains(&name), !is_withheld, "{name}: {tools:?}");
            }
        }
        let (new, resumed) = told("codex", Some(&models()));
        for told in [new, resumed] {
            assert_eq!(told.contains("\"--disable\"\n\"shell_tool\""), commands, "{told}");
            assert_eq!(told.contains("\"--disable\"\n\"view_image\""), reading, "{told}");
            assert_eq!(told.contains(r#""shell_type":"disabled""#), commands, "{told}");
            assert_eq!(told.contains(r#""apply_patch_tool_type":null"#), patching, "{told}");
        }
        let (new, resumed) = told("gemini", Some("own"));
        for told in [new, resumed] {
            let tools = words_between(&told, r#""tools":{"exclude":["#, "]");
            for (name, is_withheld) in [
                ("run_shell_command", commands),
                ("read_background_output", commands),
                ("write_file", writing),
                ("replace", writing),
                ("read_file", reading),
                ("glob", reading),
                ("web_fetch", true),
            ] {
                assert_eq!(tools.contains(&name), is_withheld, "{name}: {tools:?}");
            }
        }
        let (new, resumed) = told("opencode", None);
        for told in [new, resumed] {
            let denied = words_between(&told, r#""permission":{"#, "}");
            for (name, is_withheld) in [
                ("bash", commands),
                ("edit", patching),
                ("read", reading),
                ("grep", reading),
                ("glob", reading),
                ("list", reading),
                ("task", true),
            ] {
                let denial = format!("{name}\":\"deny");
                assert_eq!(denied.contains(&denial.as_str()), is_withheld, "{name}: {denied:?}");
            }
        }
    }
}

#[test]
fn agent_files_are_not_run_if_commands_are_disabled() {
    for commands in [false, true] {
        let withheld = DisabledTools { commands, ..DisabledTools::default() };
        let run = |name: &str, probe_answer| {
            let program = listed(name).unwrap();
            program.invocation(&TurnSpec { withheld, probe_answer, ..turn(program) }).unwrap()
        };
        let searcher = StateFile { path: "cache/opencode/bin".to_owned(), content: None };
        assert_eq!(run("opencode", None).state.contains(&searcher), commands);
        let kept = run("gemini", Some("own")).kept.unwrap();
        assert_eq!(kept.contains(&".cache"), !commands, "{kept:?}");
        assert!(kept.contains(&".gemini/tmp") && kept.contains(&"own-system.md"), "{kept:?}");
        let repository = ("GIT_DIR".to_owned(), "/dev/null".to_owned());
        assert_eq!(environment(withheld), commands.then_some(repository));
    }
}

#[test]
fn codex_is_not_started_if_its_tools_cannot_be_disabled() {
    let program = listed("codex").unwrap();
    let withheld = DisabledTools { commands: true, ..DisabledTools::default() };
    for probe_answer in [None, Some(""), Some("{}"), Some(r#"{"models": []}"#)] {
        let error = program.invocation(&TurnSpec { withheld, probe_answer, ..turn(program) }).unwrap_err();
        assert!(error.contains("kept from its tools"), "{error}");
        assert!(program.invocation(&TurnSpec { probe_answer, ..turn(program) }).is_ok());
    }
}
