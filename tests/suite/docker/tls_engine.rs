//! An engine that is reached by TLS, as `dockerd --tlsverify`: it is refused by what is wrong with a certificate of either side, an
//! agent works there, and new certificates that the engine takes are used from the next connection on. If it is silent for
//! as long as its setting says, the agent goes on elsewhere.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use serde_json::{Value, json};

use crate::support::docker::docker;
use crate::support::extra_engine::{ExtraEngine, tls_file};
use crate::support::home::{Run, TempHome};
use crate::support::{preload, wait_until};
use crate::team::stage::{LIMIT, Served, log_text};

/// Adds the engine with the certificates of an authority and of the home.
fn add(home: &TempHome, address: &str, authority: &str, certificate: &str) -> Run {
    add_with(home, address, (authority, certificate), &["--labels", "gpu"])
}

/// The same, with these options.
fn add_with(home: &TempHome, address: &str, (authority, certificate): (&str, &str), more: &[&str]) -> Run {
    let (authority, certificate, key) = (tls_file(authority), tls_file(certificate), tls_file("client.key"));
    let files: [&str; 6] = ["--ca", &authority, "--cert", &certificate, "--key", &key];
    home.flock([&["engine", "add", "far", address][..], &files, more].concat())
}

/// Gives the home another certificate for the engine.
fn renew(home: &TempHome, certificate: &str) -> Run {
    home.flock(["engine", "renew", "far", "--cert", &tls_file(certificate)])
}

/// Returns the engine as it is listed, or null.
fn far(home: &TempHome) -> Value {
    let listed = home.flock(["engine", "list", "--json"]).ok().json();
    let engines = listed["engines"].as_array().unwrap();
    engines.iter().find(|engine| engine["name"] == "far").cloned().unwrap_or_default()
}

/// Returns `true` if a text says that the engine refuses the home's certificate for this reason. An older engine tells no reason.
fn is_refused(text: &str, why: &str) -> bool {
    [why, "it is not one that the engine takes"]
        .iter()
        .any(|reason| text.contains(&format!(" refuses the certificate of this home: {reason}")))
}

#[test]
fn an_agent_works_on_an_engine_with_tls_if_both_certificates_are_right() {
    let Some(home) = TempHome::init_in_docker() else { return };
    let Some(mut extra) = ExtraEngine::with_tls("server-expired.pem") else { return };
    let (address, config) = (extra.tls_address(), home.config_text());
    let place = address.strip_prefix("tcp://").unwrap();
    let (shown, again) =
        (format!("openssl s_client -connect {place}"), format!("flock engine add far {address} --ca "));

    // What is wrong with a certificate is told, with what mends it.
    let run = add(&home, &address, "authority.pem", "client.pem").fails(6);
    let why = format!("the certificate of {place} has expired");
    assert!(run.stderr.contains(&why) && run.stderr.contains(&shown), "{run:?}");
    extra.kill();
    extra.set_certificate("server.pem");
    extra.revive();
    // The gateway's own port is one without TLS.
    home.flock(["start"]).ok();
    let run = add(&home, &format!("tcp://127.0.0.1:{}", home.port()), "authority.pem", "client.pem").fails(6);
    assert!(run.stderr.contains("does not speak TLS, and flock uses no engine without"), "{run:?}");
    let by_name = address.replace("127.0.0.1", "localhost");
    let run = add(&home, &by_name, "authority.pem", "client.pem").fails(6);
    assert!(run.stderr.contains("is for another name"), "{run:?}");
    let run = add(&home, &address, "another.pem", "client.pem").fails(6);
    let why = format!("the certificate of {place} is not signed by the given authority");
    assert!(run.stderr.contains(&why) && run.stderr.contains(&again), "{run:?}");
    for (certificate, why) in
        [("client-stranger.pem", "another authority has signed it"), ("client-expired.pem", "it has expired")]
    {
        let run = add(&home, &address, "authority.pem", certificate).fails(6);
        assert!(is_refused(&run.stderr, why) && run.stderr.contains(&again), "{run:?}");
    }
    assert_eq!(home.config_text(), config);
    let secrets = std::fs::read_dir(home.file("secrets")).unwrap();
    let kept: Vec<_> = secrets.map(|entry| entry.unwrap().file_name()).collect();
    assert!(!kept.iter().any(|name| name.to_string_lossy().starts_with("engine-")), "{kept:?}");
    assert_eq!(docker(&["-H", &extra.host(), "ps", "-aq"]), "", "nothing was made in it");

    // Both are right.
    add(&home, &address, "authority.pem", "client.pem").ok();
    assert_eq!(far(&home)["reachable"], true);
    home.flock(["add", "painter", "--labels", "gpu"]).ok();
    let containers = || docker(&["-H", &extra.host(), "ps", "--format", "{{.Names}}"]);
    let container = home.container("painter");
    assert_eq!(containers(), container);
    let doctor = home.flock(["doctor", "--json"]).json();
    let walls = doctor["checks"].as_array().unwrap().iter().find(|check| {
        check["name"] == "engines" && check["message"].as_str().unwrap().starts_with("far, walls: ")
    });
    assert_eq!(walls.unwrap()["state"], "ok", "{doctor:#}");
    let works = || {
        let run = home.flock(["chat", "painter", "please write fizzbuzz"]).ok();
        assert!(run.stdout.contains("exit code 0"), "{run:?}");
    };
    works();

    // A certificate that the engine does not take replaces none that works.
    let run = renew(&home, "client-expired.pem").fails(6);
    assert!(is_refused(&run.stderr, "it has expired"), "{run:?}");
    let text = "engine far did not take the new cert, so the former ones are still used";
    assert!(run.stderr.contains(text) && run.stderr.contains("flock engine renew far --ca "), "{run:?}");
    assert_eq!(far(&home)["reachable"], true);
    works();

    // The home's certificate expires while a gateway runs, and its sandbox is lost meanwhile.
    let expired = std::fs::read(tls_file("client-expired.pem")).unwrap();
    std::fs::write(home.file("secrets/engine-far.cert.pem"), expired).unwrap();
    let found = far(&home);
    assert_eq!(found["reachable"], false, "{found:#}");
    assert!(is_refused(found["problem"].as_str().unwrap(), "it has expired"), "{found:#}");
    let hint = found["hint"].as_str().unwrap();
    assert!(hint.starts_with("flock engine renew far --cert CERT.pem --key KEY.pem"), "{found:#}");
    home.flock(["engine", "show", "far", "--check"]).fails(1);
    docker(&["-H", &extra.host(), "rm", "-f", &container]);
    let run = renew(&home, "client.pem").ok();
    assert!(run.stdout.contains("answers with the new certificates"), "{run:?}");
    assert_eq!(far(&home)["reachable"], true);
    works();
    assert_eq!(containers(), container, "a new sandbox was made there");
    home.flock(["stop"]).ok();
}

#[test]
fn an_agent_whose_engine_is_silent_for_long_goes_on_elsewhere_with_the_files_of_its_checkpoint() {
    let Some(home) = TempHome::init_in_docker() else { return };
    let Some(mut extra) = ExtraEngine::with_tls("server.pem") else { return };
    let Some(library) = preload::library("docker/monotonic_clock.c", &home.outside()) else { return };
    let files = ("authority.pem", "client.pem");
    add_with(&home, &extra.tls_address(), files, &["--lost-after", "5m"]).ok();
    assert_eq!(far(&home)["lostAfterMinutes"], 5);
    // The other engine has agents already.
    home.flock(["add", "painter"]).ok();
    let (host, container) = (extra.host(), home.container("painter"));
    assert_eq!(docker(&["-H", &host, "ps", "--format", "{{.Names}}"]), container);

    let path = home.outside().join("clock");
    std::fs::write(&path, 0_i64.to_ne_bytes()).unwrap();
    let clock = File::options().write(true).open(&path).unwrap();
    let mut command = home.command();
    command.env("LD_PRELOAD", library).env("MONOTONIC_CLOCK", &path);
    let _served = Served::start_as(&home, command);
    let works = || {
        let run = home.flock(["chat", "painter", "please write fizzbuzz"]).ok();
        assert!(run.stdout.contains("exit code 0"), "{run:?}");
    };
    works();
    home.flock(["checkpoint", "painter"]).ok();
    docker(&["-H", &host, "exec", &container, "touch", "/workspace/later"]);
    let workspace = home.file("workspaces/painter");
    assert!(workspace.is_file(), "its workspace is in the engine");

    extra.lose();
    let mut ahead = 0_i64;
    wait_until("the agent leaves the engine", LIMIT, || {
        // The first look begins the silence. At the next one, it has lasted for long enough.
        ahead += 301_000_000_000;
        clock.write_all_at(&ahead.to_ne_bytes(), 0).unwrap();
        let found = far(&home);
        let has_left = found["agents"] == json!([]);
        has_left.then_some(()).ok_or_else(|| format!("{found:#}\n{}", log_text(&home)))
    });
    let names = std::fs::read_dir(&workspace).unwrap().map(|entry| entry.unwrap().file_name());
    let names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
    assert!(names.iter().any(|name| name.starts_with("fizzbuzz")), "{names:?}");
    assert!(!names.iter().any(|name| name == "later"), "{names:?}");
    let rows = wait_until("the audit has the move", LIMIT, || {
        let rows = home.audited("engine.move");
        if rows.is_empty() { Err(log_text(&home)) } else { Ok(rows) }
    });
    assert!(rows.len() == 1 && rows[0]["actor"] == "system" && rows[0]["subject"] == "painter", "{rows:#?}");
    let why =
        "from far to local, because far does not answer; its workspace has the files of its checkpoint of ";
    assert!(rows[0]["detail"].as_str().unwrap().starts_with(why), "{rows:#?}");
    works();
    assert_eq!(
        docker(&["ps", "--filter", &format!("name=^{container}$"), "--format", "{{.Names}}"]),
        container
    );
}
