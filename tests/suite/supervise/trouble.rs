//! Crashes, kills, and files that lie.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use flock::home::lock::Lock;
use flock::process::ProcessId;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{Flock, LONG, gone, pid, send};
use crate::support::wait_until;
use crate::team::stage;

#[test]
fn a_killed_gateway_comes_back() {
    let flock = Flock::started();
    let first = flock.gateway();
    send(first, Signal::SIGKILL);
    let status =
        flock.until("it is back", |status| status["running"] == true && status["gateway"]["restarts"] == 1);
    assert_ne!(pid(&status["gateway"]["pid"]), first);
    assert!(status["gateway"]["reason"].as_str().unwrap().contains("SIGKILL"), "{status:#}");
    assert_eq!(status["gateway"]["crashes"], 1);
}

#[test]
fn a_gateway_whose_supervisor_was_killed_ends_by_itself() {
    let flock = Flock::started();
    let (gateway, supervisor) = (flock.gateway(), flock.supervisor());
    send(supervisor, Signal::SIGKILL);
    gone(gateway);
    flock.flock(["status"]).fails(4);
    flock.flock(["start"]).ok();
    assert_eq!(flock.status()["gateway"]["restarts"], 0);
    flock.flock(["stop"]).ok();
    flock.is_gone();
}

#[test]
fn a_start_right_after_the_supervisor_was_killed_takes_over() {
    let flock = Flock::started();
    for _ in 0..3 {
        let (gateway, supervisor) = (flock.gateway(), flock.supervisor());
        send(supervisor, Signal::SIGKILL);
        flock.flock(["start"]).ok();
        let status = flock.status();
        assert_ne!(pid(&status["gateway"]["pid"]), gateway);
        assert_ne!(pid(&status["supervisor"]["pid"]), supervisor);
        assert_eq!(flock.processes().len(), 1);
    }
}

#[test]
fn a_stop_right_after_the_supervisor_was_killed_leaves_nothing() {
    let flock = Flock::started();
    send(flock.supervisor(), Signal::SIGKILL);
    flock.flock(["stop"]).ok();
    flock.is_gone();
}

#[test]
fn both_killed_leave_nothing_in_the_way() {
    let flock = Flock::started();
    let (gateway, supervisor) = (flock.gateway(), flock.supervisor());
    send(supervisor, Signal::SIGKILL);
    send(gateway, Signal::SIGKILL);
    flock.flock(["start"]).ok();
    assert_eq!(flock.status()["running"], true);
}

#[test]
fn a_turn_during_which_all_is_killed_is_marked_and_the_session_goes_on() {
    let flock = Flock::new();
    let words = "word ".repeat(5000);
    let replies = serde_json::json!({"replies": [
        {"when": "slowly", "steps": [{"say": words, "pace_ms": 20}]},
        {"steps": [{"say": "quick answer"}]},
    ]});
    std::fs::write(flock.file("scripts/test"), replies.to_string()).unwrap();
    flock.flock(["config", "set", "agents.defaults.model.primary", "script/test"]).ok();
    for kill_gateway in [false, true] {
        flock.flock(["start"]).ok();
        let (gateway, supervisor) = (flock.gateway(), flock.supervisor());
        let mut chat = flock
            .command()
            .args(["chat", "orchestrator", "go slowly"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut first = [0; 4];
        chat.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
        // The gateway first: one whose supervisor is gone may end in order before it is killed.
        if kill_gateway {
            send(gateway, Signal::SIGKILL);
        }
        send(supervisor, Signal::SIGKILL);
        assert!(!chat.wait().unwrap().success());
        gone(gateway);
        flock.flock(["start"]).ok();
        assert_eq!(flock.flock(["chat", "orchestrator", "and now"]).ok().stdout, "quick answer\n");
        flock.flock(["stop"]).ok();
        let folder = flock.file("agents/orchestrator/sessions");
        let file = std::fs::read_dir(folder).unwrap().next().unwrap().unwrap().path();
        let transcript = std::fs::read_to_string(file).unwrap();
        let mark = if kill_gateway { "interrupted" } else { "cancelled" };
        assert!(transcript.contains(&format!("\"state\":\"{mark}\"")), "{mark}: {transcript}");
    }
}

#[test]
fn a_crash_loop_ends_and_says_why_until_a_person_starts_again() {
    let flock = Flock::started();
    let config = std::fs::read(flock.file("config.json")).unwrap();
    // The database can't be opened any more; each new gateway ends at once.
    let why = flock.home.database().spoil();
    send(flock.gateway(), Signal::SIGKILL);
    let status = flock.until("the breaker opens", |status| status["gateway"]["state"] == "breaker-open");
    assert_eq!(status["running"], false);
    assert!(status["gateway"]["reason"].as_str().unwrap().contains(why), "{status:#}");
    assert!(status["gateway"]["breakerOpenedAt"].as_i64().unwrap() > 0);
    assert!(flock.file("run/gateway.breaker.json").exists());

    // It is remembered over the supervisor's death, and a supervisor alone does not try again.
    send(flock.supervisor(), Signal::SIGKILL);
    let status = flock.until("nobody supervises", |status| status["supervisor"].is_null());
    assert_eq!(status["gateway"]["state"], "breaker-open");
    let mut front = flock.command();
    front.args(["start", "--foreground"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut front = front.spawn().unwrap();
    let status = flock.until("it supervises", |status| status["supervisor"].is_object());
    assert_eq!(status["gateway"]["state"], "breaker-open");

    // A person's start tries again, and fails with the reason.
    let run = flock.flock(["start"]).fails(1);
    assert!(run.stderr.contains(why), "{run:?}");
    flock.home.database().mend();
    flock.flock(["start"]).ok();
    let status = flock.status();
    assert_eq!(status["running"], true);
    assert_eq!(status["gateway"]["breakerOpenedAt"], serde_json::Value::Null);
    assert!(!flock.file("run/gateway.breaker.json").exists());
    flock.flock(["stop"]).ok();
    assert!(front.wait().unwrap().success());
    assert_eq!(std::fs::read(flock.file("config.json")).unwrap(), config);
}

#[test]
fn a_failed_start_says_why_and_leaves_nothing() {
    let flock = Flock::new();
    let why = flock.home.database().spoil();
    let run = flock.flock(["start"]).fails(1);
    assert!(run.stderr.contains(why), "{run:?}");
    assert!(run.stderr.contains("flock logs gateway"), "{run:?}");
    // The supervisor tells why before it ends, and holds its lock until then.
    let lock = flock.place().supervisor_lock();
    wait_until("the supervisor has ended", LONG, || match Lock::is_held(&lock) {
        Ok(false) => Ok(()),
        held => Err(format!("{held:?}")),
    });
    flock.is_gone();
}

#[test]
fn a_broken_configuration_is_said_before_anything_starts() {
    let flock = Flock::started();
    let gateway = flock.gateway();
    std::fs::write(flock.file("config.json"), "{ nonsense").unwrap();
    flock.flock(["restart"]).fails(1);
    assert!(ProcessId::of(gateway).is_some(), "the one that runs goes on");
    flock.flock(["stop"]).ok();
    flock.flock(["start"]).fails(1);
    assert_eq!(flock.processes(), []);
}

#[test]
fn pid_files_that_lie_are_replaced_and_nobody_else_is_signalled() {
    let flock = Flock::new();
    let mut stranger = Command::new("cat")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let living = ProcessId::of(i32::try_from(stranger.id()).unwrap()).unwrap();
    let reused = ProcessId { started: living.started.saturating_sub(1), ..living };
    for lie in [living.to_string(), reused.to_string(), "nonsense".to_owned(), "1 1".to_owned()] {
        for name in ["gateway.pid", "supervisor.pid"] {
            std::fs::write(flock.file("run").join(name), format!("{lie}\n/tmp/nowhere.sock\n")).unwrap();
        }
        flock.flock(["status"]).fails(4);
        flock.flock(["stop"]).ok();
        for name in ["gateway.pid", "supervisor.pid"] {
            std::fs::write(flock.file("run").join(name), format!("{lie}\n")).unwrap();
        }
        flock.flock(["start"]).ok();
        let written = std::fs::read_to_string(flock.file("run/gateway.pid")).unwrap();
        let gateway = ProcessId::of(flock.gateway()).unwrap();
        assert_eq!(written.lines().next().unwrap(), gateway.to_string());
        flock.flock(["stop"]).ok();
        flock.is_gone();
        assert!(stranger.try_wait().unwrap().is_none(), "the stranger lives: {lie}");
    }
    stranger.kill().unwrap();
    stranger.wait().unwrap();
}

#[test]
fn the_control_socket_bears_nonsense() {
    let flock = Flock::started();
    let socket = flock.file("run/control.sock");
    for nonsense in [b"\n".to_vec(), b"{}\n".to_vec(), vec![b'x'; 100_000], b"\xff\xfe\n".to_vec()] {
        let mut stream = UnixStream::connect(&socket).unwrap();
        // It may hang up while we still write.
        let _ = stream.write_all(&nonsense);
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        assert!(answer.is_empty() || answer.contains("not-understood"), "{answer}");
    }
    let silent: Vec<_> = (0..100).map(|_| UnixStream::connect(&socket).unwrap()).collect();
    drop(silent);
    flock.until("it answers as before", |status| {
        status["running"] == true && status["supervisor"].is_object()
    });
}

#[test]
fn a_gateway_that_was_started_by_hand_is_seen_and_stopped() {
    let flock = Flock::new();
    let mut gateway = flock
        .command()
        .args(["gateway", "serve"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let status = flock.until("it answers", |status| status["running"] == true);
    assert_eq!(status["gateway"]["state"], "unsupervised");
    assert!(status["supervisor"].is_null());
    let reaper = std::thread::spawn(move || gateway.wait().unwrap());
    flock.flock(["stop"]).ok();
    assert!(reaper.join().unwrap().success());
    flock.is_gone();
}

#[test]
fn a_gateway_by_hand_that_nobody_can_reach_is_named_and_left_alone() {
    let flock = Flock::new();
    let _gateway = stage::Served::start(&flock.home);
    let (key, port) = ("plugins.entries.flock.config.gateway.port", flock.port());
    let free = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
    // It goes on at its old port, and there is no supervisor that knows which.
    flock.flock(["config", "set", key, &free.to_string()]).ok();
    let refused = flock.flock(["stop"]).fails(1).stderr;
    assert!(refused.contains("still running: a gateway that no supervisor runs"), "{refused}");
    let refused = flock.flock(["freeze", "--all"]).fails(5).stderr;
    assert!(refused.contains("a gateway that no supervisor runs"), "{refused}");
    flock.flock(["restore", "--yes"]).fails(5);
    flock.flock(["config", "set", key, &port.to_string()]).ok();
    flock.flock(["freeze", "--all"]).ok();
    flock.flock(["stop"]).ok();
    flock.is_gone();
}

#[test]
fn a_supervisor_that_stands_still_is_named_and_ended_at_once() {
    let flock = Flock::started();
    let supervisor = flock.supervisor();
    send(supervisor, Signal::SIGSTOP);
    let stopped = flock.flock(["stop"]).ok();
    let expected = format!("the supervisor (pid {supervisor}) is stopped by a signal or a debugger");
    assert!(stopped.stderr.contains(&expected), "{stopped:?}");
    flock.is_gone();
}

#[test]
fn a_post_waits_for_a_gateway_that_is_coming_back() {
    let flock = Flock::started();
    flock.flock(["channel", "create", "work", "--topic", "x"]).ok();
    for n in 0..3 {
        let gateway = flock.gateway();
        send(gateway, Signal::SIGKILL);
        // A connection that it has taken while it ends breaks, and nothing tells then if the post had arrived.
        gone(gateway);
        let posted = flock.flock(["channel", "post", "work", &format!("number {n}")]).ok();
        assert!(!posted.stderr.contains("the agents are told when"), "it has a gateway: {posted:?}");
    }
    let read = flock.flock(["channel", "read", "work", "--json"]).ok().stdout;
    for n in 0..3 {
        assert_eq!(read.matches(&format!("number {n}")).count(), 1, "{read}");
    }
}

#[test]
fn tokens_sessions_and_titles_wait_for_a_gateway_that_is_coming_back() {
    let flock = Flock::new();
    stage::add(&flock.home, "coder", &serde_json::json!([{"steps": [{"say": "yes"}]}]));
    flock.flock(["start"]).ok();
    flock.flock(["chat", "coder", "are you there?"]).ok();
    let token = |name: &'static str| ["token", "add", name, "--agents", "all", "--rights", "read"];
    flock.flock(token("before")).ok();
    flock.flock(["channel", "create", "work", "--topic", "x"]).ok();
    // A gateway waits for the end of another one; this process stands for that, until all have seen that it is coming.
    let lock = wait_until("the gateway is kept from coming", LONG, || {
        if let Some(gateway) = flock.status()["gateway"]["pid"].as_i64() {
            // It may be gone already, and known to be a moment later.
            let _ = kill(Pid::from_raw(i32::try_from(gateway).unwrap()), Signal::SIGKILL);
        }
        flock::home::lock::Lock::try_acquire(&flock.place().gateway_lock()).map_err(|error| error.to_string())
    });
    let verbs: [&[&str]; 7] = [
        &token("after"),
        &["token", "revoke", "before"],
        &["session", "show", "coder"],
        &["session", "compact", "coder"],
        &["session", "reset", "coder"],
        &["channel", "rename", "work", "Works"],
        &["channel", "topic", "work", "y"],
    ];
    let mut running: Vec<_> = verbs
        .iter()
        .enumerate()
        .map(|(n, args)| {
            let told = flock.outside().join(format!("told-{n}"));
            let mut command = flock.command();
            command.args(*args).stdin(Stdio::null()).stdout(Stdio::null());
            let child = command.stderr(std::fs::File::create(&told).unwrap()).spawn().unwrap();
            (args, told, child)
        })
        .collect();
    let text = |path: &std::path::Path| std::fs::read_to_string(path).unwrap();
    for (args, told, child) in &mut running {
        wait_until(&format!("{args:?} waits"), LONG, || {
            let (told, ended) = (text(told), child.try_wait().unwrap());
            assert!(ended.is_none(), "{args:?}: {told}");
            if told.contains("is being restarted: waiting for it") { Ok(()) } else { Err(told) }
        });
    }
    drop(lock);
    for (args, told, mut child) in running {
        assert!(child.wait().unwrap().success(), "{args:?}: {}", text(&told));
    }
    let tokens = flock.flock(["token", "list", "--json"]).ok().json()["tokens"].clone();
    let is_good = |name: &str| {
        let token = tokens.as_array().unwrap().iter().find(|token| token["name"] == name).unwrap();
        token["revokedAt"].is_null()
    };
    assert!(is_good("after") && !is_good("before"), "{tokens:#}");
}

#[test]
fn a_gateway_that_lost_its_home_is_not_waited_for_without_end() {
    let flock = Flock::started();
    let file = flock.place().instance();
    let own = std::fs::read(&file).unwrap();
    // What runs keeps the id that it has read. So the supervisor calls the gateway healthy, and no verb can use it.
    std::fs::write(&file, "another\n").unwrap();
    for line in [&["freeze", "--all"][..], &["chat", "orchestrator", "hello"]] {
        let refused = flock.flock(line.iter().copied()).fails(5).stderr;
        assert!(refused.contains("does not answer: waiting for it"), "{refused}");
        assert!(refused.contains("runs but does not answer; nothing was changed"), "{refused}");
    }
    std::fs::write(&file, own).unwrap();
    flock.flock(["freeze", "--all"]).ok();
}

#[test]
fn a_second_gateway_waits_for_the_end_of_the_first() {
    let flock = Flock::started();
    let lock = flock.place().gateway_lock();
    assert!(flock::home::lock::Lock::is_held(&lock).unwrap());
    // As after its supervisor and its pid file were lost: nobody knows of the first one.
    let first = flock.gateway();
    let mut second = flock
        .command()
        .args(["gateway", "serve"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    send(flock.supervisor(), Signal::SIGKILL);
    gone(first);
    // Only then it begins.
    let began = wait_until("the second one serves", LONG, || {
        let run = flock.flock(["status", "--json"]);
        if run.json()["running"] == true { Ok(run) } else { Err(format!("{run:?}")) }
    });
    assert_eq!(began.code, 0, "{began:?}");
    send(i32::try_from(second.id()).unwrap(), Signal::SIGTERM);
    second.wait().unwrap();
    assert!(!flock::home::lock::Lock::is_held(&lock).unwrap());
}

#[test]
fn a_renamed_agent_goes_on_in_its_channels_under_its_new_id() {
    let flock = Flock::started();
    let replies = serde_json::json!({"replies": [{"steps": [{"say": "I am here"}]}]});
    std::fs::create_dir_all(flock.file("scripts")).unwrap();
    std::fs::write(flock.file("scripts/one"), replies.to_string()).unwrap();
    flock.flock(["add", "ada", "--no-container", "--model", "script/one"]).ok();
    flock.flock(["channel", "create", "work", "--topic", "x", "--member", "ada"]).ok();
    let answers = |by: &str, count: usize| {
        wait_until("an answer", LONG, || {
            let read = flock.flock(["channel", "read", "work", "--json"]).ok().json();
            let all = read["messages"].as_array().unwrap().clone();
            let own =
                all.iter().filter(|message| message["author"] == by && message["content"] == "I am here");
            if own.count() == count { Ok(()) } else { Err(format!("{all:#?}\n{}", flock.log("gateway"))) }
        });
    };
    flock.flock(["channel", "post", "work", "are you there?"]).ok();
    answers("ada", 1);
    let first = flock.gateway();
    flock.flock(["rename", "ada", "eve"]).ok();
    assert_ne!(flock.gateway(), first, "it was restarted for it");
    answers("eve", 1);
    flock.flock(["channel", "post", "work", "@eve and now?"]).ok();
    answers("eve", 2);
    let said = flock.flock(["chat", "eve", "hello"]).ok();
    assert!(said.stdout.contains("I am here"), "{said:?}");
    flock.flock(["chat", "ada", "hello"]).fails(1);
    assert!(flock.file("agents/eve/sessions").exists() && !flock.file("agents/ada").exists());
    assert!(flock.flock(["audit", "--json"]).ok().stdout.contains("agent.rename"));
}
