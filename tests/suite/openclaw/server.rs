//! Git servers of a test's own.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Git's smart protocol over HTTP, for one repository at `/openclaw.git`. It serves until the test's process ends.
pub struct GitHttp {
    address: SocketAddr,
}

impl GitHttp {
    pub fn start(repository: &Path) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let repository = repository.to_owned();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let repository = repository.clone();
                std::thread::spawn(move || serve(&stream, &repository));
            }
        });
        Self { address }
    }

    pub fn url(&self) -> String {
        format!("http://{}/openclaw.git", self.address)
    }

    pub fn wrong_url(&self) -> String {
        format!("http://{}/nothing.git", self.address)
    }
}

/// Answers one request and closes.
fn serve(mut stream: &TcpStream, repository: &PathBuf) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut first = String::new();
    reader.read_line(&mut first).ok()?;
    let mut length = 0;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        let header = header.trim().to_ascii_lowercase();
        if let Some(value) = header.strip_prefix("content-length: ") {
            length = value.parse().ok()?;
        }
        if header.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let git = |args: &[&str]| {
        let mut command = Command::new("git");
        command.args(["upload-pack", "--stateless-rpc"]).args(args).arg(repository);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(&body).unwrap();
        child.wait_with_output().unwrap().stdout
    };
    let (kind, answer) = match first.split(' ').take(2).collect::<Vec<_>>()[..] {
        ["GET", "/openclaw.git/info/refs?service=git-upload-pack"] => {
            let mut answer = b"001e# service=git-upload-pack\n0000".to_vec();
            answer.extend(git(&["--advertise-refs"]));
            ("advertisement", answer)
        }
        ["POST", "/openclaw.git/git-upload-pack"] => ("result", git(&[])),
        _ => {
            stream
                .write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
                .ok()?;
            return None;
        }
    };
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/x-git-upload-pack-{kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        answer.len()
    );
    stream.write_all(head.as_bytes()).ok()?;
    stream.write_all(&answer).ok()
}

/// Puts an `ssh` into `folder` that runs here what it is asked to run elsewhere, and notes how it was called.
pub fn stand_in_for_ssh(folder: &Path) {
    std::fs::create_dir(folder).unwrap();
    let file = folder.join("ssh");
    let script = format!(
        "#!/bin/sh\necho \"$*\" >> {}\nfor last; do :; done\nexec sh -c \"$last\"\n",
        folder.join("asked").display()
    );
    std::fs::write(&file, script).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
}
