//! The supervisor's end of the control socket.

use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, mpsc, oneshot};

use super::wire::{MAX_REQUEST, Refusal, Reply, Request};

/// A request and where its answer goes.
pub type Asked = (Request, oneshot::Sender<Reply>);

/// A socket that requests come from, until it is dropped.
#[derive(Debug)]
pub struct Server {
    path: PathBuf,
    accepting: tokio::task::JoinHandle<()>,
}

impl Server {
    /// Listens at `path`, in place of whatever is there: only the holder of the supervisor's lock does so.
    ///
    /// # Errors
    ///
    /// If it can't listen there.
    pub fn listen(path: &Path, requests: mpsc::Sender<Asked>) -> io::Result<Self> {
        match std::fs::symlink_metadata(path) {
            Ok(_) => fs_err::remove_file(path)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        // Between this line and the next others might connect; they are refused by their user id.
        let listener = UnixListener::bind(path)?;
        fs_err::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
        let accepting = tokio::spawn(accept(listener, requests));
        Ok(Self { path: path.to_owned(), accepting })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepting.abort();
        let _ = fs_err::remove_file(&self.path);
    }
}

async fn accept(listener: UnixListener, requests: mpsc::Sender<Asked>) {
    let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    loop {
        // Out of file descriptors, most likely: the next client may have more luck.
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let own = nix::unistd::Uid::current().as_raw();
        let permitted = stream.peer_cred().is_ok_and(|peer| peer.uid() == own || peer.uid() == 0);
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else { continue };
        if permitted {
            let requests = requests.clone();
            tokio::spawn(async move {
                // A client that breaks off, or says nothing sensible, is its own trouble.
                let _ = converse(stream, &requests).await;
                drop(place);
            });
        }
    }
}

async fn converse(stream: UnixStream, requests: &mpsc::Sender<Asked>) -> io::Result<()> {
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::new(reader);
    loop {
        let mut line = Vec::new();
        let mut bounded = (&mut reader).take(MAX_REQUEST);
        let read = tokio::time::timeout(PATIENCE, bounded.read_until(b'\n', &mut line)).await??;
        if read == 0 {
            return Ok(());
        }
        let reply = match serde_json::from_slice::<Request>(&line) {
            Ok(request) => {
                let (answer, answered) = oneshot::channel();
                let ended = |_| io::Error::other("the supervisor ended");
                requests.send((request, answer)).await.map_err(|_| ended(()))?;
                answered.await.map_err(|_| ended(()))?
            }
            Err(_) => Reply { status: None, refused: Some(Refusal::NotUnderstood) },
        };
        let mut text = serde_json::to_vec(&reply)?;
        text.push(b'\n');
        tokio::time::timeout(PATIENCE, writer.write_all(&text)).await??;
        if reply.refused == Some(Refusal::NotUnderstood) {
            return Ok(());
        }
    }
}

/// More clients than this at once are turned away.
const MOST_CONNECTIONS: usize = 64;
/// How long a client may take for its line, or to take ours.
const PATIENCE: Duration = Duration::from_secs(30);
