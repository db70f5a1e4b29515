//! `flock prompt show`, with no gateway running.

use crate::support::home::TempHome;

#[test]
fn a_prompt_is_shown_by_section_with_its_sizes() {
    let home = TempHome::new().init();
    let told = home.flock(["prompt", "show", "orchestrator", "--json"]).ok().json();
    let sections = told["sections"].as_array().unwrap();
    let names: Vec<&str> = sections.iter().map(|section| section["name"].as_str().unwrap()).collect();
    let nine =
        ["identity", "tool_honesty", "tools", "safety", "workspace", "date_time", "runtime", "channel_media"];
    assert_eq!(names[..8], nine, "and no skills, because there are none");
    let bytes: u64 = sections.iter().map(|section| section["bytes"].as_u64().unwrap()).sum();
    assert_eq!(told["bytes"], bytes + 2 * (sections.len() as u64 - 1));
    assert_eq!(told["tokens"], told["bytes"].as_u64().unwrap().div_ceil(4));
    let text = sections[2]["text"].as_str().unwrap();
    let tools = told["tools"]["names"].as_array().unwrap();
    assert!(tools.len() > 20 && told["tools"]["tokens"].as_u64().unwrap() > 1000, "{tools:?}");
    for tool in tools {
        assert!(text.contains(tool.as_str().unwrap()), "{tool} is not in {text}");
    }

    let shown = home.flock(["prompt", "show", "orchestrator"]).ok().stdout;
    assert!(shown.starts_with("SECTION"), "{shown}");
    for line in ["--- identity ---", "## Project Context", "### AGENTS.md", "### Active Security Policy"] {
        assert!(shown.lines().any(|found| found == line), "{line}: {shown}");
    }
}

#[test]
fn who_is_not_there_has_no_prompt() {
    let home = TempHome::new();
    home.flock(["prompt", "show", "coder"]).fails(3);
    let home = home.init();
    let told = home.flock(["prompt", "show", "nobody"]).fails(1);
    assert!(told.stderr.contains("nobody"), "{told:#?}");
    let told =
        home.flock(["prompt", "show", "orchestrator", "--session", "agent:sysadmin:flock:main:ann"]).fails(2);
    assert!(told.stderr.contains("flock prompt show sysadmin"), "{told:#?}");
    home.flock(["prompt", "show", "orchestrator", "--session", "agent:orchestrator:flock:main:ann"]).fails(1);
}
