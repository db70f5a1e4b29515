//! A home of a test's own and the built binary run in it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, Once, OnceLock};
use std::time::Duration;

use flock::supervise::gateway_client::Client;
use nix::sys::signal::{SigHandler, Signal, kill, signal};
use nix::unistd::Pid;
use serde_json::Value;

use super::database::HomeDatabase;

/// A temporary home, gone with the value. No engine is reachable from it unless
/// [`TempHome::with_docker`] was called.
pub struct TempHome {
    dir: tempfile::TempDir,
    docker: bool,
    database: OnceLock<HomeDatabase>,
}

/// What a run of the binary left.
#[derive(Clone, Debug)]
pub struct Run {
    /// The exit code; 128 + the signal where one ended it.
    pub code: i32,
    /// All of stdout.
    pub stdout: String,
    /// All of stderr.
    pub stderr: String,
}

impl Run {
    /// Fails the test unless the run succeeded.
    #[track_caller]
    pub fn ok(self) -> Self {
        assert_eq!(self.code, 0, "{self:#?}");
        self
    }

    /// Fails the test unless the run ended with this code.
    #[track_caller]
    pub fn fails(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:#?}");
        self
    }

    /// stdout as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }
}

impl TempHome {
    /// A folder for a home that `init` has not made yet.
    pub fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("flock-test-").tempdir().unwrap();
        Self { dir, docker: false, database: OnceLock::new() }
    }

    /// With the machine's own engine.
    pub fn with_docker(mut self) -> Self {
        self.docker = true;
        self
    }

    /// Whether the machine's own engine can be reached from it.
    pub fn has_docker(&self) -> bool {
        self.docker
    }

    /// The home's folder.
    pub fn path(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join("home")
    }

    /// A folder beside the home, for whatever else the test needs; it is the user's home folder, too.
    pub fn outside(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap()
    }

    /// The drafts of archives and homes that are left beside the home.
    pub fn drafts(&self) -> Vec<PathBuf> {
        let all = std::fs::read_dir(self.outside()).unwrap().map(|entry| entry.unwrap().path());
        all.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with(".flock-")).collect()
    }

    /// A file of the home.
    pub fn file(&self, path: impl AsRef<Path>) -> PathBuf {
        self.path().join(path)
    }

    /// config.json as it is now.
    pub fn config(&self) -> Value {
        serde_json::from_slice(&std::fs::read(self.file("config.json")).unwrap()).unwrap()
    }

    /// config.json as it is now, byte for byte.
    pub fn config_text(&self) -> String {
        std::fs::read_to_string(self.file("config.json")).unwrap()
    }

    /// The port of the gateway.
    pub fn port(&self) -> u16 {
        let port = self.config()["plugins"]["entries"]["flock"]["config"]["gateway"]["port"].as_u64();
        u16::try_from(port.unwrap()).unwrap()
    }

    /// The token of the owner.
    pub fn token(&self) -> String {
        self.config()["gateway"]["auth"]["token"].as_str().unwrap().to_owned()
    }

    /// The owner, as a client of the gateway.
    pub fn owner(&self) -> Client {
        Client::new(self.port()).with_token(&self.token())
    }

    /// Makes the home, without images and store, on a port that nobody else of this run has.
    pub fn init(self) -> Self {
        self.flock([
            "init",
            "--yes",
            "--no-images",
            "--model",
            "script/demo",
            "--port",
            &free_port().to_string(),
        ])
        .ok();
        self.database();
        self
    }

    /// Makes the home with images and store in the machine's engine; `None` without one.
    pub fn init_in_docker() -> Option<Self> {
        super::docker::engine_with_images()?;
        let home = Self::new().with_docker();
        home.flock(["init", "--yes", "--model", "script/demo", "--port", &free_port().to_string()]).ok();
        home.database();
        Some(home)
    }

    /// Its database. Who makes the home without [`TempHome::init`] calls this before anything is in there, and the home
    /// has a schema on the server for tests, if there is one.
    pub fn database(&self) -> &HomeDatabase {
        self.database.get_or_init(|| HomeDatabase::of(&self.home()))
    }

    /// The name of an agent's container.
    pub fn container(&self, agent: &str) -> String {
        flock::sandbox::names::sandbox(&self.home(), &agent.parse().unwrap())
    }

    fn home(&self) -> flock::home::Home {
        flock::home::Home::new(self.path(), None)
    }

    /// Runs the binary to its end, with nothing on stdin.
    pub fn flock<S: AsRef<std::ffi::OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Run {
        finish(self.command().args(args))
    }

    /// The rows of the audit about this action, or about all actions of a kind, newest first.
    pub fn audited(&self, action: &str) -> Vec<Value> {
        let mut found = self.flock(["audit", "--action", action, "--json"]).ok().json();
        serde_json::from_value(found["rows"].take()).unwrap()
    }

    /// The subjects and details of those rows, as in `ada: 2 checkpoints`. People caused all of them.
    pub fn audited_of_people(&self, action: &str) -> Vec<String> {
        let rows = self.audited(action).into_iter();
        rows.map(|row| {
            assert!(row["actor"].as_str().unwrap().starts_with("human:"), "{row}");
            format!("{}: {}", row["subject"].as_str().unwrap(), row["detail"].as_str().unwrap())
        })
        .collect()
    }

    /// Runs the binary to its end with these variables besides.
    pub fn flock_with_env<S: AsRef<std::ffi::OsStr>>(
        &self,
        args: impl IntoIterator<Item = S>,
        env: &[(&str, &str)],
    ) -> Run {
        finish(self.command().args(args).envs(env.iter().copied()))
    }

    /// Runs the binary to its end with this text on stdin.
    pub fn flock_with_input<S: AsRef<std::ffi::OsStr>>(
        &self,
        args: impl IntoIterator<Item = S>,
        input: &str,
    ) -> Run {
        use std::io::Write as _;
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(input.as_bytes()).unwrap();
        std::io::Seek::rewind(&mut file).unwrap();
        end(self.command().args(args).stdin(file))
    }

    /// The binary with this home and nothing of the test's own environment but PATH.
    pub fn command(&self) -> Command {
        let mut command = Command::new(super::flock_binary());
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.outside())
            .env("FLOCK_HOME", self.path())
            .env("USER", "ann")
            .current_dir(self.dir.path());
        if self.docker {
            if let Some(host) = std::env::var_os("DOCKER_HOST") {
                command.env("DOCKER_HOST", host);
            }
        } else {
            command.env("DOCKER_HOST", format!("unix://{}", self.outside().join("no-engine.sock").display()));
        }
        obey_interrupts();
        command
    }
}

/// Gives this process and all that it starts from now on the default action for SIGINT. A shell has what it runs in the
/// background ignore that signal, and children inherit it: without this, a test that interrupts a program would wait
/// for ever in `test.sh &`.
///
/// Done by each child between fork and exec, it would keep the standard library from `posix_spawn`, and a fork copies
/// the page tables of the whole suite.
fn obey_interrupts() {
    static DONE: Once = Once::new();
    DONE.call_once(|| {
        // SAFETY: it installs no handler, and replaces none: no test listens for the signal in this process.
        unsafe { signal(Signal::SIGINT, SigHandler::SigDfl) }.unwrap();
    });
}

impl Drop for TempHome {
    fn drop(&mut self) {
        // Nothing of a test outlives it, whether it passed or not.
        if self.file("run/supervisor.lock").exists() {
            self.flock(["stop", "-q"]);
        }
        if self.docker {
            super::docker::clean(&self.home());
        }
    }
}

/// Runs a command to its end, with nothing on stdin. One that has not ended after ten minutes is killed and counts as
/// failed, so that a test that hangs says which command it waited for.
pub fn finish(command: &mut Command) -> Run {
    end(command.stdin(Stdio::null()))
}

fn end(command: &mut Command) -> Run {
    use std::os::unix::process::ExitStatusExt as _;
    const LIMIT: Duration = Duration::from_secs(600);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let id = Pid::from_raw(child.id().cast_signed());
    let (sender, ended) = std::sync::mpsc::channel();
    // Its output ends only when nobody has it open any more, which is another way to hang.
    std::thread::spawn(move || sender.send(child.wait_with_output()));
    let Ok(output) = ended.recv_timeout(LIMIT) else {
        let _ = kill(id, Signal::SIGKILL);
        let stderr = format!("{command:?} or what has its output open had not ended after {LIMIT:?}");
        return Run { code: 128 + Signal::SIGKILL as i32, stdout: String::new(), stderr };
    };
    let output = output.unwrap();
    Run {
        code: output.status.code().unwrap_or_else(|| 128 + output.status.signal().unwrap_or_default()),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// A port of 127.0.0.1 that was free a moment ago, below those that the system hands out by itself: a gateway
/// that is started again must not find its port with somebody's passing connection.
///
/// Nobody gets it again before this process ends, here or in another run of the suite: the gateway of one test may be
/// down while another test looks for a port.
pub fn free_port() -> u16 {
    static RESERVED: Mutex<Vec<File>> = Mutex::new(Vec::new());
    // One folder for all runs, whatever place each has for its files.
    let folder = Path::new("/var/tmp").join(format!("flock-test-ports-{}", nix::unistd::getuid()));
    std::fs::create_dir_all(&folder).unwrap();
    loop {
        let port = rand::random_range(20_000..32_000);
        let mark = File::create(folder.join(port.to_string())).unwrap();
        if mark.try_lock().is_ok() && std::net::TcpListener::bind(("127.0.0.1", port)).is_ok() {
            RESERVED.lock().unwrap().push(mark);
            return port;
        }
    }
}
