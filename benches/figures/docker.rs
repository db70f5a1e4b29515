//! Sandboxes on a real engine: a command in a warm one, and making one.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::home::Home;
use crate::{Sample, row, stub};

/// Says so and measures nothing where no engine answers.
pub fn run() {
    if !answers() {
        row("Docker", "no engine answers");
        return;
    }
    let home = Home::new(stub::start());
    home.flock(&["init", "--yes"]);

    let image = image(&home);
    let mut n = 0;
    let mut added = Vec::new();
    let mut plain = Vec::new();
    // In turn, so that a machine that gets slower slows both.
    for _ in 0..8 {
        n += 1;
        added.push(home.flock(&["add", &format!("bench-{n}")]));
        let name = format!("flock-bench-{}-{n}", std::process::id());
        plain.push(docker(&["run", "-d", "--name", &name, &image, "sleep", "1000"]));
        docker(&["rm", "-f", &name]);
    }
    let (added, plain) = (Sample::from(added), Sample::from(plain));
    let ratio = added.median().as_secs_f64() / plain.median().as_secs_f64();
    row("`docker run -d` of the same image", &plain);
    row("`flock add`, to a confined and probed container", &added);
    row("their ratio", format!("{ratio:.2}"));

    warm(&home);
    for n in 1..=8 {
        home.flock(&["remove", &format!("bench-{n}"), "--yes", "--purge"]);
    }
}

/// Returns `true` if an engine answers.
pub fn answers() -> bool {
    let version = Command::new("docker").arg("version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    version.is_ok_and(|status| status.success())
}

/// `true` by the helper, by the engine's exec, in one run.
fn warm(home: &Home) {
    use flock::sandbox::docker::DockerSandbox;
    use flock::sandbox::engine::Engine;
    use flock::sandbox::{Command as Run, Sandbox as _};
    let opened = home.open();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let agent = "bench-1".parse().unwrap();
    let name = format!("flock-sbx-bench-1{}", opened.suffix());
    let config = flock::config::Live::open(opened.clone()).unwrap();
    let engine = std::sync::Arc::new(Engine::from_env());
    let sandbox = DockerSandbox::new(opened, std::sync::Arc::new(move || config.current()), engine);
    let cancel = tokio_util::sync::CancellationToken::new();
    let mut helper = || {
        let command = Run { command: "true".into(), keep: 1000, ..Run::default() };
        let began = Instant::now();
        runtime.block_on(sandbox.run(&agent, command, &cancel)).unwrap();
        began.elapsed()
    };
    let helper = Sample::of(300, &mut helper);
    let exec = Sample::of(20, || docker(&["exec", &name, "true"]));
    row("`true` in a warm sandbox, by flock", &helper);
    row("the same by `docker exec`", &exec);
    let ratio = exec.median().as_secs_f64() / helper.median().as_secs_f64();
    row("their ratio", format!("{ratio:.0}"));
}

fn docker(args: &[&str]) -> Duration {
    let began = Instant::now();
    let output = Command::new("docker").args(args).output().unwrap();
    let took = began.elapsed();
    assert!(output.status.success(), "docker {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    took
}

/// The image that the home's sandboxes are made from.
fn image(home: &Home) -> String {
    let home = home.open();
    let config = flock::config::read(&home).unwrap();
    flock::sandbox::image::reference(&home, &config, flock::sandbox::image::Recipe::Sandbox)
}
