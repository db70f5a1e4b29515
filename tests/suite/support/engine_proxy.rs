//! An engine with faults: a socket that passes on to the real one, until told otherwise.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use flock::sandbox::engine::Engine;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};

/// What it does with a new connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Fault {
    /// Passes it on.
    None,
    /// Passes it on, but refuses to attach to a container.
    NoAttach,
    /// Takes it and says nothing.
    Silent,
    /// Takes it and closes it at once.
    Closed,
}

/// The socket. Must be made inside a runtime, and lives as long as that.
pub struct EngineProxy {
    fault: Arc<AtomicU8>,
    socket: PathBuf,
    _folder: tempfile::TempDir,
}

impl EngineProxy {
    /// In front of this engine.
    pub fn new(engine: &Engine) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("engine.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let real = engine.socket().unwrap().to_owned();
        let fault = Arc::new(AtomicU8::new(0));
        let now = Arc::clone(&fault);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, real.clone(), now.load(Ordering::SeqCst)));
            }
        });
        Self { fault, socket, _folder: folder }
    }

    /// From now on.
    pub fn set(&self, fault: Fault) {
        self.fault.store(fault as u8, Ordering::SeqCst);
    }

    /// The engine as it is reached through this socket.
    pub fn engine(&self) -> Arc<Engine> {
        Arc::new(Engine::at(format!("unix://{}", self.socket.display())))
    }
}

async fn serve(mut stream: UnixStream, real: PathBuf, fault: u8) {
    if fault == Fault::Closed as u8 {
        return;
    }
    if fault == Fault::Silent as u8 {
        let mut sink = Vec::new();
        let _ = stream.read_to_end(&mut sink).await;
        return;
    }
    let mut first = vec![0; 64 << 10];
    let Ok(length) = stream.read(&mut first).await else { return };
    if fault == Fault::NoAttach as u8 && String::from_utf8_lossy(&first[..length]).contains("/attach") {
        let answer = b"HTTP/1.1 500 Internal Server Error\r\ncontent-type: application/json\r\ncontent-length: 26\r\nconnection: close\r\n\r\n{\"message\":\"no attaching\"}";
        let _ = stream.write_all(answer).await;
        return;
    }
    let Ok(mut engine) = UnixStream::connect(real).await else { return };
    if engine.write_all(&first[..length]).await.is_ok() {
        let _ = tokio::io::copy_bidirectional(&mut stream, &mut engine).await;
    }
}
