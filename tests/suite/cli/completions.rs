//! The completion scripts in the shells that are there.

use std::process::Command;

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
