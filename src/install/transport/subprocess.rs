//! Git's protocol over the streams of a program: `ssh HOST git-upload-pack PATH`, or `git upload-pack PATH`.

use std::io::{self, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use git2::transport::{Service, SmartSubtransport, SmartSubtransportStream};

use crate::clean::percent_decode;

/// Transport over the streams of a program that is started for each request.
pub(crate) struct SubprocessTransport {
    /// Returns the command for an address.
    command: fn(&str) -> Result<Command, git2::Error>,
    running: RunningChild,
}

type RunningChild = Arc<Mutex<Option<Child>>>;
type Stream = Box<dyn SmartSubtransportStream>;

impl SubprocessTransport {
    /// Returns the transport over the machine's `ssh`, with its configuration, known hosts and agent.
    pub(crate) fn ssh() -> Self {
        Self { command: ssh, running: RunningChild::default() }
    }

    /// Returns the transport for a repository on this machine.
    pub(crate) fn local() -> Self {
        Self { command: upload_pack, running: RunningChild::default() }
    }
}

impl SmartSubtransport for SubprocessTransport {
    fn action(&self, url: &str, action: Service) -> Result<Stream, git2::Error> {
        check_read_only(action)?;
        start(&mut (self.command)(url)?, &self.running)
    }

    fn close(&self) -> Result<(), git2::Error> {
        end(&self.running);
        Ok(())
    }
}

fn ssh(url: &str) -> Result<Command, git2::Error> {
    let address = Address::parse(url).ok_or_else(|| git2::Error::from_str("the address is not usable"))?;
    let mut command = Command::new("ssh");
    // Nobody can be asked while a progress bar is shown. The keep-alive detects a lost server.
    command.args(["-o", "BatchMode=yes", "-o", "ConnectTimeout=30", "-o", "ServerAliveInterval=30"]);
    if let Some(port) = address.port {
        command.args(["-p", &port.to_string()]);
    }
    // `--` stops a host name from being read as an option.
    command.arg("--").arg(address.host).arg(format!("git-upload-pack {}", shell_quote(&address.path)));
    Ok(command)
}

fn upload_pack(url: &str) -> Result<Command, git2::Error> {
    let path = percent_decode(url.strip_prefix("file://").unwrap_or(url));
    let mut command = Command::new("git");
    command.args(["upload-pack", "--strict", "--"]).arg(git_folder(&path));
    Ok(command)
}

/// Returns the repository folder itself, which a checkout has in `.git`. `--strict` accepts nothing else.
fn git_folder(path: &str) -> std::path::PathBuf {
    let path = std::path::Path::new(path);
    let inner = path.join(".git");
    if inner.exists() { inner } else { path.to_owned() }
}

/// Refuses a push: flock only reads, so it would be a programming error.
pub(super) fn check_read_only(action: Service) -> Result<(), git2::Error> {
    match action {
        Service::UploadPackLs | Service::UploadPack => Ok(()),
        Service::ReceivePackLs | Service::ReceivePack => Err(git2::Error::from_str("flock never pushes")),
    }
}

fn start(command: &mut Command, running: &RunningChild) -> Result<Stream, git2::Error> {
    let name = command.get_program().display().to_string();
    let fail = |error: &io::Error| git2::Error::from_str(&format!("{name} can't be started: {error}"));
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| fail(&error))?;
    let (Some(input), Some(output), Some(errors)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err(git2::Error::from_str("a program without streams"));
    };
    let said = Arc::new(Mutex::new(String::new()));
    let heard = Arc::clone(&said);
    // The text is limited, but the pipe is read to its end, so that the program never blocks on it.
    std::thread::spawn(move || {
        let mut text = Vec::new();
        let mut errors = errors;
        let mut piece = [0; 1024];
        while let Ok(count @ 1..) = errors.read(&mut piece) {
            if text.len() < MAX_STDERR {
                text.extend_from_slice(&piece[..count]);
                *heard.lock().unwrap_or_else(PoisonError::into_inner) =
                    String::from_utf8_lossy(&text).into_owned();
            }
        }
    });
    let mut place = running.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(mut before) = place.replace(child) {
        stop(&mut before);
    }
    Ok(Box::new(Streams { input, output, said, running: Arc::clone(running), read_any: false }))
}

fn end(running: &RunningChild) {
    if let Some(mut child) = running.lock().unwrap_or_else(PoisonError::into_inner).take() {
        stop(&mut child);
    }
}

/// Kills a program. Its answer is complete, so it has nothing to finish.
fn stop(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

struct Streams {
    input: ChildStdin,
    output: ChildStdout,
    said: Arc<Mutex<String>>,
    running: RunningChild,
    read_any: bool,
}

impl Read for Streams {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.output.read(buffer)?;
        if count == 0 && !self.read_any {
            // The program ended without any output. Its standard error tells why.
            if let Some(child) = self.running.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
                let _ = child.wait();
            }
            let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
            let why = said.trim().lines().last().unwrap_or("it ended without any output").to_owned();
            return Err(io::Error::other(why));
        }
        self.read_any |= count > 0;
        Ok(count)
    }
}

impl Write for Streams {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.input.write(buffer)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.input.flush()
    }
}

/// An address: `ssh://[user@]host[:port]/path`, or `[user@]host:path`.
#[derive(Debug, PartialEq, Eq)]
struct Address {
    host: String,
    port: Option<u16>,
    path: String,
}

impl Address {
    fn parse(url: &str) -> Option<Self> {
        let (host, port, path) = if let Some(rest) = url.strip_prefix("ssh://") {
            let (authority, path) = rest.split_once('/')?;
            // `/~ann/x` is below a home folder. Everything else is below the root.
            let path = if path.starts_with('~') { path.to_owned() } else { format!("/{path}") };
            // A colon inside brackets belongs to an IPv6 address.
            let (host, port) = match authority.rsplit_once(':') {
                Some((host, port)) if !port.contains(']') => (host, Some(port.parse().ok()?)),
                _ => (authority, None),
            };
            (host.replace(['[', ']'], ""), port, percent_decode(&path))
        } else {
            let (host, path) = url.split_once(':')?;
            (host.to_owned(), None, path.to_owned())
        };
        (!host.is_empty() && !host.starts_with('-') && !path.is_empty()).then_some(Self { host, port, path })
    }
}

/// Quotes a path as one word for the shell on the server.
fn shell_quote(path: &str) -> String {
    format!("'{}'", path.replace('\'', "'\\''"))
}

const MAX_STDERR: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_of_git() {
        let parse = |url: &str| Address::parse(url).map(|a| (a.host, a.port, a.path));
        assert_eq!(parse("ssh://git@h/a/b.git"), Some(("git@h".into(), None, "/a/b.git".into())));
        assert_eq!(parse("ssh://h:2222/~ann/b%20c"), Some(("h".into(), Some(2222), "~ann/b c".into())));
        assert_eq!(parse("ssh://[::1]:22/a"), Some(("::1".into(), Some(22), "/a".into())));
        assert_eq!(parse("git@h:a/b.git"), Some(("git@h".into(), None, "a/b.git".into())));
        assert_eq!(parse("ssh://-oProxyCommand=x/a"), None);
        assert_eq!(parse("-oProxyCommand=x:a"), None);
        assert_eq!(parse("ssh://h:nothing/a"), None);
    }

    #[test]
    fn a_path_is_quoted_for_the_shell() {
        assert_eq!(shell_quote("/a'; rm -rf ~; '"), r"'/a'\''; rm -rf ~; '\'''");
        assert_eq!(percent_decode("/50%25 %zz"), "/50% %zz");
    }
}
