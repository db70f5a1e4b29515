//! Nothing that a program has started outlives its turn, whatever it did to get away.

use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use flock::process::ProcessId;
use flock::process::subreaper::OrphanCounts;
use flock::runtime::program::host::{self, RunExit};
use flock::sandbox::{OutputChunk, ProgramCommand};

use crate::support::home::TempHome;
use crate::support::{flock_binary, wait_until};

/// How long anything may take on a busy machine.
const LONG: Duration = Duration::from_secs(60);

/// Starts three that get away: one without an environment, in a session of its own, whose parent has ended; one in the
/// background; one that takes no notice of being asked to end. Each writes its pid.
const AWAY: &str = r#"
env -i setsid sh -c '(exec sleep 4714 >&- 2>&- & echo $! >> pids)'
sleep 4715 & echo $! >> pids
sh -c 'trap "" TERM; exec sleep 4716' & echo $! >> pids
"#;

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// As a home's digest, of no other test's.
    fn digest(&self) -> String {
        self.path().file_name().unwrap().to_string_lossy().replace('.', "")
    }

    fn pids(&self) -> Vec<i32> {
        let text = std::fs::read_to_string(self.path().join("pids")).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    }

    /// Those that live of the processes that wrote their pids.
    fn alive(&self) -> Vec<i32> {
        self.pids().into_iter().filter(|pid| ProcessId::of(*pid).is_some()).collect()
    }

    fn all_gone(&self) {
        wait_until("all is gone", LONG, || match self.alive() {
            left if left.is_empty() => Ok(()),
            left => Err(format!("{left:?} are left")),
        });
    }
}

fn run(script: &str, input: &str) -> ProgramCommand {
    ProgramCommand {
        command: ["/bin/sh", "-c", script].map(str::to_owned).to_vec(),
        env: Vec::new(),
        input: input.to_owned().into(),
        feed: None,
    }
}

async fn attended(run: &ProgramCommand, place: &Place) -> (std::io::Result<RunExit>, String) {
    let mut printed = Vec::new();
    let mut heard = |piece: OutputChunk<'_>| {
        let (OutputChunk::Out(bytes) | OutputChunk::Err(bytes)) = piece;
        printed.extend_from_slice(bytes);
    };
    let digest = place.digest();
    let ran = host::attend(run, place.path(), &digest, Path::new(flock_binary()), &mut heard);
    let ran = tokio::time::timeout(LONG, ran).await.expect("the turn ends");
    (ran, String::from_utf8(printed).unwrap())
}

#[tokio::test]
async fn what_a_program_left_is_ended_with_its_turn() {
    let place = Place::new();
    let (ran, printed) = attended(&run(&format!("{AWAY} cat; exit 3"), "héllo\n"), &place).await;
    assert_eq!(ran.unwrap(), RunExit { code: 3, left: OrphanCounts { ended: 3, out_of_reach: 0 } });
    assert_eq!(printed, "héllo\n");
    assert_eq!((place.pids().len(), place.alive()), (3, Vec::new()));
}

#[tokio::test]
async fn what_ends_by_itself_is_not_spoken_of_and_ends_are_told() {
    let place = Place::new();
    let (ran, _) = attended(&run("sleep 0.05 & exit 0", "never read"), &place).await;
    assert_eq!(ran.unwrap(), RunExit::default());
    let (ran, _) = attended(&run("kill -9 $$", ""), &place).await;
    assert_eq!(ran.unwrap().code, 137);
    let missing = ProgramCommand { command: vec!["/no/such/program".to_owned()], ..run("", "") };
    assert_eq!(attended(&missing, &place).await.0.unwrap_err().kind(), std::io::ErrorKind::NotFound);
}

#[tokio::test]
async fn a_turn_that_is_given_up_leaves_nothing() {
    let place = Place::new();
    let order = run(&format!("{AWAY} exec sleep 4717"), "");
    {
        let begun = async {
            while place.pids().len() < 3 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::select! {
            ended = attended(&order, &place) => panic!("{ended:?}"),
            begun = tokio::time::timeout(LONG, begun) => begun.unwrap(),
        }
    }
    assert_eq!((place.pids().len(), place.alive()), (3, Vec::new()), "gone before anybody goes on");
}

#[test]
fn a_flock_that_is_killed_leaves_nothing() {
    let place = Place::new();
    let (mut own, keepers) = UnixStream::pair().unwrap();
    let mut command = Command::new(flock_binary());
    command.args(["hold", "--turn", "0123.1", "--", "/bin/sh", "-c", &format!("{AWAY} exec sleep 4718")]);
    command.current_dir(place.path()).stdin(OwnedFd::from(keepers)).stdout(Stdio::null());
    let mut keeper = command.spawn().unwrap();
    drop(command);
    own.write_all(b"0\n").unwrap();
    wait_until("all run", LONG, || if place.pids().len() == 3 { Ok(()) } else { Err(String::new()) });
    // As the end of a process does it.
    drop(own);
    keeper.wait().unwrap();
    assert_eq!(place.alive(), [0; 0]);
}

#[tokio::test]
async fn where_who_holds_a_program_is_killed_the_mark_still_finds_what_it_started() {
    let place = Place::new();
    let script = "setsid sleep 4719 & echo $! >> pids; kill -9 $PPID; exec sleep 4720";
    let (ran, _) = attended(&run(script, ""), &place).await;
    assert_eq!(ran.unwrap().code, 137);
    place.all_gone();
}

#[tokio::test]
async fn a_supervisor_of_flock_outlives_the_turn_it_was_started_in() {
    let (place, home) = (Place::new(), TempHome::new().init());
    let mut start = run("exec \"$FLOCK\" --home \"$THERE\" start", "");
    let no_engine = format!("unix://{}", home.outside().join("no-engine.sock").display());
    let env: [(&str, PathBuf); 4] = [
        ("FLOCK", flock_binary().into()),
        ("THERE", home.path()),
        ("HOME", home.outside()),
        ("DOCKER_HOST", no_engine.into()),
    ];
    start.env = env.map(|(name, value)| (name.to_owned(), value.display().to_string())).to_vec();
    let (ran, printed) = attended(&start, &place).await;
    assert_eq!(ran.unwrap(), RunExit::default(), "{printed}");
    host::sweep(&place.digest());
    let status = home.flock(["status", "--json"]).ok().json();
    let supervisor = i32::try_from(status["supervisor"]["pid"].as_i64().unwrap()).unwrap();
    let mut environment = Vec::new();
    std::fs::File::open(format!("/proc/{supervisor}/environ"))
        .unwrap()
        .read_to_end(&mut environment)
        .unwrap();
    assert!(!environment.windows(11).any(|word| word == b"FLOCK_TURN="));
    home.flock(["stop"]).ok();
    assert_eq!(ProcessId::of(supervisor), None);
}
