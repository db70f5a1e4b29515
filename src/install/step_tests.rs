use super::*;
use crate::home::log::RotationLimits;
use crate::process::ProcessId;

fn shell(script: &str, limit: Duration) -> (Result<Vec<String>, InstallError>, String) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("build.log");
    let mut log = Log::new(path.clone(), RotationLimits::default());
    let env = [("PATH".into(), "/usr/bin:/bin".into()), ("ONLY".into(), "this".into())];
    let args = ["-c".to_owned(), script.to_owned()];
    let what = StepCommand {
        title: "sh",
        program: Path::new("/bin/sh"),
        args: &args,
        folder: dir.path(),
        env: &env,
        limit,
        log: path.clone(),
    };
    let result = run(&what, &mut log, &|_| {});
    (result, std::fs::read_to_string(path).unwrap())
}

const LONG: Duration = Duration::from_secs(60);

#[test]
fn output_is_logged_and_only_the_given_environment_is_set() {
    let (result, log) = shell("echo one; echo two >&2; env | grep -c FLOCK; echo $ONLY", LONG);
    assert_eq!(result.unwrap(), ["one", "two", "0", "this"]);
    assert_eq!(log, "$ sh\none\ntwo\n0\nthis\n");
}

#[test]
fn a_failure_has_the_last_twenty_lines_and_the_code() {
    let (result, log) = shell("for i in $(seq 50); do echo line $i; done; exit 3", LONG);
    let Err(InstallError::Step { how, tail, .. }) = result else { panic!("{result:?}") };
    assert_eq!(how, "ended with code 3");
    assert_eq!((tail.len(), tail[0].as_str(), tail[19].as_str()), (20, "line 31", "line 50"));
    assert_eq!(log.lines().count(), 52);
}

#[test]
fn a_timed_out_command_is_killed_with_its_descendants() {
    let (result, log) = shell("sleep 1000 & echo $! $$; wait", Duration::from_secs(1));
    let told = result.unwrap_err().to_string();
    assert!(told.contains("took longer"), "{told}");
    let pids: Vec<i32> = log.lines().nth(1).unwrap().split(' ').map(|pid| pid.parse().unwrap()).collect();
    wait_until_gone(&pids);
}

#[test]
fn background_processes_are_killed_without_waiting() {
    let (result, log) = shell("sleep 1000 & echo $!", LONG);
    result.unwrap();
    wait_until_gone(&[log.lines().nth(1).unwrap().parse().unwrap()]);
}

#[test]
fn a_signal_and_a_missing_program_are_told_apart() {
    let blamed = |script: &str, limit: Duration| match shell(script, limit).0 {
        Err(InstallError::Step { own, .. }) => own,
        other => panic!("{other:?}"),
    };
    assert!(blamed("echo type error; exit 1", LONG), "that is its answer");
    assert!(!blamed("kill -9 $$", LONG) && !blamed("sh -c 'kill -9 $$'; exit $?", LONG));
    assert!(!blamed("exec /no/such/program", LONG) && !blamed("exec sleep 1000", Duration::from_secs(1)));
    assert!(!blamed("echo 'write: No space left on device'; exit 1", LONG));
    let (killed, _) = shell("kill -9 $$", LONG);
    assert!(killed.unwrap_err().to_string().contains("was killed"));
    let (none, _) = shell("exec /no/such/program", LONG);
    assert!(none.unwrap_err().to_string().contains("code 127"));
}

#[test]
fn a_command_with_much_output_is_throttled_and_times_out() {
    let (tell, _news) = channel();
    assert_eq!(
        (0..).take_while(|_| tell.try_send(StepEvent::Line(String::new())).is_ok()).count(),
        QUEUED_LINES
    );
    let begun = Instant::now();
    let told = shell("while :; do echo x; done", Duration::from_secs(1)).0.unwrap_err().to_string();
    assert!(told.contains("took longer"), "{told}");
    assert!(begun.elapsed() < LONG);
}

/// Waits until the processes are gone. A killed process exists until its parent has collected its status.
fn wait_until_gone(pids: &[i32]) {
    let end = Instant::now() + Duration::from_secs(20);
    while pids.iter().any(|pid| ProcessId::of(*pid).is_some()) {
        assert!(Instant::now() < end, "{pids:?} still run");
        std::thread::yield_now();
    }
}
