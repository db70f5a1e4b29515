//! The ordinary life: start, look, restart, stop.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use flock::process::ProcessId;
use nix::sys::signal::Signal;

use super::{Flock, LONG, pid, send};
use crate::support::home::TempHome;
use crate::support::{copy_program, flock_binary, wait_until};

#[test]
fn start_status_stop_leave_nothing() {
    let flock = Flock::new();
    flock.flock(["status"]).fails(4);
    flock.flock(["stop"]).ok();

    let started = flock.flock(["start"]).ok();
    assert_eq!(started.stdout, format!("http://127.0.0.1:{}\n", flock.port()));
    let status = flock.flock(["status", "--json"]).ok().json();
    assert_eq!(status["running"], true);
    assert_eq!(status["gateway"]["proven"], true);
    assert_eq!(status["gateway"]["state"], "healthy");
    assert_eq!(status["gateway"]["restarts"], 0);
    for process in ["gateway", "supervisor"] {
        assert!(status[process]["memoryBytes"].as_u64().unwrap() > 1 << 20, "{status:#}");
        assert_eq!(status[process]["version"], env!("CARGO_PKG_VERSION"));
        assert!(ProcessId::of(pid(&status[process]["pid"])).is_some());
    }
    assert_eq!(status["docker"]["reachable"], false, "there is no engine here, and it runs all the same");
    let docker = &status["docker"];
    assert!(docker["problem"].as_str().unwrap().ends_with(": its socket is not there"), "{docker}");
    assert_eq!(docker["hint"], "sudo systemctl start docker");
    let text = flock.flock(["status"]).ok().stdout;
    assert!(text.contains("mend it with sudo systemctl start docker"), "{text}");
    assert!(flock.flock(["status"]).ok().stdout.contains("healthy"));

    let socket = flock.file("run/control.sock");
    assert_eq!(std::fs::metadata(socket).unwrap().permissions().mode() & 0o777, 0o600);

    let (gateway, supervisor) = (flock.gateway(), flock.supervisor());
    let stopped = flock.flock(["stop", "--json"]).ok().json();
    assert_eq!((&stopped["stopped"], &stopped["orderly"]), (&true.into(), &true.into()));
    flock.is_gone();
    assert!(ProcessId::of(gateway).is_none());
    assert!(ProcessId::of(supervisor).is_none(), "it had let go of its lock, but not ended");
    assert!(flock.flock(["stop"]).ok().stderr.contains("nothing is running"));
    flock.flock(["status"]).fails(4);
}

#[test]
fn a_second_start_says_that_it_runs() {
    let flock = Flock::started();
    let gateway = flock.gateway();
    let again = flock.flock(["start", "--json"]).ok().json();
    assert_eq!(again["already"], true);
    assert_eq!(pid(&again["pid"]), gateway);
    assert!(flock.flock(["start"]).ok().stderr.contains("already"));
}

#[test]
fn of_many_starts_at_once_one_wins_and_all_say_that_it_runs() {
    let flock = Flock::new();
    let starts: Vec<_> = (0..6)
        .map(|_| {
            let mut command = flock.command();
            command.arg("start").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
            command.spawn().unwrap()
        })
        .collect();
    let url = format!("http://127.0.0.1:{}\n", flock.port());
    for start in starts {
        let output = start.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}\n{}", flock.log("supervisor"));
        assert_eq!(String::from_utf8(output.stdout).unwrap(), url);
    }
    assert_eq!(flock.processes().len(), 1);
    assert_eq!(flock.log("supervisor").matches("gateway started").count(), 1);
}

#[test]
fn restart_is_another_process_of_the_same_home() {
    let flock = Flock::started();
    let (gateway, supervisor) = (flock.gateway(), flock.supervisor());
    flock.flock(["restart"]).ok();
    let status = flock.status();
    assert_ne!(pid(&status["gateway"]["pid"]), gateway);
    assert_ne!(pid(&status["supervisor"]["pid"]), supervisor);
    assert_eq!(status["gateway"]["restarts"], 0, "a person's restart is no crash");

    flock.flock(["stop"]).ok();
    flock.flock(["restart"]).ok();
    assert_eq!(flock.status()["running"], true, "a restart of nothing is a start");
}

#[test]
fn a_restart_takes_the_environment_and_the_program_of_who_asks() {
    let flock = Flock::started();
    let newer = flock.outside().join("flock-of-tomorrow");
    copy_program(flock_binary().as_ref(), &newer);
    let mut restart = std::process::Command::new(&newer);
    restart
        .env_clear()
        .envs(flock.command().get_envs().filter_map(|(name, value)| Some((name, value?))))
        .env("LATER", "installed-since")
        .arg("restart")
        .stdin(Stdio::null());
    assert!(restart.status().unwrap().success());
    let status = flock.status();
    for name in ["gateway", "supervisor"] {
        let pid = pid(&status[name]["pid"]);
        assert_eq!(std::fs::read_link(format!("/proc/{pid}/exe")).unwrap(), newer, "{name}");
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap();
        let has = environment.split(|byte| *byte == 0).any(|entry| entry == b"LATER=installed-since");
        assert!(has, "{name}");
    }
}

#[test]
fn a_restart_of_what_a_service_manager_holds_says_what_replaces_it() {
    let flock = Flock::new();
    let mut front = flock.command();
    front.args(["start", "--foreground"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut front = front.spawn().unwrap();
    wait_until("it runs", LONG, || {
        let status = flock.flock(["status", "--json"]).json();
        if status["running"] == true { Ok(()) } else { Err(status.to_string()) }
    });
    let supervisor = flock.supervisor();
    let run = flock.flock(["restart"]).ok();
    assert!(run.stderr.contains("a service manager runs the supervisor"), "{run:?}");
    assert_eq!(flock.supervisor(), supervisor);
    flock.flock(["stop"]).ok();
    assert!(front.wait().unwrap().success());
}

#[test]
fn a_start_keeps_nothing_of_the_terminal_or_the_caller() {
    let flock = Flock::new();
    // A pipe that the caller holds open besides the three streams must end with the caller.
    let (mut reader, writer) = std::io::pipe().unwrap();
    use std::os::fd::AsRawFd as _;
    nix::fcntl::fcntl(&writer, nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::empty())).unwrap();
    assert!(writer.as_raw_fd() > 2);
    flock.flock(["start"]).ok();
    drop(writer);
    let reading = std::thread::spawn(move || std::io::Read::read(&mut reader, &mut [0; 1]).unwrap());
    wait_until("the pipe ends", LONG, || {
        if reading.is_finished() { Ok(()) } else { Err("somebody holds it".to_owned()) }
    });
    let supervisor = flock.supervisor();
    let stat = std::fs::read_to_string(format!("/proc/{supervisor}/stat")).unwrap();
    let fields: Vec<i64> = stat
        .rsplit_once(')')
        .unwrap()
        .1
        .split_whitespace()
        .skip(1)
        .take(4)
        .map(|word| word.parse().unwrap())
        .collect();
    let [parent, group, session, terminal] = fields[..] else { panic!("{stat}") };
    assert_ne!(parent, i64::from(std::process::id()), "it is not our child");
    assert_eq!(group, i64::from(supervisor));
    assert_ne!(session, i64::from(supervisor), "it leads no session, so it never gets a terminal");
    assert_ne!(session, i64::from(nix::unistd::getsid(None).unwrap().as_raw()));
    assert_eq!(terminal, 0);
    assert_eq!(std::fs::read_link(format!("/proc/{supervisor}/cwd")).unwrap(), std::path::Path::new("/"));
}

#[test]
fn the_foreground_stops_with_a_signal() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let flock = Flock::new();
        let mut front = flock.command();
        front
            .args(["start", "--foreground"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut front = front.spawn().unwrap();
        let status = flock.until("it runs", |status| status["running"] == true);
        assert_eq!(status["supervisor"]["foreground"], true);
        assert_eq!(pid(&status["supervisor"]["pid"]), i32::try_from(front.id()).unwrap());
        flock.flock(["start"]).ok();
        send(i32::try_from(front.id()).unwrap(), signal);
        assert!(front.wait().unwrap().success());
        flock.is_gone();
    }
}

#[test]
fn the_foreground_ends_with_the_reason_when_starting_again_is_no_use() {
    let flock = Flock::new();
    let other = std::net::TcpListener::bind(("127.0.0.1", flock.port())).unwrap();
    std::fs::write(flock.file("version"), "999\n").unwrap();
    let run = flock.flock(["start", "--foreground"]).fails(7);
    assert!(run.stderr.contains("format 999"), "{run:?}");
    drop(other);
}

#[test]
fn a_home_with_a_very_long_path_works_the_same() {
    let outer = TempHome::new();
    let home = outer.outside().join("x".repeat(120)).join("home");
    let run = |args: &[&str]| {
        let mut command = outer.command();
        command.env("FLOCK_HOME", &home).args(args).stdin(Stdio::null());
        crate::support::home::finish(&mut command)
    };
    let port = crate::support::home::free_port().to_string();
    run(&["init", "--yes", "--no-images", "--model", "script/demo", "--port", &port]).ok();
    run(&["start"]).ok();
    assert!(run(&["start"]).ok().stderr.contains("already"));
    let status = run(&["status", "--json"]).ok().json();
    assert_eq!(status["gateway"]["state"], "healthy");
    assert!(!home.join("run/control.sock").exists());
    run(&["stop"]).ok();
    run(&["status"]).fails(4);
}

#[test]
fn a_newer_home_is_looked_at_and_not_touched() {
    let flock = Flock::new();
    std::fs::write(flock.file("version"), "999\n").unwrap();
    let status = flock.flock(["status", "--json"]).fails(4).json();
    assert_eq!(status["newerHome"], true);
    assert_eq!(status["format"], 999);
    for verb in ["start", "restart"] {
        flock.flock([verb]).fails(7);
    }
    flock.flock(["stop"]).ok();
}

#[test]
fn a_home_that_is_not_there_is_said_so() {
    let home = TempHome::new();
    for verb in ["start", "stop", "restart", "status", "logs"] {
        let run = home.flock([verb]).fails(3);
        assert!(run.stderr.contains("flock init"), "{run:?}");
    }
}

/// A workspace may hold programs that run with its owner's rights: nobody else may come there.
#[test]
fn a_start_closes_a_home_that_was_open_and_makes_files_for_its_owner_alone() {
    let flock = Flock::new();
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let home = flock.file("");
    std::fs::set_permissions(&home, std::fs::Permissions::from_mode(0o755)).unwrap();
    flock.flock(["start"]).ok();
    assert_eq!(mode(&home), 0o700);
    std::fs::set_permissions(&home, std::fs::Permissions::from_mode(0o755)).unwrap();
    flock.flock(["restart"]).ok();
    assert_eq!(mode(&home), 0o700);
    let open: Vec<_> = ["logs", "data"]
        .iter()
        .flat_map(|folder| std::fs::read_dir(flock.file(folder)).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file() && mode(path) & 0o077 != 0)
        .collect();
    assert_eq!(open, [""; 0].map(std::path::PathBuf::from));
    flock.flock(["stop"]).ok();
}
