//! A program that runs an agent's turns, whose model fails or has no budget in the middle of one.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::provider::is_at_rest;
use crate::support::home::{TempHome, finish};
use crate::support::model_server::{ModelServer, Reply};
use crate::support::wait_until;
use crate::team::stage::{LIMIT, Served, log_text, said};

/// In the place of Gemini CLI: asks its model twice and says how that went. What it was given is written down.
const SCRIPT: &str = r#"
here=${0%/*}
case "$*" in --version) echo 0.61.0; exit;; esac
if [ -n "$GEMINI_WRITE_SYSTEM_MD" ]; then echo own > "$GEMINI_WRITE_SYSTEM_MD"; exit 1; fi
{ echo "== $*"; cat; echo; } >> "$here/given"
ask() {
    rest=${GOOGLE_GEMINI_BASE_URL#http://}
    place=${rest%%/*}
    body='{"contents":[{"role":"user","parts":[{"text":"hi"}]}],"generationConfig":{"maxOutputTokens":'$1'}}'
    exec 3<> "/dev/tcp/${place%:*}/${place#*:}"
    printf 'POST /%s/v1beta/models/m:streamGenerateContent?alt=sse HTTP/1.1\r\nhost: %s\r\nx-goog-api-key: %s\r\n' \
        "${rest#*/}" "$place" "$GEMINI_API_KEY" >&3
    printf 'content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%s' ${#body} "$body" >&3
    read -r _ status _ <&3
    cat <&3 > /dev/null
    exec 3>&-
    [ "$status" = 200 ] && return
    echo '{"type":"result","status":"error","error":{"message":"no answer"}}'
    exit 1
}
ask 100
echo '{"type":"message","role":"assistant","content":"half and "}'
ask "$(cat "$here/most")"
echo '{"type":"message","role":"assistant","content":"whole"}'
echo '{"type":"result","status":"success"}'
"#;

struct Machine {
    home: TempHome,
    installed: tempfile::TempDir,
}

impl Machine {
    /// A home whose agent `ada` is run on the host by the program, which asks this server.
    fn new(model: &ModelServer) -> Self {
        let machine = Self { home: TempHome::new().init(), installed: tempfile::tempdir().unwrap() };
        let package = machine.package();
        let bin = machine.installed.path().join("bin");
        std::fs::create_dir_all(package.join("bundle")).unwrap();
        std::fs::create_dir_all(&bin).unwrap();
        std::fs::write(package.join("package.json"), "{}").unwrap();
        let script = package.join("bundle/gemini.js");
        std::fs::write(&script, SCRIPT).unwrap();
        machine.may_answer_with(100);
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
        std::os::unix::fs::symlink(&script, bin.join("gemini")).unwrap();
        std::fs::copy("/bin/bash", bin.join("node")).unwrap();
        let mut config = machine.home.config();
        config["models"]["providers"]["acme"] = json!({
            "baseUrl": model.base_url(), "apiKey": "sk-test", "api": "google-generative-ai",
            "models": [{"id": "m", "name": "m", "contextWindow": 400_000, "maxTokens": 200_000}],
        });
        std::fs::write(machine.home.file("config.json"), config.to_string()).unwrap();
        let mut add = machine.command();
        add.args(["add", "ada", "--runtime", "gemini", "--on-host", "--model", "acme/m"]);
        finish(add.stdin(std::process::Stdio::null())).ok();
        machine
    }

    fn package(&self) -> PathBuf {
        self.installed.path().join("lib/node_modules/@google/gemini-cli")
    }

    fn command(&self) -> std::process::Command {
        let mut command = self.home.command();
        let bin = self.installed.path().join("bin");
        let path = std::env::var("PATH").unwrap();
        command.env("PATH", format!("{}:{path}", bin.display()));
        command
    }

    /// The program's second call may be answered with so many tokens.
    fn may_answer_with(&self, tokens: u32) {
        std::fs::write(self.package().join("bundle/most"), tokens.to_string()).unwrap();
    }

    /// What the program was given in its runs so far.
    fn given(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.package().join("bundle/given")).unwrap_or_default();
        text.split("== ").skip(1).map(str::to_owned).collect()
    }

    fn answers(&self) -> usize {
        said(&self.home, "work").iter().filter(|(by, text)| by == "ada" && text == "half and whole").count()
    }

    fn until_answered(&self, count: usize) {
        wait_until(&format!("{count} answers"), LIMIT * 2, || {
            let found = self.answers();
            if found == count { Ok(()) } else { Err(format!("{found}\n{}", log_text(&self.home))) }
        });
    }

    fn until_given(&self, count: usize) -> Vec<String> {
        wait_until(&format!("{count} runs"), LIMIT, || {
            let given = self.given();
            if given.len() >= count { Ok(given) } else { Err(format!("{given:?}\n{}", log_text(&self.home))) }
        })
    }

    fn allow(&self, tokens: u64) {
        let budgets: Value = json!({"agent": {"ada": {"tokens": tokens}}});
        let path = "plugins.entries.flock.config.budgets";
        self.home.flock(["config", "set", path, &budgets.to_string()]).ok();
    }
}

#[test]
fn a_programs_turn_that_broke_off_in_passing_is_gone_on_with_in_its_own_conversation() {
    let model = ModelServer::start();
    model.always(Reply::text("ok"));
    let machine = Machine::new(&model);
    let home = &machine.home;
    let _served = Served::start_as(home, machine.command());
    home.flock(["channel", "create", "work", "--topic", "x", "--member", "ada"]).ok();
    machine.until_given(1);
    is_at_rest(home);

    // Its provider is down once the turn has begun.
    let before = machine.given().len();
    let known = model.requests().len();
    model.reply(Reply::text("ok")).always(Reply::status(503, "down"));
    home.flock(["channel", "post", "work", "first"]).ok();
    wait_until("the provider has failed for good", LIMIT, || {
        let asked = model.requests().len() - known;
        if asked >= 5 { Ok(()) } else { Err(format!("{asked}\n{}", log_text(home))) }
    });
    is_at_rest(home);
    assert_eq!(machine.answers(), 0, "{:?}", said(home, "work"));
    assert_eq!(said(home, "work").iter().filter(|(by, _)| by == "ada").count(), 0, "it has not failed");
    model.always(Reply::text("ok"));
    machine.until_answered(1);
    let given = machine.given();
    let (first, last) = (&given[before], given.last().unwrap());
    assert!(first.contains("human:ann: first"), "{first}");
    assert!(last.contains("--resume"), "{last}");
    assert!(
        last.contains("Your last turn here was broken off: the model's provider did not answer."),
        "{last}"
    );
    assert!(!last.contains("human:ann: first"), "its conversation has that: {last}");
    is_at_rest(home);

    // Its budget has no room for what it asks in the middle of the turn.
    let before = machine.given().len();
    machine.allow(60_000);
    machine.may_answer_with(90_000);
    home.flock(["channel", "post", "work", "second"]).ok();
    machine.until_given(before + 1);
    is_at_rest(home);
    assert_eq!(machine.answers(), 1);
    machine.allow(600_000);
    machine.until_answered(2);
    let given = machine.given();
    assert_eq!(given.len(), before + 2, "none was begun in vain: {given:?}");
    let last = given.last().unwrap();
    assert!(last.contains("--resume") && last.contains("Your last turn here was broken off: "), "{last}");
    assert!(last.contains("budget"), "{last}");
}
