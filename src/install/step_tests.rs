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
fn its_output_is_in_the_log_and_its_environment_is_what_was_given() {
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
fn what_takes_too_long_is_killed_with_all_it_started() {
    let (result, log) = shell("sleep 1000 & echo $! $$; wait", Duration::from_secs(1));
    let told = result.unwrap_err().to_string();
    assert!(told.contains("took longer"), "{told}");
    let pids: Vec<i32> = log.lines().nth(1).unwrap().split(' ').map(|pid| pid.parse().unwrap()).collect();
    until_gone(&pids);
}

#[test]
fn what_it_leaves_behind_is_killed_and_not_waited_for() {
    let (result, log) = shell("sleep 1000 & echo $!", LONG);
    result.unwrap();
    until_gone(&[log.lines().nth(1).unwrap().parse().unwrap()]);
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
fn one_that_says_more_than_can_be_written_down_waits_and_ends_in_time() {
    let (tell, _news) = channel();
    assert_eq!((0..).take_while(|_| tell.try_send(StepEvent::Line(String::new())).is_ok()).count(), AHEAD);
    let begun = Instant::now();
    let told = shell("while :; do echo x; done", Duration::from_secs(1)).0.unwrap_err().to_string();
    assert!(told.contains("took longer"), "{told}");
    assert!(begun.elapsed() < LONG);
}

/// Waits until the processes are gone. A killed process exists until its parent has collected its status.
fn until_gone(pids: &[i32]) {
    let end = Instant::now() + Duration::from_secs(20);
    while pids.iter().any(|pid| ProcessId::of(*pid).is_some()) {
        assert!(Instant::now() < end, "{pids:?} still run");
        std::thread::yield_now();
    }
}
