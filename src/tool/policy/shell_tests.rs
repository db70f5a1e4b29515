use std::{collections::BTreeMap, os::fd::AsRawFd as _, process::Stdio};

use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, MsgFlags, SockFlag, SockType, UnixCredentials, recvmsg, setsockopt,
    socketpair, sockopt,
};
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
        "11>x",
        "ls 10<x",
    ] {
        assert!(parse(text).is_err(), "{text:?}: {:?}", parse(text));
    }
}

/// Returns what each process of the shell that runs this text writes to its standard error.
///
/// The programs of a pipeline run at once, and a shell writes a report in several parts. In one stream the parts of two
/// reports would mix. So standard error is a socket that keeps each part apart and gives the process that wrote it.
fn reports(text: &str) -> BTreeMap<i32, String> {
    let folder = tempfile::tempdir().unwrap();
    let (ours, theirs) =
        socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC).unwrap();
    setsockopt(&ours, sockopt::PassCred, &true).unwrap();
    let mut command = std::process::Command::new("/bin/sh");
    command.args(["-c", text]).env_clear().env("PATH", folder.path()).current_dir(&folder);
    let mut shell = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(theirs).spawn().unwrap();
    // The command keeps its copy of the socket, and the end of the reports is seen only when no copy is left.
    drop(command);
    let mut written = BTreeMap::<i32, String>::new();
    loop {
        let mut part = [0; 4096];
        let mut space = nix::cmsg_space!(UnixCredentials);
        let mut buffers = [std::io::IoSliceMut::new(&mut part)];
        let got = recvmsg::<()>(ours.as_raw_fd(), &mut buffers, Some(&mut space), MsgFlags::empty()).unwrap();
        let writer = got.cmsgs().unwrap().find_map(|message| match message {
            ControlMessageOwned::ScmCredentials(writer) => Some(writer.pid()),
            _ => None,
        });
        let length = got.bytes;
        if length == 0 {
            break;
        }
        written.entry(writer.unwrap()).or_default().push_str(&String::from_utf8_lossy(&part[..length]));
    }
    shell.wait().unwrap();
    written
}

#[test]
fn reports_of_a_pipeline_do_not_mix() {
    let mut told = reports("aa|bb|cc").into_values().collect::<Vec<_>>();
    told.sort();
    let last = |text: &String| text.rsplit(' ').nth(2).map(str::to_owned);
    assert_eq!(
        told.iter().map(last).collect::<Vec<_>>(),
        ["aa:", "bb:", "cc:"].map(|name| Some(name.to_owned())),
        "{told:?}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    /// Compares the result with the shell itself. Its PATH is an empty folder, so it reports each program that it does
    /// not find.
    #[test]
    fn a_shell_runs_only_the_programs_found(text in "(aa|bb|cc| |  |;|&|\\||>|<|'|\"|\\\\|\n|#|=|\\$|x|1|\\{|\\}){0,14}") {
        let Ok(line) = parse(&text) else { return Ok(()) };
        for told in reports(&text).values().flat_map(|written| written.lines()).filter(|line| line.ends_with(": not found")) {
            let named = |name: &String| match name.rsplit_once('\n') {
                // A quoted name with line breaks is reported on several lines, and this is the last of them.
                Some((_, last)) => told == format!("{last}: not found"),
                None => told.ends_with(&format!(" {name}: not found")),
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
