//! Programs on the host with their own login, from `flock add` to the answer, through a real gateway: what they are
//! given, and what they are not. A stand-in says what the real program said when it was recorded.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use flock::process::ProcessId;
use serde_json::json;

use crate::support::home::{Run, TempHome, finish};

/// The providers' keys in flock's own environment, as a person's shell has them.
const KEYS: [&str; 6] = [
    "GROQ_API_KEY",
    "DEEPSEEK_API_KEY",
    "MISTRAL_API_KEY",
    "AWS_SECRET_ACCESS_KEY",
    "GITHUB_TOKEN",
    "CLAUDE_CODE_OAUTH_TOKEN",
];

struct Person {
    home: TempHome,
}

impl Person {
    /// With this program installed.
    fn with(program: &str, version: &str) -> Self {
        let person = Self { home: TempHome::new().init() };
        std::fs::create_dir(person.bin()).unwrap();
        let answer = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/programs").join(program);
        let script = person.bin().join("script");
        let text = format!(
            r#"#!/bin/sh
case "$1" in */bundle/gemini.js) shift ;; esac
case "$*" in
    --version) echo '{version}'; echo "${{GEMINI_CLI_HOME-of the user}}" >> '{seen}/versions'; exit ;;
    "debug models --bundled") echo '{{"models":[{{"slug":"gpt-5.5"}}]}}'; exit ;;
esac
if [ -n "$GEMINI_WRITE_SYSTEM_MD" ]; then
    [ "$GEMINI_API_KEY" = none ] && [ ! -e "$GEMINI_CLI_HOME/.gemini/.env" ] || exit
    echo 'its own prompt' > "$GEMINI_WRITE_SYSTEM_MD"; exit
fi
cd '{seen}' || exit
[ -z "$GEMINI_SYSTEM_MD" ] || {{
    cp "$GEMINI_SYSTEM_MD" system; cp "$GEMINI_CLI_HOME/.gemini/settings.json" "$GEMINI_CLI_HOME/.gemini/.env" .
    ls -A "$GEMINI_CLI_HOME" "$GEMINI_CLI_HOME/.gemini" > folder
}}
env > env; printf '%s\n' "$@" > args; cat > input; cat /proc/$$/environ > environ
previous=; for word in "$@"; do
    [ "$previous" = --append-system-prompt-file ] && cp "$word" system
    previous=$word
done
sleep 4721 & echo $! > left
cat '{answer}/new.jsonl'
"#,
            seen = person.seen().display(),
            answer = answer.display(),
        );
        std::fs::write(&script, text).unwrap();
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
        // Programs are native: this one becomes the script. Gemini CLI is a package that Node runs.
        let native = if program == "gemini" { "node" } else { program };
        if program == "gemini" {
            let package = person.home.outside().join("lib/node_modules/@google/gemini-cli");
            std::fs::create_dir_all(package.join("bundle")).unwrap();
            std::fs::write(package.join("package.json"), "{}").unwrap();
            let command = package.join("bundle/gemini.js");
            std::fs::write(&command, "").unwrap();
            std::fs::set_permissions(&command, std::fs::Permissions::from_mode(0o755)).unwrap();
            std::os::unix::fs::symlink(command, person.bin().join("gemini")).unwrap();
        }
        let source = person.bin().join("stand-in.c");
        let code = "#include <unistd.h>\nint main(int n, char **v) { execv(SCRIPT, v); return 127; }\n";
        std::fs::write(&source, code).unwrap();
        let built = Command::new("cc")
            .arg(format!("-DSCRIPT=\"{}\"", script.display()))
            .arg("-o")
            .arg(person.bin().join(native))
            .arg(&source)
            .status();
        assert!(built.unwrap().success());
        std::fs::create_dir(person.seen()).unwrap();
        person
    }

    fn bin(&self) -> PathBuf {
        self.home.outside().join("bin")
    }

    /// Where the program writes what it was given.
    fn seen(&self) -> PathBuf {
        self.home.outside().join("seen")
    }

    fn was_given(&self, what: &str) -> String {
        String::from_utf8_lossy(&std::fs::read(self.seen().join(what)).unwrap()).into_owned()
    }

    fn flock(&self, args: &[&str]) -> Run {
        let mut command = self.home.command();
        let path = std::env::var("PATH").unwrap();
        command.args(args).env("PATH", format!("{}:{path}", self.bin().display()));
        command.env("CLAUDE_CONFIG_DIR", "/etc/of-the-person").env("CODEX_HOME", "/etc/codex-of-the-person");
        for name in KEYS {
            command.env(name, format!("a-secret-{name}"));
        }
        finish(command.stdin(Stdio::null()))
    }

    /// An agent that the program runs, and its first turn.
    fn has_a_turn(&self, program: &str, model: &str) {
        let add = self.flock(&["add", "free", "--runtime", program, "--on-host", "--model", model]).ok();
        assert!(add.stderr.contains("with your rights"), "{add:?}");
        self.flock(&["start"]).ok();
        let said = self.flock(&["chat", "free", "what is new?"]).ok();
        assert_eq!(said.stdout.trim(), "hello there", "{said:?}");
        let pid = self.was_given("left").trim().parse().unwrap();
        assert_eq!(ProcessId::of(pid), None, "what it left has ended with its turn");
    }

    /// What every program on the host is given and not given.
    fn has_given_no_key(&self) {
        let (env, args) = (self.was_given("env"), self.was_given("args"));
        let value = |name: &str| {
            env.lines().find_map(|line| line.strip_prefix(&format!("{name}="))).map(str::to_owned)
        };
        assert_eq!(value("HOME"), Some(self.home.outside().display().to_string()));
        assert_eq!(value("CLAUDE_CONFIG_DIR").as_deref(), Some("/etc/of-the-person"), "its own, not flock's");
        assert_eq!(value("CODEX_HOME").as_deref(), Some("/etc/codex-of-the-person"));
        let begun_with = self.was_given("environ");
        for given in [&env, &begun_with, &args] {
            assert!(!given.contains("a-secret"), "{given}");
            assert!(!given.contains("/relay/"), "it asks its models itself: {given}");
        }
        for name in
            ["FLOCK_RELAY_KEY", "FLOCK_HOME", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_BASE_URL"]
        {
            assert_eq!(value(name), None, "{name}");
        }
        assert!(value("FLOCK_MCP_TOKEN").is_some(), "flock's tools are there");
        assert!(!args.contains(&value("FLOCK_MCP_TOKEN").unwrap()));
        assert!(self.was_given("input").contains("\nwhat is new?\n"), "{}", self.was_given("input"));
    }

    /// Where people look, it is told that the program runs on the host, and what it took by its own word.
    fn is_shown(&self, input: u64, cached: u64, output: u64) {
        assert!(self.flock(&["list"]).ok().stdout.contains("none, on the host"));
        assert!(self.flock(&["status"]).ok().stdout.contains("none: it runs on this machine itself"));
        let doctor = self.flock(&["doctor"]).stdout;
        assert!(doctor.contains("agent free runs on this machine itself"), "{doctor}");
        let usage = self.flock(&["usage", "--json"]).ok().json();
        let free = usage["usage"].as_array().unwrap().iter().find(|row| row["name"] == "free");
        let free = free.unwrap_or_else(|| panic!("{usage}"));
        assert_eq!(
            (&free["input"], &free["cacheRead"], &free["output"]),
            (&json!(input), &json!(cached), &json!(output))
        );
    }
}

#[test]
fn claude_code_asks_with_its_own_login_and_gets_no_key() {
    let person = Person::with("claude", "2.1.330 (Claude Code)");
    if nix::unistd::getuid().is_root() {
        // It would not run: nothing of the agent is made.
        let model = "anthropic/claude-opus-4-5";
        let add =
            person.flock(&["add", "free", "--runtime", "claude", "--on-host", "--model", model]).fails(2);
        assert!(add.stderr.contains("as root"), "{add:?}");
        return;
    }
    person.has_a_turn("claude", "anthropic/claude-opus-4-5");
    person.has_given_no_key();
    let args = person.was_given("args");
    assert!(args.contains("\n--model\nclaude-opus-4-5\n"), "{args}");
    assert!(args.contains("\n--setting-sources\n\n"), "the person's settings are not read: {args}");
    assert!(person.was_given("system").contains("free"), "{}", person.was_given("system"));
    person.is_shown(70, 40, 70);
}

#[test]
fn codex_asks_with_its_own_login_and_gets_no_key() {
    let person = Person::with("codex", "codex-cli 0.169.0");
    person.has_a_turn("codex", "openai/gpt-5.5");
    person.has_given_no_key();
    let args = person.was_given("args");
    assert!(args.contains("\n-m\ngpt-5.5\n") && args.contains("\n--ignore-user-config\n"), "{args}");
    assert!(args.contains("\ndeveloper_instructions="), "{args}");
    assert!(!args.contains("model_provider"), "{args}");
    person.is_shown(70, 40, 70);
}

#[test]
fn opencode_asks_with_its_own_login_and_gets_no_key() {
    let person = Person::with("opencode", "1.18.33");
    person.has_a_turn("opencode", "anthropic/claude-opus-4-5");
    person.has_given_no_key();
    let (args, env) = (person.was_given("args"), person.was_given("env"));
    assert!(args.contains("\n-m\nanthropic/claude-opus-4-5\n"), "{args}");
    let settings = env.lines().find_map(|line| line.strip_prefix("OPENCODE_CONFIG_CONTENT=")).unwrap();
    let settings: serde_json::Value = serde_json::from_str(settings).unwrap();
    assert_eq!(settings.get("provider"), None, "{settings}");
    assert!(!env.contains("XDG_DATA_HOME="), "its login is where its user's is: {env}");
    person.is_shown(70, 40, 70);
}

#[test]
fn gemini_cli_asks_with_the_login_of_its_user_and_reads_nothing_else_of_theirs() {
    let person = Person::with("gemini", "0.61.0");
    let user = person.home.outside().join(".gemini");
    let theirs = [
        (".env", "GEMINI_API_KEY=a-key-of-the-person\n"),
        (
            "settings.json",
            "{ // mine\n\"security\": {\"auth\": {\"selectedType\": \"vertex-ai\"}}, \"mcpServers\": {\"mine\": {\"command\": \"x\"}}}",
        ),
        ("GEMINI.md", "what the person says"),
    ];
    std::fs::create_dir(&user).unwrap();
    for (name, text) in theirs {
        std::fs::write(user.join(name), text).unwrap();
    }
    person.has_a_turn("gemini", "google/gemini-2.5-pro");
    person.has_given_no_key();
    let (args, env) = (person.was_given("args"), person.was_given("env"));
    assert!(args.contains("\n-m\ngemini-2.5-pro\n"), "{args}");
    assert!(!env.contains("GEMINI_API_KEY=") && !env.contains("GOOGLE_GEMINI_BASE_URL="), "{env}");
    let system = person.was_given("system");
    assert!(system.starts_with("its own prompt\n") && system.contains("free"), "{system}");
    let settings: serde_json::Value = serde_json::from_str(&person.was_given("settings.json")).unwrap();
    assert_eq!(settings["security"]["auth"], json!({"selectedType": "vertex-ai"}));
    let servers: Vec<&String> = settings["mcpServers"].as_object().unwrap().keys().collect();
    assert_eq!(servers, ["flock"]);
    assert_eq!(person.was_given(".env"), theirs[0].1);
    assert!(!person.was_given("folder").contains("GEMINI.md"), "{}", person.was_given("folder"));
    let asked = person.was_given("versions");
    assert!(
        asked.lines().all(|folder| folder == "/dev/null"),
        "it would write its user's settings anew: {asked}"
    );
    // The key is where it was, and nowhere else.
    for (name, text) in theirs {
        assert_eq!(std::fs::read_to_string(user.join(name)).unwrap(), text, "{name}");
    }
    let mut found = Vec::new();
    holds(&person.home.path(), "a-key-of-the-person", &mut found);
    assert_eq!(found, Vec::<PathBuf>::new());
    // A second turn goes on.
    let said = person.flock(&["chat", "free", "and now?"]).ok();
    assert_eq!(said.stdout.trim(), "hello there", "{said:?}");
    assert!(person.was_given("args").contains("\n--resume\n"), "{}", person.was_given("args"));
    person.is_shown(140, 80, 140);
}

/// The files below a folder in which this stands; links are not followed.
fn holds(folder: &Path, text: &str, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            holds(&entry.path(), text, found);
        } else if kind.is_file()
            && std::fs::read(entry.path()).is_ok_and(|all| String::from_utf8_lossy(&all).contains(text))
        {
            found.push(entry.path());
        }
    }
}
