use proptest::prelude::*;

use super::*;

fn programs(text: &str) -> Vec<String> {
    parse(text).unwrap_or_else(|reason| panic!("{text:?}: {reason}")).programs
}

#[test]
fn the_programs_of_a_command_are_found() {
    for (text, want) in [
        ("ls", &["ls"][..]),
        ("  git status -sb ", &["git"]),
        ("git add . && git commit -m 'a; rm -rf /' || echo no", &["git", "git", "echo"]),
        ("cat a | grep x|wc -l", &["cat", "grep", "wc"]),
        ("make & make install; ls", &["make", "make", "ls"]),
        ("ls\nrm x", &["ls", "rm"]),
        ("> out ls", &["ls"]),
        ("2>err ls >out 2>&1 <in", &["ls"]),
        ("ls &>x rm", &["ls", "rm"]),
        ("ls # rm '", &["ls"]),
        ("echo a#b", &["echo"]),
        ("'l's", &["ls"]),
        ("\"ls\" x", &["ls"]),
        ("l\\s", &["ls"]),
        ("ls \\\n -l", &["ls"]),
        ("ls \\\n# '\nrm x\n#'", &["ls", "rm"]),
        ("> \\\n git rm", &["rm"]),
        ("echo $HOME \"$1\" *.c ~", &["echo"]),
        ("[ -f x ] && ls", &["[", "ls"]),
        ("echo 'a'\\''b' \"c\\\"; rm\"", &["echo"]),
        ("", &[]),
        ("# all of it", &[]),
    ] {
        assert_eq!(programs(text), want, "{text:?}");
    }
    assert_eq!(parse("cat </etc/passwd \"a b\" c\\ d").unwrap().words, ["cat", "/etc/passwd", "a b", "c d"]);
}

#[test]
fn text_that_only_a_shell_can_interpret_is_refused() {
    for text in [
        "echo $(rm x)",
        "echo `rm x`",
        "echo \"$(rm x)\"",
        "echo \"`rm x`\"",
        "echo \"$\\\n(rm x)\"",
        "echo $\\\n(rm x)",
        "echo ${x:-$(rm)}",
        "echo $((1))",
        "echo $'a\\'; rm'",
        "cat <<EOF\nrm\nEOF",
        "cat <<<x",
        "cat <(rm x)",
        "(rm x)",
        "f() { rm x; }",
        "{ rm x; }",
        "$X x",
        "r* x",
        "~/rm",
        "{rm,x}",
        "PATH=. ls",
        "X=1",
        "x+=1 ls",
        "x[1]=2 ls",
        "if ls; then rm; fi",
        "! rm",
        "time rm",
        "echo 'a",
        "echo \"a",
        "echo \\",
        "ls >",
        "> ; ls",
        "ls > > x",
    ] {
        assert!(parse(text).is_err(), "{text:?}: {:?}", parse(text));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    /// Compares the result with the shell itself. Its PATH is an empty folder, so it reports each program that it does
    /// not find.
    #[test]
    fn a_shell_runs_only_the_programs_found(text in "(aa|bb|cc| |  |;|&|\\||>|<|'|\"|\\\\|\n|#|=|\\$|x|1|\\{|\\}){0,14}") {
        let Ok(line) = parse(&text) else { return Ok(()) };
        let folder = tempfile::tempdir().unwrap();
        let output = std::process::Command::new("/bin/sh")
            .args(["-c", &text])
            .env_clear()
            .env("PATH", folder.path())
            .current_dir(&folder)
            .stdin(std::process::Stdio::null())
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        for told in told.lines().filter(|line| line.contains("not found")) {
            // Two processes that write at once each split their line, so a name can also stand at the beginning of a
            // line.
            let named = |name: &String| {
                // The output is read line by line, so of a quoted name with line breaks only the last line counts.
                let name = format!("{}: ", name.rsplit('\n').next().unwrap_or_default());
                told.starts_with(&name) || told.contains(&format!(" {name}"))
            };
            let known = line.programs.iter().any(named);
            prop_assert!(known, "{text:?} runs what is not among {:?}: {told}", line.programs);
        }
    }

    #[test]
    fn any_text_is_parsed_or_refused(text in ".{0,80}") {
        let _ = parse(&text);
    }
}
