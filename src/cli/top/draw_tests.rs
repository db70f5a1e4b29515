use ratatui::Terminal;
use ratatui::backend::TestBackend;
use serde_json::json;

use super::*;
use crate::ui::pager::PagerRow;

fn top() -> Top {
    top_with(&json!({}))
}

/// A team whose status has more.
fn top_with(more: &serde_json::Value) -> Top {
    let activity = |state: &str, detail: &str| {
        json!({"state": state, "since": 1_000_000, "detail": detail, "turn": null,
            "session": "agent:coder:flock:main:ann", "request": null})
    };
    let mut answers = json!({
        "agents": [
            {"id": "coder", "role": "worker", "model": "script/x", "sandbox": "docker",
                "activity": activity("working", "exec\u{1b}[2J\u{202e}")},
            {"id": "scout", "role": "worker", "model": null, "sandbox": "off",
                "frozen": {"since": 1, "by": "human:ann", "reason": "it \u{202e}loops"},
                "activity": activity("frozen", "human:ann")},
        ],
        "gateway": {"version": "0.2.0", "uptimeMs": 61_000, "memoryBytes": 40 << 20, "turns": {"running": 1, "waiting": 2},
            "config": {"problem": null}, "docker": {"problem": "engine is gone"},
            "containers": [{"agent": "coder", "state": "running",
                "probe": {"at": 1_000_000, "confined": false, "findings": ["x"]}}]},
        "usage": {"agents": [{"agent": "coder", "costMicros": [0, 10_000, 80_000]}]},
        "requests": [{"state": "waiting"}],
    });
    let gateway = answers["gateway"].as_object_mut().unwrap();
    gateway.extend(more.as_object().unwrap().clone());
    let mut top = Top::default();
    top.take(Snapshot::parse(answers).unwrap());
    top
}

fn drawn(top: &Top, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let look = Look { has_color: false, now: 1_065_000 };
    terminal
        .draw(|frame| {
            draw(frame, top, look);
        })
        .unwrap();
    terminal.backend().to_string()
}

#[test]
fn the_agents_are_shown_on_screens_of_every_size() {
    let top = top();
    for (width, height) in [(40, 10), (80, 24), (200, 50)] {
        let text = drawn(&top, width, height);
        for word in ["flock 0.2.0", "1 running, 2 waiting", "coder", "> working", "# frozen", "1m", "$0.09"] {
            assert!(text.contains(word), "{word} at {width}x{height}:\n{text}");
        }
        assert!(text.contains("container engine: engine is gone"), "{text}");
        assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text:?}");
    }
    let wide = drawn(&top, 200, 50);
    for word in
        ["worker", "uses exec", "running, NOT CONFINED (1) 1m ago", "script/x", "▁█", "by human:ann: it "]
    {
        assert!(wide.contains(word), "{word}:\n{wide}");
    }
}

#[test]
fn several_engines_are_shown_with_their_state_and_an_agent_says_that_its_own_is_silent() {
    let engine = |name: &str, memory: serde_json::Value, agents: serde_json::Value| {
        json!({"name": name, "address": "unix:///run/x.sock", "runtime": null, "labels": [], "memory": memory,
            "memoryUsed": 2048_u64 << 20, "draining": false, "reachable": true, "problem": null, "hint": null,
            "agents": agents})
    };
    let placed = json!([{"id": "coder", "movesTo": null, "waits": null}]);
    let mut second = engine("second", json!(4096_u64 << 20), placed);
    let shown = |second: &serde_json::Value| {
        let local = engine("local", json!(null), json!([]));
        let mut top = top_with(&json!({"engines": [local, second]}));
        top.selected = Some("coder".to_owned());
        drawn(&top, 200, 50)
    };
    let text = shown(&second);
    assert!(text.contains("local: ready, 0 agents, 2048 MiB"), "{text}");
    assert!(text.contains("second: ready, 1 agent, 2048 of 4096 MiB"), "{text}");
    assert!(text.contains("on engine second"), "{text}");
    second["draining"] = json!(true);
    assert!(shown(&second).contains("second: draining, 1 agent"));
    second["reachable"] = json!(false);
    second["problem"] = json!("it hangs\u{1b}[2J");
    second["hint"] = json!("start it");
    let text = shown(&second);
    for word in ["second: does not answer", "engine: it hangs", ": start it", "engine second does not answer"]
    {
        assert!(text.contains(word), "{word}:\n{text}");
    }
    assert!(!text.contains("NOT CONFINED") && !text.contains('\u{1b}'), "{text}");
    let one = drawn(&top(), 200, 50);
    assert!(!one.contains("engines  ") && !one.contains("on engine"), "{one}");
}

#[test]
fn several_gateways_are_shown_with_their_state_and_one_is_not() {
    let gateway = |name: &str, port: u16, agents: &[&str]| {
        json!({"epoch": port, "name": name, "address": format!("127.0.0.1:{port}"), "version": "0.2.0", "startedAt": 1,
            "silentMs": 900, "own": port == 1, "leases": {}, "agents": agents, "turns": {"running": 1, "waiting": 0}})
    };
    let box_one = gateway("box", 1, &["coder"]);
    let shown = |second: &serde_json::Value| {
        let third = gateway("rack", 3, &[]);
        drawn(&top_with(&json!({"gateways": [box_one, second, third]})), 200, 50)
    };
    let mut second = gateway("box", 2, &["scout", "writer"]);
    let text = shown(&second);
    for part in [
        "gateways  box at 127.0.0.1:1: running, 1 agent, this one  ",
        "box at 127.0.0.1:2: running, 2 agents  rack: running, 0 agents ",
    ] {
        assert!(text.contains(part), "{part}:\n{text}");
    }
    second["version"] = json!("0.3.0\u{1b}[2J");
    second["turns"] = json!(null);
    let text = shown(&second);
    assert!(text.contains("box at 127.0.0.1:2: does not answer, 2 agents, version 0.3.0"), "{text}");
    assert!(!text.contains('\u{1b}'), "{text:?}");
    second["silentMs"] = json!(7_200);
    assert!(shown(&second).contains("box at 127.0.0.1:2: silent for 7 s, 2 agents"));
    let gateways = [json!(null), json!([]), json!([box_one])];
    for text in gateways.map(|gateways| drawn(&top_with(&json!({"gateways": gateways})), 200, 50)) {
        assert!(!text.contains("gateways"), "{text}");
    }
}

#[test]
fn a_second_place_is_shown_with_the_copies_that_wait_and_fail() {
    let copies = |failed: &serde_json::Value| {
        let conversations = json!({"copiedAt": null, "waiting": [], "failed": []});
        let vaults = json!({"copiedAt": 1_000_000, "waiting": [], "failed": [{"vault": "notes"}]});
        json!({"place": "/mnt/nas\u{1b}[2J", "conversations": conversations, "vaults": vaults,
            "checkpoints": {"copiedAt": 1_000_000, "waiting": ["scout", "writer"], "failed": failed}})
    };
    let problem = json!([{"agent": "coder", "since": 1, "message": "it is full", "hint": "make room"}]);
    let at = crate::clock::local(1_000_000);
    for (failed, end) in [(json!([]), ""), (problem, ", failing: coder: flock doctor")] {
        let text = drawn(&top_with(&json!({"storage": copies(&failed)})), 240, 50);
        let copied = format!("  checkpoints copied {at}, waiting: scout, writer{end}  ");
        let vaults = format!("vaults copied {at}, failing: notes: flock doctor");
        for word in ["storage  /mnt/nas", copied.as_str(), "no conversations copied yet", vaults.as_str()] {
            assert!(text.contains(word), "{word}:\n{text}");
        }
        assert!(!text.contains('\u{1b}'), "{text:?}");
    }
    // Nothing is known of copies yet.
    let early = json!({"place": "/mnt/nas", "checkpoints": null, "conversations": null});
    let text = drawn(&top_with(&json!({"storage": early})), 200, 50);
    assert!(text.contains("storage  /mnt/nas") && !text.contains("copied"), "{text}");
    assert!(!drawn(&top(), 200, 50).contains("storage"));
}

#[test]
fn the_newest_backup_and_the_server_of_the_database_are_shown() {
    let more = json!({"backup": {"at": 1_000_000, "file": "/mnt/nas/home\u{1b}[2J.flock"},
        "database": {"kind": "postgres", "address": "db:5432/team, schema flock"}});
    let text = drawn(&top_with(&more), 200, 50);
    let made = format!("backup  made {}: /mnt/nas/home", crate::clock::local(1_000_000));
    for word in [made.as_str(), "database  PostgreSQL at db:5432/team, schema flock"] {
        assert!(text.contains(word), "{word}:\n{text}");
    }
    assert!(!text.contains('\u{1b}'), "{text:?}");
    for more in [json!({}), json!({"database": {"kind": "sqlite"}})] {
        let text = drawn(&top_with(&more), 200, 50);
        assert!(!text.contains("backup") && !text.contains("database"), "{text}");
    }
}

#[test]
fn a_click_is_on_the_agent_that_is_shown_there() {
    let mut top = top();
    for (width, height) in [(40, 10), (120, 30)] {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        let mut rows = Rows::default();
        let look = Look { has_color: false, now: 0 };
        terminal.draw(|frame| rows = draw(frame, &top, look)).unwrap();
        let text = terminal.backend().to_string();
        let line = |id: &str| text.lines().position(|line| line.contains(&format!("{id} "))).unwrap();
        for (place, agent) in top.agents().iter().enumerate() {
            let row = u16::try_from(line(&agent.id)).unwrap();
            assert_eq!(rows.at(3, row), Some(place), "{} of\n{text}", agent.id);
        }
        assert_eq!(rows.at(3, 0), None);
    }
    press_help(&mut top);
    let mut terminal = Terminal::new(TestBackend::new(80, 20)).unwrap();
    let look = Look { has_color: false, now: 0 };
    terminal.draw(|frame| assert_eq!(draw(frame, &top, look).at(3, 8), None)).unwrap();
}

fn press_help(top: &mut Top) {
    top.on_key(crossterm::event::KeyCode::Char('?').into(), 5);
}

#[test]
fn no_size_and_no_view_panics() {
    let mut top = top();
    let rows = vec![PagerRow { name: "what      ".to_owned(), text: "x".repeat(500) }];
    let request = RequestView {
        id: "r-1".to_owned(),
        sha256: String::new(),
        rows,
        can_be_approved: true,
        top: 3,
        is_read: false,
        asks: false,
    };
    let channels = vec![("dev".to_owned(), "the work".to_owned()); 60];
    for view in [
        View::Team,
        View::Help,
        View::ConfirmAll { freeze: true },
        View::Channels { channels, at: 59 },
        View::Request(request),
    ] {
        top.view = view;
        for (width, height) in [(1, 1), (2, 3), (10, 2), (40, 10), (80, 24), (200, 50), (300, 2)] {
            drawn(&top, width, height);
        }
    }
    drawn(&Top::default(), 40, 10);
}

#[test]
fn a_lost_gateway_is_said_and_the_last_answer_stays() {
    let mut top = top();
    top.lost = Some("the gateway ended: waiting for it".to_owned());
    let text = drawn(&top, 40, 10);
    assert!(text.contains("! the gateway ended") && text.contains("coder"), "{text}");
}
