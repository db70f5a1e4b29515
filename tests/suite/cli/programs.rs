//! Agents that installed programs run, as far as the command line goes.

use std::path::PathBuf;

use flock::runtime::program::listed;

use crate::support::home::{Run, TempHome, finish};

/// A home, and a folder where programs are installed.
struct Machine {
    home: TempHome,
    bin: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        Self::with_model_of("google-generative-ai")
    }

    /// Its model is asked this way.
    fn with_model_of(api: &str) -> Self {
        let machine = Self { home: TempHome::new().init(), bin: tempfile::tempdir().unwrap() };
        let provider = format!(r#"{{"baseUrl":"http://127.0.0.1:9","api":"{api}","models":[{{"id":"m"}}]}}"#);
        machine.flock(&["config", "set", "models.providers.mine", &provider]).ok();
        machine.flock(&["config", "set", "agents.defaults.model.primary", "mine/m"]).ok();
        machine
    }

    /// Installs a Gemini CLI that says this version. Its Node is a shell, and its script one of the shell's.
    fn has_gemini(&self, version: &str) {
        let package = self.bin.path().join("lib/node_modules/@google/gemini-cli");
        std::fs::create_dir_all(package.join("bundle")).unwrap();
        std::fs::write(package.join("package.json"), "{}").unwrap();
        std::fs::write(package.join("bundle/gemini.js"), format!("echo {version}\n")).unwrap();
        std::fs::create_dir_all(self.path()).unwrap();
        std::fs::copy("/bin/sh", self.path().join("node")).unwrap();
        use std::os::unix::fs::PermissionsExt as _;
        let script = package.join("bundle/gemini.js");
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
        std::os::unix::fs::symlink(script, self.path().join("gemini")).unwrap();
    }

    /// Installs a program that prints this text, whatever it is asked.
    fn has(&self, name: &str, text: &str) {
        if name == "gemini" {
            if !self.path().join(name).exists() {
                self.has_gemini("0.0.0");
            }
            let script = self.bin.path().join("lib/node_modules/@google/gemini-cli/bundle/gemini.js");
            return std::fs::write(script, format!("echo '{text}'\n")).unwrap();
        }
        std::fs::create_dir_all(self.path()).unwrap();
        let draft = self.bin.path().join("draft");
        std::fs::write(&draft, native(text)).unwrap();
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(&draft, std::fs::Permissions::from_mode(0o755)).unwrap();
        // By another process: a file that this one has open for writing while another test starts a program can't be run.
        let copied =
            std::process::Command::new("cp").arg(draft).arg(self.path().join(name)).status().unwrap();
        assert!(copied.success());
    }

    /// The only folder of PATH.
    fn path(&self) -> PathBuf {
        self.bin.path().join("bin")
    }

    fn flock(&self, args: &[&str]) -> Run {
        let mut command = self.home.command();
        command.args(args).env("PATH", self.path()).env("HOME", self.bin.path());
        finish(&mut command)
    }
}

/// A native program that prints a text and ends: what flock takes for one has to begin as one does.
fn native(text: &str) -> Vec<u8> {
    const START: u64 = 0x40_0000;
    const HEADERS: u16 = 64 + 56;
    let text = format!("{text}\n");
    let length = u32::try_from(text.len()).unwrap();
    let (machine, code): (u16, Vec<u8>) = if cfg!(target_arch = "x86_64") {
        let mut code = vec![0xb8, 1, 0, 0, 0, 0xbf, 1, 0, 0, 0]; // write, to standard output
        code.extend([0x48, 0x8d, 0x35, 16, 0, 0, 0, 0xba]); // what lies behind the code
        code.extend(length.to_le_bytes());
        code.extend([0x0f, 0x05, 0xb8, 60, 0, 0, 0, 0x31, 0xff, 0x0f, 0x05]); // exit, with 0
        (62, code)
    } else {
        assert!(cfg!(target_arch = "aarch64") && length < 1 << 16);
        let words = [
            0xd280_0020,
            0x1000_00e1, // what lies behind the code
            0xd280_0002 | (length << 5),
            0xd280_0808, // write
            0xd400_0001,
            0xd280_0000,
            0xd280_0ba8, // exit
            0xd400_0001,
        ];
        (183, words.iter().flat_map(|word: &u32| word.to_le_bytes()).collect())
    };
    let size = u64::from(HEADERS) + (code.len() + text.len()) as u64;
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    for half in [2, machine] {
        file.extend(half.to_le_bytes());
    }
    file.extend(1_u32.to_le_bytes());
    // Where it begins, its one segment, no sections.
    for long in [START + u64::from(HEADERS), 64, 0] {
        file.extend(long.to_le_bytes());
    }
    file.extend(0_u32.to_le_bytes());
    for half in [64_u16, 56, 1, 0, 0, 0] {
        file.extend(half.to_le_bytes());
    }
    // The segment: loaded, to be read and run.
    file.extend(1_u32.to_le_bytes());
    file.extend(5_u32.to_le_bytes());
    for long in [0, START, START, size, size, 0x1000] {
        file.extend(long.to_le_bytes());
    }
    [file, code, text.into_bytes()].concat()
}

#[test]
fn a_program_that_is_missing_is_named_with_what_installs_it() {
    let machine = Machine::new();
    let before = machine.home.config_text();
    let run = machine.flock(&["add", "coder", "--runtime", "claude", "--no-container"]).fails(1);
    assert!(run.stderr.contains("Claude Code is not installed"), "{run:?}");
    assert!(run.stderr.contains("npm install -g @anthropic-ai/claude-code"), "{run:?}");
    assert_eq!(machine.home.config_text(), before);
}

#[test]
fn on_the_host_only_who_says_so_and_it_is_shown_for_good() {
    let machine = Machine::new();
    machine.has_gemini("0.61.0");
    let run = machine.flock(&["add", "boxed", "--runtime", "gemini", "--no-container"]).ok();
    assert!(!run.stderr.contains("host"), "{run:?}");
    let run = machine.flock(&["add", "free", "--runtime", "gemini", "--on-host"]).ok();
    assert!(run.stderr.contains("with your rights"), "{run:?}");
    let run = machine.flock(&["--json", "list"]).ok();
    let listed: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    let on_host = |id: &str| {
        let agents = listed["agents"].as_array().unwrap();
        agents.iter().find(|agent| agent["id"] == id).unwrap()["onHost"].clone()
    };
    assert_eq!((on_host("boxed"), on_host("free")), (false.into(), true.into()));
    assert!(machine.flock(&["list"]).ok().stdout.contains("none, on the host"));
    assert!(machine.flock(&["status"]).stdout.contains("none: it runs on this machine itself"));
    let doctor = machine.flock(&["doctor"]).stdout;
    assert!(doctor.contains("agent free runs on this machine itself"), "{doctor}");
    assert!(doctor.contains("found Gemini CLI 0.61.0"), "{doctor}");
    assert!(!doctor.contains("agent boxed runs"), "{doctor}");
}

#[test]
fn init_names_the_programs_that_are_there_whoever_chooses_the_model() {
    for choice in [&[][..], &["--model", "script/demo"]] {
        let machine = Machine { home: TempHome::new(), bin: tempfile::tempdir().unwrap() };
        let line = [&["init", "--yes", "--no-images"], choice].concat();
        machine.has_gemini("0.61.0");
        let run = machine.flock(&line).ok();
        let told = "found Gemini CLI 0.61.0; to run an agent on one: flock add ID --runtime gemini";
        assert_eq!(run.stderr.matches(told).count(), 1, "{run:?}");
        // In a home that is there, and for programs.
        let run = machine.flock(&[&line[..], &["--json"]].concat()).ok();
        let said: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
        assert_eq!(
            said["programs"],
            serde_json::json!([{"runtime": "gemini", "version": "0.61.0"}]),
            "{run:?}"
        );
        std::fs::remove_file(machine.path().join("gemini")).unwrap();
        let run = machine.flock(&line).ok();
        assert!(!run.stderr.contains("Gemini"), "{run:?}");
    }
}

#[test]
fn a_version_that_lacks_an_option_is_refused_with_the_command_that_mends_it() {
    let machine = Machine::new();
    machine.has_gemini("0.1.2");
    let script = machine.bin.path().join("lib/node_modules/@google/gemini-cli/bundle/gemini.js");
    let help = |options: &str| {
        let text = format!("case $1 in --version) echo 0.1.2;; *) echo 'Options: {options}' >&2;; esac\n");
        std::fs::write(&script, text).unwrap();
    };
    let all = "-o, --output-format  --approval-mode  -m, --model  --session-id  -p, --prompt  -r, --resume [string]";
    help(&all.replace("--session-id", "--session-file"));
    let before = machine.home.config_text();
    let line = ["add", "coder", "--runtime", "gemini", "--no-container"];
    let run = machine.flock(&line).fails(1);
    assert!(run.stderr.contains("Gemini CLI 0.1.2 is too old: it has no --session-id"), "{run:?}");
    assert!(run.stderr.contains("npm install -g @google/gemini-cli@latest"), "{run:?}");
    assert_eq!(machine.home.config_text(), before);
    help(all);
    let run = machine.flock(&line).ok();
    assert!(run.stderr.contains("Gemini CLI 0.1.2 is older than"), "it has all that is needed: {run:?}");
    // Another version may be put in its place at any time.
    help("--version");
    let doctor = machine.flock(&["doctor"]).fails(1).stdout;
    assert!(doctor.contains("is too old: it has no --output-format, --approval-mode"), "{doctor}");
    assert!(doctor.contains("npm install -g @google/gemini-cli@latest"), "{doctor}");
}

#[test]
fn each_program_is_refused_without_an_option_whether_it_is_old_or_of_no_known_version() {
    for (name, api) in [
        ("claude", "anthropic-messages"),
        ("codex", "openai-responses"),
        ("gemini", "google-generative-ai"),
        ("opencode", "openai-completions"),
    ] {
        let program = listed(name).unwrap();
        let (title, options) = (program.title(), program.facts().options.names);
        let (last, others) = options.split_last().unwrap();
        let machine = Machine::with_model_of(api);
        let before = machine.home.config_text();
        let line = ["add", "coder", "--runtime", name, "--no-container"];
        for (says, label) in [("0.0.1", format!("{title} 0.0.1")), ("of today", title.to_owned())] {
            machine.has(name, &format!("{says} {}", others.join(" ")));
            let run = machine.flock(&line).fails(1);
            assert!(run.stderr.contains(&format!("{label} is too old: it has no {last}")), "{run:?}");
            assert!(
                run.stderr.contains(&format!("npm install -g {}@latest", program.facts().package)),
                "{run:?}"
            );
            assert_eq!(machine.home.config_text(), before);
        }
        machine.has(name, &format!("of today {}", options.join(" ")));
        let run = machine.flock(&line).ok();
        assert!(!run.stderr.contains(" old"), "{run:?}");
        machine.has(name, &format!("of today {}", others.join(" ")));
        let doctor = machine.flock(&["doctor"]).fails(1).stdout;
        assert!(doctor.contains(&format!("{title} is too old: it has no {last}")), "{doctor}");
    }
}

#[test]
fn the_prompt_of_an_agent_that_a_program_runs_is_what_the_program_is_told() {
    let machine = Machine::new();
    machine.has_gemini("0.61.0");
    machine.flock(&["add", "coder", "--runtime", "gemini", "--no-container"]).ok();
    let at = "plugins.entries.flock.config.gatewayAgents[coder]";
    machine.flock(&["config", "set", &format!("{at}.autonomy"), "readonly"]).ok();
    let skill = machine.home.file("skills/deploy");
    std::fs::create_dir_all(&skill).unwrap();
    std::fs::write(skill.join("SKILL.md"), "Release safely.\n").unwrap();
    let told = machine.flock(&["prompt", "show", "coder", "--json"]).ok().json();
    let names: Vec<&str> =
        told["sections"].as_array().unwrap().iter().map(|part| part["name"].as_str().unwrap()).collect();
    assert_eq!(names[..5], ["identity", "tool_honesty", "safety", "skills", "channel_media"], "{names:?}");
    assert_eq!(told["runtime"], "gemini");
    let all = told["sections"].to_string();
    for words in ["**Autonomy level**: readonly", "**Forbidden paths**", "Release safely", "flock_read_skill"]
    {
        assert!(all.contains(words), "{words}: {all}");
    }
    let shown = machine.flock(&["prompt", "show", "coder"]).ok();
    assert!(shown.stderr.contains("Gemini CLI has a prompt and tools of its own"), "{shown:?}");
    // What it is started with has the same in it, and no key.
    machine.flock(&["config", "set", "models.providers.mine.apiKey", "sk-planted-key-0123456789"]).ok();
    let run = machine.flock(&["prompt", "show", "coder", "--request"]).ok();
    let made = run.json();
    assert_eq!((&made["program"], &made["resumes"]), (&"gemini".into(), &serde_json::Value::Null));
    assert!(made["arguments"].to_string().contains("--approval-mode"), "{made}");
    assert!(made["files"].to_string().contains("**Autonomy level**: readonly"), "{made}");
    assert!(made["environment"].to_string().contains("<token of the turn>"), "{made}");
    assert!(!run.stdout.contains("planted"), "{run:?}");
}

#[test]
fn an_old_program_and_a_model_that_it_can_not_ask_are_told_of() {
    let machine = Machine::new();
    machine.has_gemini("0.1.2");
    let run = machine.flock(&["add", "coder", "--runtime", "gemini", "--no-container"]).ok();
    assert!(run.stderr.contains("Gemini CLI 0.1.2 is older than"), "{run:?}");
    let doctor = machine.flock(&["doctor"]).stdout;
    assert!(doctor.contains("Gemini CLI 0.1.2 is older than"), "{doctor}");
    let provider = r#"{"baseUrl":"http://127.0.0.1:9/v1","api":"openai-completions","models":[{"id":"m"}]}"#;
    machine.flock(&["config", "set", "models.providers.other", provider]).ok();
    let line = ["add", "tester", "--runtime", "gemini", "--no-container", "--model", "other/m"];
    let run = machine.flock(&line).fails(2);
    let told = "other is asked as openai-completions, which Gemini CLI does not speak; opencode can";
    assert!(run.stderr.contains(told), "{run:?}");
    assert!(run.stderr.contains("flock add tester --runtime gemini --model PROVIDER/MODEL"), "{run:?}");
    // Without a provider it has its own login.
    let line = ["add", "free", "--runtime", "gemini", "--on-host", "--model", "google/gemini-3-pro-preview"];
    let run = machine.flock(&line).ok();
    assert!(run.stderr.contains("Gemini CLI asks google/gemini-3-pro-preview with its own login"), "{run:?}");
    std::fs::remove_file(machine.path().join("gemini")).unwrap();
    let doctor = machine.flock(&["doctor"]).fails(1).stdout;
    assert!(doctor.contains("Gemini CLI is not installed, and 2 agents need it"), "{doctor}");
}
