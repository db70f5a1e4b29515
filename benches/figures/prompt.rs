//! A system prompt: made from what was read, its hash, and the reading itself.

use std::time::Instant;

use flock::agent::prompt::{Knowledge, PromptContext, SystemPromptBuilder, ToolCallStyle};
use flock::config::Live;

use crate::home::Home;
use crate::{Sample, row, stub};

/// A worker with all its files, notes, vaults and skills, each as large as a prompt takes it.
pub fn run() {
    let bench = Home::new(stub::start());
    bench.fill(3);
    let home = bench.open();
    let live = std::sync::Arc::new(Live::open(home.clone()).unwrap());
    let config = live.current();
    let agent = config.agents.iter().find(|agent| agent.id.as_str() == "agent-2").unwrap();
    let put = |path: std::path::PathBuf, text: &str| {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    let words = "A line of words that says how something is done here.\n".repeat(40);
    for name in flock::agent::prompt::FILES {
        let own = ["HEARTBEAT.md", "BOOTSTRAP.md", "MEMORY.md"].contains(&name);
        put(if own { &agent.workspace } else { &agent.identity }.join(name), &words);
    }
    for n in 0..30 {
        put(home.skills().join(format!("skill-{n}")).join("SKILL.md"), &words);
        put(agent.workspace.join(format!("memory/{n}.md")), "x");
        put(home.vaults().join(format!("vault-{}", n % 4)).join(format!("{n}.md")), "x");
    }
    let tools = flock::tool::catalog::specs();
    let knowledge = Knowledge::read(&home, agent);
    let zone = jiff::tz::TimeZone::system();
    let context = PromptContext {
        agent,
        model: "bench/instant",
        tools: &tools,
        calls: ToolCallStyle::Native,
        knowledge: &knowledge,
        began: 1_772_000_000_000,
        zone: &zone,
    };
    let builder = SystemPromptBuilder::for_team();
    let mut size = 0;
    let build = Sample::of(1_000, || {
        let began = Instant::now();
        size = builder.build(&context).unwrap().len();
        began.elapsed()
    });
    row(&format!("build of a system prompt of {} KB", size / 1024), build);
    let hash = Sample::of(1_000, || {
        let began = Instant::now();
        assert_eq!(context.inputs().len(), 64);
        began.elapsed()
    });
    row("the hash of its inputs", hash);
    let read = Sample::of(200, || {
        let began = Instant::now();
        assert_eq!(Knowledge::read(&home, agent).skills.skills.len(), 30);
        began.elapsed()
    });
    row("reading what it is made from: 8 files, 30 skills, 30 notes, 4 vaults", read);
}
