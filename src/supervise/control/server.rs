//! The server side of the control socket, in the supervisor.

use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, mpsc, oneshot};

use super::protocol::{ControlRefusal, ControlReply, ControlRequest, MAX_REQUEST};

/// A request and the channel for its answer.
pub(crate) type PendingRequest = (ControlRequest, oneshot::Sender<ControlReply>);

/// A listening control socket. Dropping it stops listening and removes the socket.
#[derive(Debug)]
pub(crate) struct ControlServer {
    path: PathBuf,
    accepting: tokio::task::JoinHandle<()>,
}

impl ControlServer {
    /// Listens at `path` and replaces whatever is there. Only the holder of the supervisor's lock may call this.
    ///
    /// # Errors
    ///
    /// Returns an error if the old file can't be removed or the socket can't be created there.
    pub(crate) fn listen(path: &Path, requests: mpsc::Sender<PendingRequest>) -> io::Result<Self> {
        match std::fs::symlink_metadata(path) {
            Ok(_) => fs_err::remove_file(path)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        // Others could connect before the permissions are set; `accept` refuses them by their user id.
        let listener = UnixListener::bind(path)?;
        fs_err::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
        let accepting = tokio::spawn(accept(listener, requests));
        Ok(Self { path: path.to_owned(), accepting })
    }
}

impl Drop for ControlServer {
    fn drop(&mut self) {
        self.accepting.abort();
        let _ = fs_err::remove_file(&self.path);
    }
}

async fn accept(listener: UnixListener, requests: mpsc::Sender<PendingRequest>) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        // Probably the process is out of file descriptors. Wait a moment for one to become free.
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let own = nix::unistd::Uid::current().as_raw();
        let permitted = stream.peer_cred().is_ok_and(|peer| peer.uid() == own || peer.uid() == 0);
        // Without a limit, a client could use up the supervisor's file descriptors.
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else { continue };
        if permitted {
            let requests = requests.clone();
            tokio::spawn(async move {
                // An error concerns this client only, so it is not reported.
                let _ = serve_connection(stream, &requests).await;
                drop(place);
            });
        }
    }
}

async fn serve_connection(stream: UnixStream, requests: &mpsc::Sender<PendingRequest>) -> io::Result<()> {
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::new(reader);
    loop {
        let mut line = Vec::new();
        // The limit keeps a client that never sends a line end from filling the memory.
        let mut bounded = (&mut reader).take(MAX_REQUEST);
        let read = tokio::time::timeout(IO_TIMEOUT, bounded.read_until(b'\n', &mut line)).await??;
        if read == 0 {
            return Ok(());
        }
        let reply = match serde_json::from_slice::<ControlRequest>(&line) {
            Ok(request) => {
                let (answer, answered) = oneshot::channel();
                let ended = |_| io::Error::other("the supervisor ended");
                requests.send((request, answer)).await.map_err(|_| ended(()))?;
                answered.await.map_err(|_| ended(()))?
            }
            Err(_) => ControlReply { status: None, refused: Some(ControlRefusal::NotUnderstood) },
        };
        let mut text = serde_json::to_vec(&reply)?;
        text.push(b'\n');
        tokio::time::timeout(IO_TIMEOUT, writer.write_all(&text)).await??;
        if reply.refused == Some(ControlRefusal::NotUnderstood) {
            return Ok(());
        }
    }
}

/// The most simultaneous clients; further ones are turned away.
const MAX_CONNECTIONS: usize = 64;
/// The time that a client may take to send a line or to receive one.
const IO_TIMEOUT: Duration = Duration::from_secs(30);
