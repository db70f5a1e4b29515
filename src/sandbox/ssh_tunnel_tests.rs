use std::path::Path;

use tokio::net::UnixListener;

use super::*;
use crate::sandbox::testing::until;

fn address(text: &str) -> SshAddress {
    text.parse().unwrap()
}

#[test]
fn ssh_is_told_to_ask_nothing_and_to_forward_one_socket() {
    let tunnel = SshTunnel::new(address("ssh://ann@gpu:2222/d.sock"), "/run/50%/e.sock".into()).unwrap();
    let arguments = tunnel.arguments().join(" ");
    for part in
        ["-N -T ", "-o BatchMode=yes ", "-o StrictHostKeyChecking=yes ", "-o ControlPath=none ", "-p 2222 "]
    {
        assert!(arguments.contains(part), "{part}: {arguments}");
    }
    assert!(arguments.ends_with(" -L /run/50%%/e.sock:/d.sock -- ann@gpu"), "{arguments}");
    for path in ["/run/a:b", "/run/${x}", &format!("/{}", "x".repeat(MAX_SOCKET_PATH))] {
        assert!(SshTunnel::new(address("ssh://gpu"), path.into()).is_err(), "{path}");
    }
}

#[test]
fn each_failure_names_the_command_that_mends_it() {
    let address = address("ssh://ann@gpu:2222");
    let ended = |reason: &str| SshError::Ended { address: address.clone(), reason: reason.to_owned() };
    let hint = |error: SshError| error.hint().unwrap();
    assert_eq!(hint(ended("Host key verification failed.")), "ssh -p 2222 ann@gpu true");
    assert_eq!(hint(ended("ann@gpu: Permission denied (publickey).")), "ssh-copy-id -p 2222 ann@gpu");
    let nothing = SshError::NoEngine { address: address.clone(), reason: "open failed".to_owned() };
    assert_eq!(hint(nothing), "ssh -p 2222 ann@gpu docker -H unix:///var/run/docker.sock version");
}

#[test]
fn a_refused_key_of_the_host_is_told_with_its_reason() {
    let told = |lines: &[&str]| {
        let mut said = String::new();
        for line in lines {
            keep(&mut said, line);
        }
        said
    };
    let failed = "Host key verification failed.";
    for reason in [
        "No ED25519 host key is known for gpu and you have requested strict checking.",
        "Host key for gpu has changed and you have requested strict checking.",
    ] {
        assert_eq!(told(&["before", reason, failed]), format!("{reason} {failed}"));
        assert_eq!(told(&[reason, failed, "after"]), "after");
    }
    assert_eq!(told(&["before", failed]), failed);
}

#[test]
fn a_pause_doubles_up_to_a_minute() {
    let pauses = [1, 2, 3, 6, 7, 40, u32::MAX].map(|failures| pause(failures).as_secs());
    assert_eq!(pauses, [1, 2, 4, 32, 60, 60, 60]);
}

/// A tunnel whose `ssh` is a script of the shell, without a keeper. `$DIR` in it is the test's folder.
fn tunnel(folder: &Path, script: &str) -> SshTunnel {
    let file = folder.join("ssh.sh");
    std::fs::write(&file, script.replace("$DIR", folder.to_str().unwrap())).unwrap();
    let tunnel = SshTunnel::new(address("ssh://gpu"), folder.join("e.sock")).unwrap();
    SshTunnel { keeper: Vec::new(), program: vec!["/bin/sh".into(), file.into()], ..tunnel }
}

/// A script that ends with its input, as the keeper does.
const SERVES: &str =
    "echo started >> $DIR/starts; echo $$ > $DIR/pid.new; mv $DIR/pid.new $DIR/pid; exec cat";

/// Waits for the script, and listens in its place.
async fn listen(folder: &Path) -> UnixListener {
    until("it starts", || folder.join("pid").exists()).await;
    UnixListener::bind(folder.join("e.sock")).unwrap()
}

/// Returns `true` if the process of the script lives.
fn is_alive(folder: &Path) -> bool {
    let pid: i32 = std::fs::read_to_string(folder.join("pid")).unwrap().trim().parse().unwrap();
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), None).is_ok()
}

#[tokio::test]
async fn ssh_is_started_once_and_ends_with_its_tunnel() {
    let folder = tempfile::tempdir().unwrap();
    let tunnel = tunnel(folder.path(), SERVES);
    let (first, second, listener) = tokio::join!(tunnel.connect(), tunnel.connect(), listen(folder.path()));
    first.unwrap();
    second.unwrap();
    tunnel.connect().await.unwrap();
    assert_eq!(std::fs::read_to_string(folder.path().join("starts")).unwrap(), "started\n");
    assert!(is_alive(folder.path()));
    drop((tunnel, listener));
    until("it ends", || !is_alive(folder.path())).await;
}

#[tokio::test]
async fn a_tunnel_that_is_closed_ends_ssh_and_starts_none_again() {
    let folder = tempfile::tempdir().unwrap();
    let tunnel = tunnel(folder.path(), SERVES);
    let (connected, listener) = tokio::join!(tunnel.connect(), listen(folder.path()));
    connected.unwrap();
    assert!(is_alive(folder.path()));
    tunnel.close().await;
    until("it ends", || !is_alive(folder.path())).await;
    drop(listener);
    assert!(matches!(tunnel.connect().await, Err(SshError::Closed { .. })));
    assert_eq!(std::fs::read_to_string(folder.path().join("starts")).unwrap(), "started\n");
}

#[tokio::test]
async fn a_failure_is_told_in_the_words_of_ssh_and_not_repeated_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let script =
        "echo x >> $DIR/starts; echo first >&2; echo 'Host key verification \u{1b}[2Jfailed.' >&2; exit 255";
    let tunnel = tunnel(folder.path(), script);
    let error = tunnel.connect().await.unwrap_err();
    assert!(matches!(error, SshError::Ended { .. }), "{error}");
    let text = error.to_string();
    assert!(
        text.starts_with("ssh to gpu ended: Host key verification ") && !text.contains('\u{1b}'),
        "{text}"
    );
    assert_eq!(error.hint().as_deref(), Some("ssh gpu true"));
    for _ in 0..3 {
        let error = tunnel.connect().await.unwrap_err();
        assert!(matches!(error, SshError::Paused { .. }), "{error}");
        assert!(error.to_string().contains("Host key verification"), "{error}");
    }
    assert_eq!(std::fs::read_to_string(folder.path().join("starts")).unwrap(), "x\n");
    // When the pause is over, it is tried again, and the next pause is longer.
    tunnel.state.lock().await.failed = None;
    assert!(matches!(tunnel.connect().await, Err(SshError::Ended { .. })));
    assert_eq!(tunnel.state.lock().await.failures, 2);
}

#[tokio::test]
async fn an_ssh_that_ended_after_a_while_is_started_again_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let tunnel = tunnel(folder.path(), "echo x >> $DIR/starts; echo 'no route' >&2; exit 255");
    let mut running = tunnel.start().unwrap();
    running.child.wait().await.unwrap();
    running.started = Instant::now().checked_sub(START_LIMIT + Duration::from_secs(1)).unwrap();
    tunnel.state.lock().await.running = Some(running);
    let error = tunnel.connect().await.unwrap_err();
    assert!(matches!(&error, SshError::Ended { reason, .. } if reason == "no route"), "{error}");
    assert_eq!(std::fs::read_to_string(folder.path().join("starts")).unwrap(), "x\nx\n");
}

#[tokio::test]
async fn a_missing_ssh_is_an_error_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let tunnel = tunnel(folder.path(), "");
    let tunnel = SshTunnel { program: vec![folder.path().join("nothing").into()], ..tunnel };
    assert!(matches!(tunnel.connect().await, Err(SshError::Start(_))));
}
