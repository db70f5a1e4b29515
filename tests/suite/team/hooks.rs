//! Webhooks as their senders use them: over HTTP, with real signatures, past a gateway that is killed.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use hmac::{Hmac, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;

use super::stage::{LIMIT, Served, add, log_text, said, transcripts, until_said};
use crate::support::home::TempHome;
use crate::support::wait_until;

/// A home with the agent `ada` in the channel `dev`.
fn home() -> TempHome {
    let home = TempHome::new().init();
    add(&home, "ada", &json!([{"steps": [{"say": "I look at it"}]}]));
    home.flock(["channel", "create", "dev", "--topic", "x", "--member", "ada"]).ok();
    home
}

/// Adds a webhook for `dev`, and returns its secret.
fn hook(home: &TempHome, more: &[&str]) -> String {
    let added = home.flock([&["hook", "add", "ci", "--channel", "dev", "--json"][..], more].concat()).ok();
    let added = added.json();
    assert_eq!(added["url"], format!("http://127.0.0.1:{}/hooks/ci", home.port()));
    added["secret"].as_str().unwrap().to_owned()
}

fn signature(secret: &str, body: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    mac.update(body.as_bytes());
    format!("X-Hub-Signature-256: sha256={}\r\n", flock::id::hex(&mac.finalize().into_bytes()))
}

/// Sends a request and returns the whole answer, or an empty text if the gateway went away.
fn send(port: u16, head: &str, body: &str) -> String {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return String::new() };
    let request = format!("{head}Content-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len());
    let mut answer = String::new();
    if stream.write_all(request.as_bytes()).is_err() || stream.read_to_string(&mut answer).is_err() {
        return String::new();
    }
    answer
}

fn head(host: &str, path: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n")
}

fn deliver(home: &TempHome, secret: &str, event: &str, body: &str) -> String {
    let head = head("localhost", "/hooks/ci");
    let names = format!("X-GitHub-Event: {event}\r\nX-GitHub-Delivery: d-1\r\n");
    send(home.port(), &format!("{head}{names}{}", signature(secret, body)), body)
}

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or("none")
}

#[test]
fn a_push_reaches_the_agents_once_and_its_secret_is_nowhere() {
    let home = home();
    let secret = hook(&home, &["--github"]);
    let _served = Served::start(&home);
    let body =
        r#"{"ref": "refs/heads/main", "repository": {"full_name": "octo/repo"}, "sender": {"login": "kim"}}"#;
    let answer = deliver(&home, &secret, "push", body);
    assert_eq!(status(&answer), "202", "{answer}");
    let all = until_said(&home, "dev", "ada", "I look at it");
    let (author, text) = all.iter().find(|(_, text)| text.starts_with("[Webhook")).unwrap();
    assert_eq!(author, "system");
    assert!(text.contains("\n| push in octo/repo by kim\n| ref: refs/heads/main"), "{text}");
    let again = deliver(&home, &secret, "push", body);
    assert!(status(&again) == "200" && again.contains("duplicate"), "{again}");
    let wrong = deliver(&home, "another secret 123", "push", body);
    assert!(status(&wrong) == "401" && wrong.contains("unsigned"), "{wrong}");
    assert_eq!(said(&home, "dev").iter().filter(|(_, text)| text.starts_with("[Webhook")).count(), 1);
    let rows = home.flock(["hook", "history", "ci", "--json"]).ok().json();
    assert_eq!(rows["history"].as_array().unwrap().len(), 1);
    assert_eq!(
        (&rows["history"][0]["event"], &rows["history"][0]["delivery"]),
        (&json!("push"), &json!("d-1"))
    );
    let shown = home.flock(["hook", "show", "ci", "--json"]).ok();
    assert_eq!(shown.json()["hook"]["refused"]["count"], 1);
    let status = home.flock(["status"]).ok();
    assert!(status.stdout.contains("1 active, 0 paused, 1 refused"), "{status:?}");
    // The planted secret: it is in its own file and nowhere else.
    let config = home.config().to_string();
    let audit = home.flock(["audit", "--json"]).ok().stdout;
    for (place, text) in [
        ("log", log_text(&home)),
        ("config", config),
        ("audit", audit),
        ("show", shown.stdout),
        ("status", status.stdout),
    ] {
        assert!(!text.contains(&secret), "the secret is in the {place}");
    }
    assert!(transcripts(&home, "ada").iter().all(|text| !text.contains(&secret)));
    assert_eq!(std::fs::read_to_string(home.file("secrets/hook-ci")).unwrap(), secret);
    home.flock(["hook", "remove", "ci"]).ok();
    assert!(!home.file("secrets/hook-ci").exists());
    assert_eq!(status_of_removed(&home, &secret), "401");
}

fn status_of_removed(home: &TempHome, secret: &str) -> String {
    status(&deliver(home, secret, "push", "{}")).to_owned()
}

#[test]
fn only_the_owners_own_address_reaches_the_hooks_and_nothing_else() {
    let home = home();
    let secret = hook(&home, &["--github"]);
    {
        let _served = Served::start(&home);
        let body = "{}";
        let signed = format!("{}{}", head("hooks.example.org", "/hooks/ci"), signature(&secret, body));
        let answer = send(home.port(), &signed, body);
        assert!(status(&answer) == "403" && answer.contains("foreign_host"), "{answer}");
    }
    home.flock([
        "config",
        "set",
        "plugins.entries.flock.config.hooks.trustedOrigins",
        r#"["https://hooks.example.org"]"#,
    ])
    .ok();
    let _served = Served::start(&home);
    let body = r#"{"ref": "main"}"#;
    let signed = format!("{}{}", head("hooks.example.org", "/hooks/ci"), signature(&secret, body));
    let answer = send(home.port(), &signed, body);
    assert_eq!(status(&answer), "202", "{answer}");
    let token = home.token();
    for path in ["/api/status", "/health", "/dashboard", "/v1/models", "/hooks/../api/status"] {
        let get =
            format!("GET {path} HTTP/1.1\r\nHost: hooks.example.org\r\nAuthorization: Bearer {token}\r\n");
        let answer = send(home.port(), &get, "");
        assert!(["403", "404", "405"].contains(&status(&answer)), "{path}: {answer}");
        assert!(!answer.contains("\"agents\""), "{path}: {answer}");
    }
    let shown = home.flock(["hook", "show", "ci"]).ok();
    assert!(shown.stdout.contains("https://hooks.example.org/hooks/ci"), "{shown:?}");
    // A page of another site can't send either.
    let foreign = format!(
        "{}Origin: https://evil.example\r\n{}",
        head("localhost", "/hooks/ci"),
        signature(&secret, "{}")
    );
    assert_eq!(status(&send(home.port(), &foreign, "{}")), "403");
}

#[test]
fn a_body_that_is_too_large_is_refused_before_it_is_read() {
    let home = home();
    hook(&home, &["--github"]);
    let _served = Served::start(&home);
    let mut stream = TcpStream::connect(("127.0.0.1", home.port())).unwrap();
    let head = head("localhost", "/hooks/ci");
    // The body is announced and never sent: an answer means that nobody waited for it.
    stream.write_all(format!("{head}Content-Length: 4194305\r\n\r\n").as_bytes()).unwrap();
    let mut answer = [0; 64];
    let read = stream.read(&mut answer).unwrap();
    assert_eq!(status(&String::from_utf8_lossy(&answer[..read])), "413");
}

#[test]
fn a_kill_loses_no_accepted_delivery_and_repeats_none() {
    let home = home();
    // Nobody has to answer: what counts is what is said.
    home.flock(["channel", "create", "quiet", "--topic", "x", "--member", "human:ann"]).ok();
    let added = home.flock(["hook", "add", "ci", "--channel", "quiet", "--github", "--json"]).ok().json();
    let secret = added["secret"].as_str().unwrap().to_owned();
    let body = |number: usize| format!("{{\"ref\": \"n{number}.\"}}");
    let mut accepted = Vec::new();
    let (mut next, mut kills) = (0, 0);
    while kills < 4 {
        let served = Served::start(&home);
        let killed = std::thread::scope(|scope| {
            let sender = scope.spawn(|| {
                let mut taken = Vec::new();
                let mut number = next;
                // The gateway is gone when an answer fails.
                while status(&deliver(&home, &secret, "push", &body(number))) == "202" {
                    taken.push(number);
                    number += 1;
                }
                (taken, number)
            });
            std::thread::sleep(std::time::Duration::from_millis(20 + 45 * kills));
            served.kill();
            sender.join().unwrap()
        });
        accepted.extend(killed.0);
        next = killed.1;
        kills += 1;
        if next > 40 {
            break;
        }
    }
    let _served = Served::start(&home);
    // The sender tries all of them again, as GitHub's button does.
    for number in 0..=next {
        // It waits where the gateway tells it to.
        let answer = wait_until("the webhook takes more", LIMIT, || {
            let answer = deliver(&home, &secret, "push", &body(number));
            if status(&answer) == "429" { Err(answer) } else { Ok(answer) }
        });
        assert!(["200", "202"].contains(&status(&answer)), "{number}: {answer}");
        assert!(!accepted.contains(&number) || answer.contains("duplicate"), "{number}: {answer}");
    }
    let said: Vec<String> = said(&home, "quiet").into_iter().map(|(_, text)| text).collect();
    for number in 0..=next {
        let found = said.iter().filter(|text| text.contains(&format!("ref: n{number}."))).count();
        assert_eq!(found, 1, "{number} of {next}: {said:?}");
    }
}

#[test]
fn the_commands_explain_what_is_wrong() {
    let home = home();
    let template = home.outside().join("alert.txt");
    std::fs::write(&template, "@ada {{ payload.title }}{% if %}").unwrap();
    let template = template.to_str().unwrap();
    for (wrong, code, says) in [
        (vec!["add", "ci", "--channel", "nowhere"], 1, "flock channel list"),
        (vec!["add", "C I", "--channel", "dev"], 2, "name of a webhook"),
        (vec!["add", "ci", "--channel", "dev", "--github", "--gitlab"], 2, "--gitlab"),
        (vec!["add", "ci", "--channel", "dev", "--template", template], 2, "line 1 of the template"),
        (vec!["add", "ci", "--channel", "dev", "--template", "/nowhere"], 1, "/nowhere"),
        (vec!["show", "ci"], 1, "flock hook list"),
        (vec!["history", "ci"], 1, "flock hook list"),
        (vec!["remove", "ci"], 1, "flock hook list"),
    ] {
        let run = home.flock([&["hook"][..], &wrong].concat()).fails(code);
        assert!(run.stderr.contains(says), "{wrong:?}: {run:?}");
    }
    std::fs::write(template, "@ada {{ event }}: {{ payload.title }}").unwrap();
    let added = home.flock(["hook", "add", "ci", "--channel", "dev", "--template", template]).ok();
    assert!(added.stdout.contains("whsec_") && added.stdout.contains("/hooks/ci"), "{added:?}");
    let again = home.flock(["hook", "add", "ci", "--channel", "dev"]).fails(5);
    assert!(again.stderr.contains("flock hook show ci"), "{again:?}");
    let payload = home.outside().join("payload.json");
    std::fs::write(&payload, r#"{"title": "the disk is full"}"#).unwrap();
    let shown = home.flock(["hook", "preview", "ci", payload.to_str().unwrap(), "--event", "alert"]).ok();
    assert!(shown.stdout.contains("| @ada alert: the disk is full"), "{shown:?}");
    home.flock(["hook", "pause", "ci"]).ok();
    let listed = home.flock(["hook", "list"]).ok();
    assert!(listed.stdout.contains("paused") && listed.stdout.contains("#dev"), "{listed:?}");
    home.flock(["hook", "resume", "ci"]).ok();
    std::fs::remove_file(home.file("secrets/hook-ci")).unwrap();
    let checks = home.flock(["doctor", "--json"]).json();
    let found: Vec<&Value> =
        checks["checks"].as_array().unwrap().iter().filter(|check| check["name"] == "webhooks").collect();
    assert!(found.len() == 1 && found[0].to_string().contains("its secret is gone"), "{found:?}");
}
