//! Two gateways with homes of their own on one database: each takes some of the agents, and the other takes them over when
//! it is gone. Whatever happens, each message is given once and answered once.

mod bridges;
mod checkpoints;
mod http;
mod packages;
mod quota;
mod schedules;
mod servers;
mod settings;
mod sign_in;
mod trains;
mod upgrade;

use std::path::Path;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::stage::{LIMIT, Served, add, log_text, play, said, transcripts, until_said};
use crate::support::home::{Run, TempHome, free_port};
use crate::support::{postgres, wait_until};

const AGENTS: [&str; 4] = ["ada", "bob", "cat", "dan"];
/// The questions of a test.
const QUESTIONS: usize = 8;

/// Two homes whose gateways use one database. The second one is declared first, so that it ends first: the schema goes with
/// the first.
struct Pair {
    second: TempHome,
    first: TempHome,
}

/// Makes a home with the password of the first one's database, and with images if the first one has some.
fn second_of(first: &TempHome) -> TempHome {
    let has_images = first.has_docker();
    let second = if has_images { TempHome::new().with_docker() } else { TempHome::new() };
    let port = free_port().to_string();
    let more: &[&str] = if has_images { &[] } else { &["--no-images"] };
    second.flock([&["init", "--yes", "--model", "script/demo", "--port", &port], more].concat()).ok();
    std::fs::copy(first.file("secrets/postgres"), second.file("secrets/postgres")).unwrap();
    second
}

/// Has the second home join the gateway of the first one.
fn join(first: &TempHome, second: &TempHome, files: &Path) -> Run {
    let place: serde_json::Value =
        serde_json::from_slice(&std::fs::read(first.file("store.json")).unwrap()).unwrap();
    let (address, schema) = (place["postgres"].as_str().unwrap(), place["schema"].as_str().unwrap());
    second.flock(["gateway", "join", address, "--schema", schema, "--files", files.to_str().unwrap()])
}

/// Makes the first home of a pair, whose agents say nothing, with the channel `open`, in which there is none of them. `None`
/// without a server.
fn quiet_home() -> Option<TempHome> {
    postgres::server()?;
    let first = TempHome::new().init();
    for agent in AGENTS {
        add(&first, agent, &json!([{"steps": [{"say": ""}]}]));
    }
    first.flock(["channel", "create", "open", "--topic", "x", "--member", "human:ann"]).ok();
    Some(first)
}

impl Pair {
    /// Makes them, with a team in the channel `work`. `None` without a server.
    fn new() -> Option<Self> {
        postgres::server()?;
        let first = TempHome::new().init();
        for agent in AGENTS {
            // The time between a question and its answer leaves room for what the test does meanwhile.
            let reply = |number: usize| {
                json!({"when": format!("question {number}."), "steps": [
                    {"say": format!("answer {number} of {agent}"), "delay_ms": if number == QUESTIONS { 3000 } else { 0 }},
                ]})
            };
            let mut replies: Vec<_> = (1..=QUESTIONS).rev().map(reply).collect();
            // A turn that is taken up elsewhere is told so, and has its question above.
            let resumed = format!("answer {QUESTIONS} of {agent}");
            replies.push(json!({"when": "was broken off", "steps": [{"say": resumed}]}));
            replies.push(json!({"steps": [{"say": ""}]}));
            add(&first, agent, &json!(replies));
        }
        let members = AGENTS.iter().flat_map(|agent| ["--member", agent]);
        first.flock(["channel", "create", "work", "--topic", "x"].into_iter().chain(members)).ok();
        Some(Self::of(first, |_| ()))
    }

    /// Makes the second home, with what `prepare` puts there, and has it join the first one.
    fn of(first: TempHome, prepare: impl FnOnce(&TempHome)) -> Self {
        first.flock(["gateway", "invite"]).ok();
        let second = second_of(&first);
        prepare(&second);
        let own_token = second.config()["gateway"]["auth"]["token"].clone();
        let joined = join(&first, &second, &first.path()).ok();
        assert!(joined.stdout.contains("with 6 agents"), "{joined:?}");
        assert_eq!(second.config()["gateway"]["auth"]["token"], own_token);
        Self { second, first }
    }

    /// Starts both gateways and waits until each has some of the agents.
    fn start(&self) -> (Served, Served) {
        let gateways = (Served::start(&self.first), Served::start(&self.second));
        wait_until("each gateway takes some of the agents", LIMIT, || {
            let all = self.count("l.epoch IS NOT NULL");
            let seconds = AGENTS.iter().filter(|agent| self.has(&self.second, agent)).count();
            let is_divided = all == AGENTS.len() + 2 && (1..AGENTS.len()).contains(&seconds);
            is_divided
                .then_some(())
                .ok_or_else(|| format!("{all} agents, {seconds} at the second\n{}", self.logs()))
        });
        gateways
    }

    /// Starts the first gateway, and the second one once the first one has the lease of a subject. If it is the only one of its
    /// kind, the first gateway keeps it.
    fn start_with(&self, kind: &str, subject: &str) -> (Served, Served) {
        let first = Served::start(&self.first);
        self.until_holds(&self.first, kind, subject);
        (first, Served::start(&self.second))
    }

    /// Returns `true` if the gateway of a home has the lease of a subject.
    fn holds(&self, home: &TempHome, kind: &str, subject: &str) -> bool {
        let port = home.port();
        let found = self.first.database().number(&format!(
            "SELECT count(*) FROM lease l JOIN gateway g ON g.epoch = l.epoch
             WHERE l.kind = '{kind}' AND l.subject = '{subject}' AND g.address = '127.0.0.1:{port}'"
        ));
        found == 1
    }

    /// Waits until the gateway of a home has the lease of a subject.
    fn until_holds(&self, home: &TempHome, kind: &str, subject: &str) {
        wait_until("the gateway has the lease", LIMIT, || {
            let holds = self.holds(home, kind, subject);
            holds.then_some(()).ok_or_else(|| format!("{kind} {subject}\n{}", self.logs()))
        });
    }

    fn logs(&self) -> String {
        format!("first:\n{}\nsecond:\n{}", log_text(&self.first), log_text(&self.second))
    }

    /// The number of the agents' leases for which this is true.
    fn count(&self, condition: &str) -> usize {
        let found = self.first.database().number(&format!(
            "SELECT count(*) FROM lease l LEFT JOIN gateway g ON g.epoch = l.epoch
             WHERE l.kind = 'agent' AND {condition}"
        ));
        usize::try_from(found).unwrap()
    }

    /// Returns `true` if the gateway of a home has the agent.
    fn has(&self, home: &TempHome, agent: &str) -> bool {
        self.holds(home, "agent", agent)
    }

    /// Asks all agents one thing, by the gateway of a home.
    fn ask(home: &TempHome, number: usize) {
        home.flock(["channel", "post", "work", &format!("@all question {number}.")]).ok();
    }

    /// Returns the number of turns that run.
    fn running(&self) -> i64 {
        self.first.database().number("SELECT count(*) FROM turn WHERE state = 'running'")
    }

    /// Waits until all agents are at work.
    fn until_all_run(&self) {
        wait_until("all turns run", LIMIT, || {
            let running = self.running();
            (running >= 4).then_some(()).ok_or_else(|| format!("{running} turns\n{}", self.logs()))
        });
    }

    /// Waits until all of them have answered.
    fn until_answered(&self, home: &TempHome, number: usize) {
        for agent in AGENTS {
            until_said(home, "work", agent, &format!("answer {number} of {agent}"));
        }
        // The logs of both say more, if one of the answers does not come.
        assert!(self.first.file("agents").exists());
    }

    /// Checks that each question was given to each agent once, and answered once.
    fn check(&self, home: &TempHome, numbers: &[usize]) {
        let all = said(home, "work");
        for agent in AGENTS {
            let seen = transcripts(&self.first, agent).join("\n");
            for number in numbers {
                let answer = format!("answer {number} of {agent}");
                let answers = all.iter().filter(|(by, text)| by == agent && *text == answer).count();
                assert_eq!(answers, 1, "{answer}: {all:#?}\n{}", self.logs());
                let question = format!("] human:ann: @all question {number}.");
                assert_eq!(
                    seen.matches(&question).count(),
                    1,
                    "{agent}: {question}\n{seen}\n{}",
                    self.logs()
                );
            }
        }
        home.flock(["audit", "--verify"]).ok();
    }
}

#[test]
fn two_gateways_divide_the_agents_and_one_takes_over_after_a_kill() {
    let Some(pair) = Pair::new() else { return };
    let (first, second) = pair.start();
    // Each hears of what came by the other one.
    for (home, number) in [(&pair.first, 1), (&pair.second, 2), (&pair.first, 3)] {
        Pair::ask(home, number);
        pair.until_answered(&pair.first, number);
    }
    // The second one dies while its agents are at work.
    Pair::ask(&pair.first, QUESTIONS);
    pair.until_all_run();
    second.kill();
    pair.until_answered(&pair.first, QUESTIONS);
    wait_until("the first gateway has all agents", LIMIT, || {
        let all = AGENTS.iter().all(|agent| pair.has(&pair.first, agent));
        all.then_some(()).ok_or_else(|| pair.logs())
    });
    Pair::ask(&pair.first, 4);
    pair.until_answered(&pair.first, 4);
    // It comes back, and gets some of them again.
    let second = Served::start(&pair.second);
    wait_until("the second gateway has agents again", LIMIT * 2, || {
        let any = AGENTS.iter().any(|agent| pair.has(&pair.second, agent));
        any.then_some(()).ok_or_else(|| pair.logs())
    });
    Pair::ask(&pair.second, 5);
    pair.until_answered(&pair.second, 5);
    // One that ends in order gives up its agents at once.
    first.stop();
    Pair::ask(&pair.second, 6);
    pair.until_answered(&pair.second, 6);
    pair.check(&pair.second, &[1, 2, 3, 4, 5, 6, QUESTIONS]);
    second.stop();
}

#[test]
fn a_transcript_that_can_not_be_read_holds_up_no_other_agent() {
    let Some(pair) = Pair::new() else { return };
    let (_first, second) = pair.start();
    Pair::ask(&pair.first, 1);
    pair.until_answered(&pair.first, 1);
    Pair::ask(&pair.first, QUESTIONS);
    pair.until_all_run();
    let lost = AGENTS.into_iter().find(|agent| pair.has(&pair.second, agent)).unwrap();
    second.kill();
    // A folder can't be read as a file, whoever tries it.
    for entry in std::fs::read_dir(pair.first.file(format!("agents/{lost}/sessions"))).unwrap() {
        let path = entry.unwrap().path();
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
    }
    for agent in AGENTS.into_iter().filter(|agent| *agent != lost) {
        until_said(&pair.first, "work", agent, &format!("answer {QUESTIONS} of {agent}"));
    }
    wait_until("the log names the turn", LIMIT, || {
        let text = log_text(&pair.first);
        text.contains("failed to take up a turn").then_some(()).ok_or(text)
    });
}

#[test]
fn a_gateway_that_was_paused_and_replaced_ends_and_changes_nothing() {
    let Some(pair) = Pair::new() else { return };
    let (_first, second) = pair.start();
    Pair::ask(&pair.first, 1);
    pair.until_answered(&pair.first, 1);
    let paused = Pid::from_raw(i32::try_from(second.pid()).unwrap());
    kill(paused, Signal::SIGSTOP).unwrap();
    Pair::ask(&pair.first, 2);
    pair.until_answered(&pair.first, 2);
    kill(paused, Signal::SIGCONT).unwrap();
    wait_until("the paused gateway ends", LIMIT, || {
        let text = log_text(&pair.second);
        text.contains("another gateway has taken over").then_some(()).ok_or(text)
    });
    Pair::ask(&pair.first, 3);
    pair.until_answered(&pair.first, 3);
    pair.check(&pair.first, &[1, 2, 3]);
    let audit = pair.first.flock(["audit", "--json"]).ok().stdout;
    assert!(audit.contains("gateway.replaced") && audit.contains("gateway.join"), "{audit}");
    let doctor = pair.first.flock(["doctor", "--json"]);
    assert!(
        doctor.stdout.contains("use the database") || doctor.stdout.contains("uses the database"),
        "{doctor:?}"
    );
}

#[test]
fn a_gateway_that_was_replaced_is_started_again_and_has_not_crashed() {
    let Some(pair) = Pair::new() else { return };
    let _first = Served::start(&pair.first);
    pair.second.flock(["start"]).ok();
    let gateway = || pair.second.flock(["status", "--json"]).json()["gateway"].clone();
    let before = gateway()["pid"].as_i64().unwrap();
    let paused = Pid::from_raw(i32::try_from(before).unwrap());
    kill(paused, Signal::SIGSTOP).unwrap();
    let address = format!("127.0.0.1:{}", pair.second.port());
    wait_until("the paused gateway is ended", LIMIT, || {
        let ended = pair.first.database().number(&format!(
            "SELECT count(*) FROM gateway WHERE ended_at IS NOT NULL AND address = '{address}'"
        ));
        (ended == 1).then_some(()).ok_or_else(|| pair.logs())
    });
    kill(paused, Signal::SIGCONT).unwrap();
    let status = wait_until("its supervisor has started it again", LIMIT, || {
        let status = gateway();
        let is_back = status["state"] == "healthy" && status["pid"].as_i64().is_some_and(|pid| pid != before);
        if is_back { Ok(status) } else { Err(format!("{status:#}")) }
    });
    assert_eq!((&status["replacements"], &status["crashes"]), (&json!(1), &json!(0)), "{status:#}");
    assert!(status["reason"].as_str().unwrap().contains("exit code 11"), "{status:#}");
    let shown = pair.second.flock(["status"]).ok().stdout;
    assert!(shown.contains("replaced by another gateway 1 times"), "{shown}");
    let log = std::fs::read_to_string(pair.second.file("logs/supervisor.log")).unwrap();
    assert!(log.contains("gateway was replaced by another one, starting again soon"), "{log}");
    assert!(!pair.second.file("run/gateway.breaker.json").exists());
    pair.second.flock(["stop"]).ok();
}

#[test]
fn a_change_of_the_configuration_reaches_the_other_gateway() {
    let Some(pair) = Pair::new() else { return };
    let _gateways = pair.start();
    for (from, to, agent) in [(&pair.first, &pair.second, "eve"), (&pair.second, &pair.first, "fay")] {
        // The files of both are those of the first.
        play(&pair.first, agent, &json!([{"when": "hello", "steps": [{"say": "here I am"}]}]));
        from.flock(["add", agent, "--no-container", "--model", &format!("script/{agent}")]).ok();
        wait_until("the other gateway knows the agent", LIMIT, || {
            let listed = to.flock(["list", "--json"]).ok().stdout;
            listed.contains(agent).then_some(()).ok_or_else(|| format!("{listed}\n{}", pair.logs()))
        });
        from.flock(["channel", "assign", "work", "--add", agent]).ok();
        to.flock(["channel", "post", "work", &format!("@{agent} hello")]).ok();
        until_said(to, "work", agent, "here I am");
    }
    let [one, two] =
        [&pair.first, &pair.second].map(|home| home.config()["gateway"]["auth"]["token"].clone());
    assert_ne!(one, two, "each keeps its own token");
}

#[test]
fn the_second_place_is_that_of_all_gateways() {
    let Some(pair) = Pair::new() else { return };
    let place = tempfile::tempdir().unwrap();
    let settings = json!({"kind": "folder", "path": place.path()}).to_string();
    pair.first.flock(["config", "set", "plugins.entries.flock.config.storage.blobs", &settings]).ok();
    let first = Served::start(&pair.first);
    pair.until_holds(&pair.first, "clock", "");
    let second = Served::start(&pair.second);
    let owner = |home: &TempHome| home.flock(["storage", "check", "--json"]).ok().json()["owner"].clone();
    let copied = |home: &TempHome| {
        wait_until("the conversations are copied", LIMIT, || {
            let shown = home.flock(["status", "--json"]).json()["storage"]["conversations"].clone();
            let is_copied = shown["copiedAt"].is_i64() && shown["failed"] == json!([]);
            is_copied.then_some(()).ok_or_else(|| format!("{shown}\n{}", pair.logs()))
        });
        assert_eq!([owner(&pair.first), owner(&pair.second)], [json!("this"), json!("this")]);
        std::fs::read(place.path().join("flock.json")).unwrap()
    };
    Pair::ask(&pair.first, 1);
    pair.until_answered(&pair.first, 1);
    let mark = copied(&pair.first);
    // Whoever takes over goes on, and nobody has to say that the place is this team's.
    first.kill();
    pair.until_holds(&pair.second, "clock", "");
    Pair::ask(&pair.second, 2);
    pair.until_answered(&pair.second, 2);
    assert_eq!(copied(&pair.second), mark);
    // So it does with the vaults, which are in the folder that both see.
    let vault = pair.first.file("vaults/notes");
    std::fs::create_dir_all(&vault).unwrap();
    std::fs::write(vault.join("plan.md"), "one").unwrap();
    wait_until("the vault is copied", LIMIT, || {
        let is_copied = place.path().join("vaults/records/notes").exists();
        is_copied.then_some(()).ok_or_else(|| pair.logs())
    });
    // A gateway that was upgraded finds a mark that its earlier version has made for it alone.
    second.stop();
    let instance = std::fs::read_to_string(pair.second.file("data/instance")).unwrap();
    let id = instance.lines().next().unwrap();
    let digest = Sha256::digest(format!("owner of blobs\0{id}"));
    let home = digest[..16].iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
    let old = json!({"format": 1, "home": home, "since": 7});
    std::fs::write(place.path().join("flock.json"), old.to_string()).unwrap();
    let record = json!({"place": place.path()}).to_string();
    std::fs::write(pair.second.file("data/blobs.json"), record).unwrap();
    let first = Served::start(&pair.first);
    pair.until_holds(&pair.first, "clock", "");
    pair.first.flock(["storage", "check"]).fails(5);
    let second = Served::start(&pair.second);
    wait_until("the mark is that of all", LIMIT, || {
        let run = pair.first.flock(["storage", "check"]);
        if run.code == 0 { Ok(()) } else { Err(format!("{run:?}\n{}", pair.logs())) }
    });
    first.stop();
    second.stop();
}

#[test]
fn the_data_of_an_agent_is_deleted_only_after_its_gateway_has_given_it_up() {
    let Some(pair) = Pair::new() else { return };
    let _gateways = pair.start();
    let agent = AGENTS.into_iter().find(|agent| pair.has(&pair.second, agent)).unwrap();
    Pair::ask(&pair.first, QUESTIONS);
    pair.until_all_run();
    pair.first.flock(["remove", agent, "--purge", "--yes"]).ok();
    let owned = pair.count(&format!("l.subject = '{agent}' AND l.epoch IS NOT NULL"));
    assert_eq!(owned, 0, "{agent}\n{}", pair.logs());
    for folder in ["agents", "workspaces"] {
        assert!(!pair.first.file(folder).join(agent).exists(), "{agent}: {folder}\n{}", pair.logs());
    }
}

#[test]
fn a_second_gateway_needs_an_invitation_and_the_files() {
    if postgres::server().is_none() {
        return;
    }
    let first = TempHome::new().init();
    let second = second_of(&first);
    first.flock(["channel", "create", "work", "--topic", "x"]).ok();
    let refused = join(&first, &second, &first.path()).fails(1);
    assert!(refused.stderr.contains("has invited no others"), "{refused:?}");
    let before = second.config_text();
    first.flock(["gateway", "invite"]).ok();
    first.flock(["gateway", "invite"]).ok();
    let refused = join(&first, &second, &second.outside()).fails(1);
    assert!(refused.stderr.contains("does not have the files"), "{refused:?}");
    assert_eq!(second.config_text(), before, "nothing was changed");
    assert!(!second.file("store.json").exists() && !second.file("files").exists());
    join(&first, &second, &first.path()).ok();
    // A machine that has not mounted them does not start.
    std::fs::rename(first.file("flock-files"), first.file("mark")).unwrap();
    let refused = second.flock(["gateway", "serve"]).fails(1);
    assert!(refused.stderr.contains("does not have the files"), "{refused:?}");
    std::fs::rename(first.file("mark"), first.file("flock-files")).unwrap();
    // While another gateway uses the database, the group stays.
    let served = Served::start(&second);
    let refused = first.flock(["gateway", "invite", "--end"]).fails(5);
    assert!(refused.stderr.contains("another gateway uses the database"), "{refused:?}");
    served.stop();
    first.flock(["gateway", "invite", "--end"]).ok();
    let served = Served::start(&first);
    let refused = second.flock(["gateway", "serve"]).fails(5);
    assert!(refused.stderr.contains("another gateway uses the database"), "{refused:?}");
    served.stop();
}
