//! The completion scripts in the shells that are there.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

use crate::support::flock_binary;
use crate::support::home::TempHome;

/// A home with things to complete, and a folder with this flock for PATH.
fn full() -> (TempHome, String) {
    let home = TempHome::new().init();
    home.flock(["add", "coder", "--no-container"]).ok();
    home.flock(["channel", "create", "build-7", "--topic", "the release", "--member", "coder"]).ok();
    home.flock(["person", "add", "bea", "--role", "member"]).ok();
    let bin = home.outside().join("bin");
    std::fs::create_dir(&bin).unwrap();
    symlink(flock_binary(), bin.join("flock")).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    (home, path)
}

fn run(home: &TempHome, path: &str, shell: &str, args: &[&str]) -> Option<String> {
    let mut command = Command::new(shell);
    command.args(args).current_dir(env!("CARGO_MANIFEST_DIR"));
    command.env("PATH", path).env("FLOCK_HOME", home.path()).env("HOME", home.outside());
    let Output { status, stdout, stderr } = match command.output() {
        Ok(output) => output,
        Err(error) => {
            eprintln!("not run, no {shell}: {error}");
            return None;
        }
    };
    assert!(status.success(), "{shell}: {}", String::from_utf8_lossy(&stderr));
    Some(String::from_utf8(stdout).unwrap())
}

const LINES: [(&str, &str); 9] = [
    ("flock chat co", "coder"),
    ("flock freeze ", "sysadmin"),
    ("flock channel post bu", "build-7"),
    ("flock config get agents.list[co", "agents.list[coder].workspace"),
    ("flock config set plugins.entries.flock.config.bud", "plugins.entries.flock.config.budgets"),
    ("flock remove co", "coder"),
    ("flock person token b", "bea"),
    ("flock add x --archetype q", "qa"),
    ("flock completions z", "zsh"),
];

#[test]
fn the_program_knows_what_fits() {
    let (home, _) = full();
    for (line, wanted) in LINES {
        let words: Vec<&str> = line.split(' ').collect();
        let index = (words.len() - 1).to_string();
        let ask = ["--version", "--complete", &index, "--"];
        let found = home.flock(ask.iter().chain(&words)).ok().stdout;
        assert!(found.lines().any(|line| line.split('\t').next() == Some(wanted)), "{line}: {found}");
        assert!(found.lines().all(|line| line.contains('\t')), "{line}: {found}");
    }
    for line in ["flock -n /run/x ", "flock /run/x co", "flock ", "flock chat --se"] {
        let words: Vec<&str> = line.split(' ').collect();
        let index = (words.len() - 1).to_string();
        let ask = ["--version", "--complete", &index, "--"];
        assert_eq!(home.flock(ask.iter().chain(&words)).ok().stdout, "", "{line}");
    }
    // Without a home nothing is known, and nothing is said.
    let none = TempHome::new().flock(["--version", "--complete", "2", "--", "flock", "chat", ""]).ok();
    assert_eq!((none.stdout.as_str(), none.stderr.as_str()), ("", ""));
}

#[test]
fn shells_complete_what_the_home_has() {
    let (home, path) = full();
    for (line, wanted) in LINES {
        let script = format!(
            "source completions/flock.bash; COMP_WORDS=({}); COMP_CWORD=$((${{#COMP_WORDS[@]}}-1)); COMPREPLY=(); \
             _flock_or_util_linux flock '' ''; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            line.split(' ').map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ")
        );
        let found = run(&home, &path, "bash", &["--norc", "-c", &script]).unwrap();
        assert!(found.lines().any(|line| line == wanted), "bash: {line}: {found}");
        let script = format!("source completions/flock.fish; complete -C '{line}'");
        if let Some(found) = run(&home, &path, "fish", &["--no-config", "-c", &script]) {
            assert!(
                found.lines().any(|line| line.split('\t').next() == Some(wanted)),
                "fish: {line}: {found}"
            );
        }
        let words = line.split(' ').map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ");
        // The function that finds values, with what only a completion in progress has stood in for.
        let script = format!(
            "compdef() {{ :; }}; compadd() {{ print -l -- ${{(P)2}} }}; _default() {{ :; }}; \
             functions[load]=\"$(<completions/_flock)\"; load; flock_words=({words}); \
             flock_current=$#flock_words; _flock_values"
        );
        if let Some(found) = run(&home, &path, "zsh", &["-f", "-c", &script]) {
            assert!(found.lines().any(|line| line == wanted), "zsh: {line}: {found}");
        }
    }
}

#[test]
fn what_asks_locks_nothing_where_the_other_flock_answers() {
    let home = TempHome::new();
    let Some(other) = ["/usr/bin/flock", "/bin/flock"].into_iter().find(|path| Path::new(path).exists())
    else {
        eprintln!("not run, no flock of util-linux");
        return;
    };
    let output = Command::new(other)
        .args(["--version", "--complete", "2", "--", "flock", "chat", "co"])
        .current_dir(home.outside())
        .output()
        .unwrap();
    assert!(!String::from_utf8(output.stdout).unwrap().contains('\t'));
    assert_eq!(std::fs::read_dir(home.outside()).unwrap().count(), 0, "no file was made");
}

fn in_bash(line: &str) -> String {
    let script = format!(
        "source completions/flock.bash; COMP_WORDS=({line}); COMP_CWORD=$((${{#COMP_WORDS[@]}}-1)); \
         COMPREPLY=(); _flock_or_util_linux flock \"${{COMP_WORDS[COMP_CWORD]}}\" \
         \"${{COMP_WORDS[COMP_CWORD-1]}}\"; echo \"${{COMPREPLY[*]}}\""
    );
    let output = Command::new("bash")
        .args(["--norc", "-c", &script])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn our_lines_get_our_words_and_util_linux_keeps_its_own() {
    assert_eq!(in_bash("flock compl"), "completions");
    assert_eq!(in_bash("flock add x --ro"), "--role");
    assert_eq!(in_bash("flock --home /x lis"), "list");
    for theirs in ["flock -n ''", "flock /etc/hostname ''", "flock -xn /etc/hostname ''", "flock 9 ''"] {
        assert_eq!(in_bash(theirs), "", "{theirs}");
    }
    let verbs = in_bash("flock ''");
    assert!(verbs.contains("init") && !verbs.contains("supervise"), "{verbs}");
}

#[test]
fn the_scripts_are_valid_where_their_shell_is() {
    for (shell, file) in [("bash", "flock.bash"), ("zsh", "_flock"), ("fish", "flock.fish")] {
        let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("completions").join(file);
        match Command::new(shell).arg("-n").arg(&file).output() {
            Ok(output) => assert!(output.status.success(), "{shell}: {output:?}"),
            Err(error) => eprintln!("not run, no {shell}: {error}"),
        }
    }
}
