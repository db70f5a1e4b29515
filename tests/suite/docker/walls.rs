//! The system calls that a sandbox may not make, tried in a real engine; and those that programs need.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::sync::Arc;

use flock::sandbox::docker::DockerSandbox;
use flock::sandbox::helper::{PROGRAM, ProbeExpectations, ProbeReport};
use flock::sandbox::image::Recipe;
use flock::sandbox::program_mounts::ProgramMount;
use flock::sandbox::{CommandExit, OutputChunk, ProgramCommand, Sandbox as _, SandboxError, seccomp};

use super::sandbox::{id, output, run};
use crate::support::docker::{self, Team, docker as docker_command};
use crate::support::engine_proxy::{EngineProxy, Fault};

/// Tries each call by its number and prints a line of what was let through, or `nothing`.
pub const ATTACKS: &str = r#"python3 - <<'EOF'
import ctypes, os, platform, socket, struct
libc = ctypes.CDLL(None, use_errno=True)
x86 = platform.machine() == 'x86_64'
def call(x, other, *arguments):
    words = [ctypes.c_void_p(a) if isinstance(a, int) else a for a in arguments]
    result = libc.syscall(ctypes.c_long(x if x86 else other), *words)
    return result, ctypes.get_errno()
through = []
def refused(name, outcome, errno=1):
    if outcome[0] != -1 or outcome[1] != errno:
        through.append(f'{name} {outcome}')
for family in (38, 40, 17, 30, 3):
    refused(f'socket {family}', call(41, 198, family, 3, 0))
room = ctypes.create_string_buffer(512)
refused('io_uring_setup', call(425, 425, 1, room))
refused('io_uring_enter', call(426, 426, 0, 0, 0, 0, 0))
refused('add_key', call(248, 217, b'user', b'x', b'y', 1, -2))
refused('request_key', call(249, 218, b'user', b'x', 0, -2))
refused('keyctl', call(250, 219, 0, -3, 1))
refused('bpf', call(321, 280, 0, room, 128))
refused('perf_event_open', call(298, 241, room, 0, -1, -1, 0))
refused('unshare', call(272, 97, 0x10000000))
refused('setns', call(308, 268, 0, 0))
refused('clone', call(56, 220, 0x10000011, 0, 0, 0, 0))
refused('clone3', call(435, 435, ctypes.create_string_buffer(struct.pack('8Q', 0x10000000, 0, 0, 0, 17, 0, 0, 0)), 64), 38)
refused('userfaultfd', call(323, 282, 1))
refused('mount', call(165, 40, b'x', b'/tmp', b'tmpfs', 0, 0))
refused('open_by_handle_at', call(304, 265, -100, room, 0))
refused('openat2', call(437, 437, -100, b'/workspace/s', ctypes.create_string_buffer(struct.pack('3Q', 0o101, 0o4755, 0)), 24), 38)
open('/workspace/file', 'w').close()
for mode in (0o4755, 0o2755, 0o6755):
    refused(f'fchmodat {mode:o}', call(268, 53, -100, b'/workspace/file', mode))
    refused(f'fchmod {mode:o}', call(91, 52, os.open('/workspace/file', os.O_RDONLY), mode))
    refused(f'openat {mode:o}', call(257, 56, -100, b'/workspace/s', os.O_CREAT | os.O_WRONLY, mode))
    refused(f'O_TMPFILE {mode:o}', call(257, 56, -100, b'/workspace', os.O_TMPFILE | os.O_WRONLY, mode))
    refused(f'mkdirat {mode:o}', call(258, 34, -100, b'/workspace/d', mode))
    refused(f'mknodat {mode:o}', call(259, 33, -100, b'/workspace/s', 0o100000 | mode, 0))
    if x86:
        refused(f'chmod {mode:o}', call(90, 0, b'/workspace/file', mode))
        refused(f'open {mode:o}', call(2, 0, b'/workspace/s', os.O_CREAT | os.O_WRONLY, mode))
        refused(f'creat {mode:o}', call(85, 0, b'/workspace/s', mode))
        refused(f'mkdir {mode:o}', call(83, 0, b'/workspace/d', mode))
        refused(f'mknod {mode:o}', call(133, 0, b'/workspace/s', 0o100000 | mode, 0))
os.unlink('/workspace/file')
print('\n'.join(through) or 'nothing')
EOF"#;

/// Ordinary work, each line of which must end well.
const WORK: &str = r#"set -e
mkdir -p w/a/b && cd w && echo hello > a/b/file && chmod 755 a/b/file && chmod +t a && chmod 1777 a/b
umask 022 && touch plain && test "$(stat -c %a plain)" = 644
tar -cpf t.tar a && mkdir out && tar -xpf t.tar -C out && test "$(stat -c %a out/a/b)" = 1777
cp -a a copy && mv copy moved && ln -s a link && ln plain hard && rm -r moved
python3 - <<'EOF'
import mmap, multiprocessing, os, socket, subprocess, tempfile, threading
threads = [threading.Thread(target=lambda: os.getpid()) for _ in range(8)]
[t.start() for t in threads]; [t.join() for t in threads]
assert subprocess.run(['sh', '-c', 'exit 3']).returncode == 3
with multiprocessing.Pool(2) as pool:
    assert pool.map(abs, [-1, -2]) == [1, 2]
with tempfile.TemporaryFile(dir='/workspace') as file:
    file.write(b'x')
for family in (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX, socket.AF_NETLINK):
    socket.socket(family, socket.SOCK_DGRAM if family != socket.AF_NETLINK else socket.SOCK_RAW).close()
with socket.socket() as listener:
    listener.bind(('127.0.0.1', 0)); listener.listen()
    socket.create_connection(listener.getsockname()).close()
mmap.mmap(-1, 4096).close()
os.open('.', os.O_TMPFILE | os.O_RDWR, 0o600)
EOF
cd .. && rm -rf w && echo well"#;

/// A setuid bit, in the ways that a shell has.
pub const PLANTS: &str = "cp /bin/sh planted; chmod u+s planted; chmod 4755 planted; chmod g+s planted; install -m 4755 /bin/sh planted2; \
    mkdir -m 2755 folder; stat -c %a planted planted2 folder; true";

/// Files in an agent's workspace that would run with the rights of whose they are.
pub fn planted(team: &Team, agent: &str) -> Vec<String> {
    let workspace = team.home.workspace(&id(agent));
    let set = |entry: std::fs::DirEntry| {
        (entry.metadata().unwrap().mode() & 0o6000 != 0)
            .then(|| entry.file_name().to_string_lossy().into_owned())
    };
    std::fs::read_dir(workspace).unwrap().filter_map(|entry| set(entry.unwrap())).collect()
}

#[test]
fn calls_that_reach_beyond_a_sandbox_are_refused_and_work_goes_on() {
    let Some(team) = Team::new(&["coder"]) else { return };
    let sandbox = team.sandbox();
    docker::block_on(async {
        sandbox.ensure(&id("coder")).await.unwrap();
        assert_eq!(output(&sandbox, "coder", ATTACKS).await, "nothing");
        assert_eq!(output(&sandbox, "coder", WORK).await, "well");
        run(&sandbox, "coder", PLANTS).await.unwrap();
        assert_eq!(planted(&team, "coder"), [""; 0]);
        // An archive with such a file is unpacked but for the bit.
        let archive = "python3 -c 'import tarfile, io\nt = tarfile.open(\"t.tar\", \"w\")\ni = tarfile.TarInfo(\"suid\")\n\
            i.mode = 0o4755\nt.addfile(i, io.BytesIO())\nt.close()'; tar -xpf t.tar; test -e suid && echo there";
        assert_eq!(output(&sandbox, "coder", archive).await.lines().last(), Some("there"));
        assert_eq!(planted(&team, "coder"), [""; 0]);
        assert!(sandbox.probe(&id("coder")).await.unwrap().is_confined());
    });
}

#[test]
fn the_walls_stand_for_the_engines_exec_and_for_a_program_too() {
    let Some(team) = Team::new(&["coder"]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("stub");
    std::fs::write(&program, "#!/bin/sh\neval \"$1\"\n").unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    team.configure(|config| config.agents[0].runtime = "claude".to_owned());
    let part = ProgramMount::part(&program, "/opt/flock/stub/stub".to_owned()).unwrap();
    let fit = |sandbox: DockerSandbox| {
        let part = part.clone();
        sandbox.with_program_mounts(Arc::new(move |_| vec![part.clone()]))
    };
    docker::block_on(async {
        let proxy = EngineProxy::new(&team.engine);
        proxy.set(Fault::NoAttach);
        let slow = fit(DockerSandbox::new(team.home.clone(), team.source(), proxy.engine()));
        assert_eq!(output(&slow, "coder", ATTACKS).await, "nothing");
        assert!(slow.probe(&id("coder")).await.unwrap().is_confined());

        let sandbox = fit(team.sandbox());
        let script = format!("{PLANTS}; grep Seccomp: /proc/self/status; {ATTACKS}");
        let words = ProgramCommand {
            command: vec!["/opt/flock/stub/stub".to_owned(), script],
            ..ProgramCommand::default()
        };
        let mut heard = Vec::new();
        let mut hear = |piece: OutputChunk<'_>| match piece {
            OutputChunk::Out(bytes) => heard.extend_from_slice(bytes),
            OutputChunk::Err(_) => {}
        };
        assert_eq!(sandbox.attend(&id("coder"), &words, &mut hear).await.unwrap(), 0);
        let heard = String::from_utf8(heard).unwrap();
        assert!(heard.ends_with("Seccomp:\t2\nnothing\n"), "{heard}");
        assert_eq!(planted(&team, "coder"), [""; 0]);
    });
}

/// The report of a probe in a container that is a sandbox but for this option of its security.
fn probe_under(team: &Team, option: &str) -> ProbeReport {
    let folder = tempfile::tempdir().unwrap();
    let (helper, workspace) = (folder.path().join("flock-helper"), folder.path().join("workspace"));
    std::fs::write(&helper, PROGRAM).unwrap();
    std::fs::set_permissions(&helper, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::create_dir(&workspace).unwrap();
    std::fs::set_permissions(&workspace, std::fs::Permissions::from_mode(0o777)).unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let image = Recipe::Sandbox.reference(&team.home);
    let (helper, workspace) =
        (format!("{}:/flock-helper:ro", helper.display()), format!("{}:/workspace", workspace.display()));
    let report = docker_command(&[
        "run",
        "--rm",
        "--network",
        "none",
        "--read-only",
        "--cap-drop",
        "ALL",
        "--user",
        "10001:10001",
        "--security-opt",
        "no-new-privileges",
        "--security-opt",
        option,
        "-v",
        &helper,
        "-v",
        &workspace,
        "--entrypoint",
        "/flock-helper",
        &image,
        "probe",
    ]);
    ProbeReport::parse(report.as_bytes())
}

/// Findings are of the walls alone here: such a container has other gaps, too.
#[test]
fn a_wall_that_is_not_there_is_not_confined() {
    let Some(team) = Team::new(&["coder"]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join("profile.json");
    std::fs::write(&own, seccomp::profile()).unwrap();
    let findings = |report: &ProbeReport| report.findings(&ProbeExpectations::default());
    let has = |findings: &[String], text: &str| findings.iter().any(|finding| finding.contains(text));
    let walls = [
        "setuid",
        "setgid",
        "seccomp",
        "namespaces",
        "io_uring",
        "AF_",
        "keyrings",
        "bpf",
        "perf_event",
        "not probed",
    ];

    let with_own = findings(&probe_under(&team, &format!("seccomp={}", own.display())));
    assert!(!walls.iter().any(|wall| has(&with_own, wall)), "{with_own:?}");

    // A profile that lets all through: the filter is there, and stops nothing.
    let loose = serde_json::json!({"defaultAction": "SCMP_ACT_ALLOW",
        "syscalls": [{"names": ["acct"], "action": "SCMP_ACT_ERRNO"}]});
    std::fs::write(&own, loose.to_string()).unwrap();
    let open = findings(&probe_under(&team, &format!("seccomp={}", own.display())));
    for wall in ["by unshare", "by chmod", "by fchmod", "by open", "by openat2", "by mknod", "setgid files"] {
        assert!(has(&open, wall), "{wall}: {open:?}");
    }

    // Without any the helper takes one of its own, so that the walls stand.
    let none = findings(&probe_under(&team, "seccomp=unconfined"));
    assert!(!walls.iter().any(|wall| has(&none, wall)), "{none:?}");

    // The same profile, but for one call that is let through.
    let mut weak: serde_json::Value = serde_json::from_str(seccomp::profile()).unwrap();
    let rules = weak["syscalls"].as_array_mut().unwrap();
    rules.push(serde_json::json!({"names": ["mknod", "mknodat"], "action": "SCMP_ACT_ALLOW"}));
    std::fs::write(&own, weak.to_string()).unwrap();
    let weak = findings(&probe_under(&team, &format!("seccomp={}", own.display())));
    assert!(has(&weak, "by mknod") && !has(&weak, "by chmod"), "{weak:?}");
}

/// By hand, or by an engine that passes the option over.
#[test]
fn a_sandbox_under_another_profile_runs_nothing() {
    let Some(team) = Team::new(&["coder"]) else { return };
    let sandbox = team.sandbox();
    let name = team.container("coder");
    docker::block_on(async {
        sandbox.ensure(&id("coder")).await.unwrap();
        let labels = docker_command(&["inspect", "-f", "{{json .Config.Labels}}", &name]);
        let labels: std::collections::BTreeMap<String, String> = serde_json::from_str(&labels).unwrap();
        sandbox.remove(&id("coder")).await.unwrap();
        let image = Recipe::Sandbox.reference(&team.home);
        let mut words = vec!["create", "--name", &name, "--security-opt", "seccomp=unconfined", "-i"];
        let labels: Vec<String> = labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
        labels.iter().for_each(|label| words.extend(["--label", label]));
        words.extend([&image, "cat"]);
        docker_command(&words);
        let error = sandbox.ensure(&id("coder")).await.unwrap_err();
        assert!(!matches!(error, SandboxError::Foreign { .. }), "{error}");
        assert_eq!(
            run(&sandbox, "coder", "true").await.unwrap().end,
            CommandExit::Exited(0),
            "it is made anew"
        );
        let option = docker_command(&["inspect", "-f", "{{index .HostConfig.SecurityOpt 1}}", &name]);
        assert_eq!(option, seccomp::option());
    });
}
