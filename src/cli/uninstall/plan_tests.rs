//! Tests of the plan of an uninstall.

use super::*;
use crate::home::elsewhere::Mark;

const HOME: &str = "/home/ann/.flock";

fn entry(name: &str) -> HomeEntry {
    HomeEntry { name: name.into(), link: None, empty: false, draft: false }
}

/// A home as `init` and some use leave it.
fn used_home() -> HomeFacts {
    let names =
        ["agents", "config.json", "data", "gateways", "logs", "run", "secrets", "version", "workspaces"];
    HomeFacts {
        there: true,
        proven: true,
        entries: names.map(entry).to_vec(),
        engine: EngineFacts::Found(EngineObjects {
            containers: vec!["flock-nix-daemon".into()],
            ..EngineObjects::default()
        }),
        ..HomeFacts::default()
    }
}

fn unreachable(suspect: bool) -> EngineFacts {
    EngineFacts::Silent { reason: "no answer".to_owned(), suspect }
}

const ALL: UninstallRequest = UninstallRequest { openclaw: false, purge: false, force: false };
const PURGE: UninstallRequest = UninstallRequest { purge: true, ..ALL };
const BUNDLE: UninstallRequest = UninstallRequest { openclaw: true, ..ALL };

fn plan_of(facts: &HomeFacts, request: UninstallRequest) -> UninstallPlan {
    plan(Path::new(HOME), facts, request).unwrap()
}

/// Returns each step as one word, with the names of its files.
fn step_words(plan: &UninstallPlan) -> Vec<String> {
    let names =
        |paths: &[PathBuf]| paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" ");
    let word = |step: &UninstallStep| match step {
        UninstallStep::Service(path) => format!("service {}", path.display()),
        UninstallStep::Stop { .. } => "stop".to_owned(),
        UninstallStep::StopOpenClaw => "stop openclaw".to_owned(),
        UninstallStep::Engine { all, .. } => if *all { "engine" } else { "engine: openclaw" }.to_owned(),
        UninstallStep::OpenClaw(paths) => format!("openclaw {}", names(paths)),
        UninstallStep::Files(paths) => format!("files {}", names(paths)),
        UninstallStep::Empty(_) => "empty".to_owned(),
        UninstallStep::Home => "home".to_owned(),
    };
    plan.steps.iter().map(word).collect()
}

fn kept(plan: &UninstallPlan) -> Vec<String> {
    plan.kept.iter().map(|(path, _)| path.display().to_string()).collect()
}

fn left(plan: &UninstallPlan) -> Vec<&str> {
    plan.left.iter().map(|left| left.what.as_str()).collect()
}

#[test]
fn user_data_is_kept_unless_purged() {
    let mut facts = used_home();
    facts.running = true;
    facts.services = vec!["/etc/systemd/system/flock.service".into()];
    let plan = plan_of(&facts, ALL);
    let service = "service /etc/systemd/system/flock.service";
    assert_eq!(step_words(&plan), [service, "stop", "engine", "files logs run", "empty"]);
    assert_eq!(kept(&plan), ["workspaces", "agents", "secrets", "config.json", "version", "data"]);
    let plan = plan_of(&facts, PURGE);
    let data = "files workspaces agents secrets config.json version data";
    assert_eq!(step_words(&plan), [service, "stop", "engine", "files logs run", "empty", data, "home"]);
    assert!(plan.kept.is_empty());
}

#[test]
fn workspaces_on_other_machines_are_left_and_named() {
    let mark = Mark { engine: "far".parse().unwrap(), volume: "flock-ws-ada-0123".to_owned() };
    for (cluster, mend) in [
        (None, "docker volume rm flock-ws-ada-0123, on the machine of far"),
        (
            Some("k8s://work/flock".parse().unwrap()),
            "kubectl delete pvc flock-ws-ada-0123 --namespace flock --context work",
        ),
    ] {
        let place = RemoteWorkspace { agent: "ada".parse().unwrap(), mark: mark.clone(), cluster };
        let facts = HomeFacts { remote_workspaces: vec![place], ..used_home() };
        for request in [ALL, PURGE] {
            let plan = plan_of(&facts, request);
            assert_eq!(left(&plan), ["the workspace of ada"]);
            assert_eq!(plan.left[0].mend.as_deref(), Some(mend));
            assert!(plan.left[0].why.contains("if this home is a copy"), "{:?}", plan.left[0].why);
        }
    }
}

#[test]
fn a_partly_removed_home_has_a_plan() {
    let made = |names: &[&str], proven| HomeFacts {
        there: true,
        proven,
        entries: names.iter().map(|name| entry(name)).collect(),
        ..HomeFacts::default()
    };
    let mut killed_init = made(&["agents", "data", "run"], false);
    killed_init.entries.iter_mut().for_each(|entry| entry.empty = true);
    let mut draft = made(&["data", "run"], true);
    draft.entries.push(HomeEntry { draft: true, ..entry(".new-a1b2c3") });
    let mut bundle = made(&["gateways", "openclaw"], true);
    bundle.openclaw = vec!["openclaw".into(), "gateways/openclaw/2026.2.9-0123456789ab".into()];
    let logged =
        HomeFacts { entries: ["gateways", "logs", "openclaw"].map(entry).to_vec(), ..bundle.clone() };
    let staging = HomeFacts { openclaw: vec!["gateways/openclaw/.staging".into()], ..used_home() };
    let with_bundle = "openclaw openclaw gateways/openclaw/2026.2.9-0123456789ab";
    for (state, facts, expected) in [
        ("no home", HomeFacts::default(), vec![]),
        (
            "no home, and containers of it",
            HomeFacts { engine: used_home().engine, ..HomeFacts::default() },
            vec!["engine"],
        ),
        ("an init killed right after it made the folder", made(&[], false), vec!["home"]),
        ("an init killed at its first step", killed_init, vec!["empty", "home"]),
        (
            "an init killed while it wrote the configuration",
            draft,
            vec!["stop", "files .new-a1b2c3 run", "files data", "home"],
        ),
        ("only a bundle", bundle, vec![with_bundle, "empty", "home"]),
        (
            "a bundle, which alone proves whose its logs are",
            logged,
            vec!["files logs", with_bundle, "empty", "home"],
        ),
        (
            "a half-built bundle",
            staging,
            vec![
                "stop",
                "engine",
                "openclaw gateways/openclaw/.staging",
                "files logs run",
                "empty",
                "files workspaces agents secrets config.json version data",
                "home",
            ],
        ),
    ] {
        assert_eq!(step_words(&plan_of(&facts, PURGE)), expected, "{state}");
    }
    assert!(
        plan_of(&HomeFacts::default(), ALL).is_idle() && plan_of(&HomeFacts::default(), BUNDLE).is_idle()
    );
}

#[test]
fn a_folder_that_nothing_proves_to_be_flocks_is_left_alone() {
    let mut facts = HomeFacts { proven: false, ..used_home() };
    facts.engine = EngineFacts::default();
    facts.entries[4].empty = true;
    facts.openclaw = vec!["gateways/openclaw/x".into()];
    for request in [ALL, PURGE] {
        let plan = plan_of(&facts, request);
        assert_eq!(step_words(&plan), ["empty"]);
        assert_eq!(plan.steps[0], UninstallStep::Empty(vec!["logs".into()]));
        assert_eq!(left(&plan), [HOME]);
    }
    assert!(plan_of(&facts, BUNDLE).is_idle());
}

#[test]
fn without_an_engine_the_rest_is_removed_and_leftovers_named() {
    let facts = HomeFacts { engine: unreachable(true), ..used_home() };
    let plan = plan_of(&facts, PURGE);
    let data = "files workspaces agents secrets config.json version data";
    assert_eq!(
        step_words(&plan),
        ["stop", "files logs", "empty", data, "home"],
        "`run` says that it has to be asked"
    );
    assert_eq!(plan.unseen.len(), 1);
    assert_eq!(plan.unseen[0].mend.as_deref(), Some("flock --home /home/ann/.flock uninstall"));
    // Without a sign that an engine was ever used, nothing counts as unfinished.
    let facts = HomeFacts { engine: unreachable(false), ..used_home() };
    let plan = plan_of(&facts, PURGE);
    assert!(plan.unseen.is_empty() && step_words(&plan).contains(&"files logs run".to_owned()));
    assert_eq!(left(&plan), ["containers, volumes and images"]);
}

#[test]
fn foreign_entries_are_kept_and_named() {
    let mut facts = used_home();
    facts.entries.push(entry("notes.txt"));
    facts.entries.push(entry("openclaw"));
    facts.entries.push(HomeEntry { link: Some("/srv/logs".into()), ..entry("vaults") });
    facts.workspaces = vec!["/home/ann/project".into()];
    facts.program = Some(("/home/ann/.local/bin/flock".into(), "rm /home/ann/.local/bin/flock".to_owned()));
    let program = "/home/ann/.local/bin/flock";
    let plan = plan_of(&facts, ALL);
    assert_eq!(left(&plan), ["notes.txt", "openclaw", "/home/ann/project", program]);
    let plan = plan_of(&facts, PURGE);
    assert_eq!(left(&plan), ["notes.txt", "openclaw", "/srv/logs", "/home/ann/project", program]);
    let files = step_words(&plan).join(" ");
    assert!(files.contains("vaults") && !files.contains("notes.txt"), "{files}");
}

#[test]
fn openclaw_is_removed_alone_unless_agents_use_it() {
    let mut facts = used_home();
    facts.openclaw = vec!["openclaw".into()];
    facts.openclaw_state =
        vec!["gateways/openclaw/state".into(), "gateways/openclaw/state-of-2026.9.6-aa".into()];
    facts.running = true;
    let steps = ["stop openclaw", "engine: openclaw", "openclaw openclaw"];
    let plan_now = plan_of(&facts, BUNDLE);
    assert_eq!(step_words(&plan_now), steps);
    assert_eq!(kept(&plan_now), ["gateways/openclaw/state", "gateways/openclaw/state-of-2026.9.6-aa"]);
    let purged = plan_of(&facts, UninstallRequest { purge: true, ..BUNDLE });
    assert_eq!(
        step_words(&purged)[2],
        "openclaw gateways/openclaw/state gateways/openclaw/state-of-2026.9.6-aa openclaw"
    );
    facts.on_openclaw = OpenClawAgents::Agents(vec!["coder".into(), "tester".into()]);
    let refused = plan(Path::new(HOME), &facts, BUNDLE).unwrap_err();
    assert!(refused.message.contains("coder, tester") && refused.message.contains("--force"), "{refused:?}");
    let hint = "flock config set 'plugins.entries.flock.config.gatewayAgents[coder].runtime' native";
    assert_eq!(refused.hint.as_deref(), Some(hint));
    assert_eq!(step_words(&plan_of(&facts, UninstallRequest { force: true, ..BUNDLE })), steps);
    // Removing all of flock does not depend on the agents that use OpenClaw.
    assert!(step_words(&plan_of(&facts, ALL)).contains(&"openclaw openclaw".to_owned()));
    facts.on_openclaw = OpenClawAgents::Unknown("line 3".into());
    assert!(plan(Path::new(HOME), &facts, BUNDLE).unwrap_err().message.contains("line 3"));
    facts.running = false;
    assert_eq!(step_words(&plan_of(&facts, BUNDLE))[0], "stop openclaw", "then nothing needs it now");
}

#[test]
fn what_an_update_of_flock_left_goes_with_it() {
    let facts = HomeFacts { own_updates: Some("gateways/flock".into()), ..used_home() };
    for request in [ALL, PURGE] {
        let steps = step_words(&plan_of(&facts, request));
        let at = |wanted: &str| steps.iter().position(|step| step.contains(wanted)).unwrap();
        assert!(at("gateways/flock") < at("empty"), "{steps:?}");
    }
}

#[test]
fn every_entry_that_flock_creates_is_known() {
    let layout = include_str!("../../home/layout.rs");
    let names: Vec<&str> = layout
        .split("self.root.join(\"")
        .skip(1)
        .map(|rest| rest.split('"').next().unwrap())
        .chain(layout.contains("gateways").then_some("gateways"))
        .collect();
    assert!(names.len() > 15, "{names:?}");
    let strange: Vec<&&str> = names.iter().filter(|name| !is_known(name)).collect();
    assert!(strange.is_empty(), "an uninstall takes these for somebody else's: {strange:?}");
}
