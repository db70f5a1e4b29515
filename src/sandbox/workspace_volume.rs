//! The workspace of an agent whose engine is on another machine: a volume of that engine. Files are brought in and out by a
//! container that has the volume and never runs, through the engine's interface for archives.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bollard::models::{ContainerCreateBody, HostConfig, VolumeCreateRequest};
use bollard::query_parameters::{DownloadFromContainerOptionsBuilder, UploadToContainerOptionsBuilder};
use bytes::Bytes;
use futures_util::StreamExt as _;
use tokio::sync::mpsc;

use crate::home::Home;
use crate::home::beneath::{Owner, Root};
use crate::home::elsewhere;
use crate::home::remove_tree;
use crate::id::{AgentId, EngineName};
use crate::sandbox::containers::RemoveOnDrop;
use crate::sandbox::engine::{self, Engine};
use crate::sandbox::engines::PlacedEngine;
use crate::sandbox::spec::{self, IDENTITY_FILES, MountSpec, SandboxUser, WORKSPACE_TARGET};
use crate::sandbox::workspace_archive::{self as archive, Tally};
use crate::sandbox::{SandboxError, containers, names, volumes};

/// The folder of an archive that holds the workspace.
const TOP: &str = "workspace";
/// Number of pieces of an archive that wait to be sent or written.
const PIECES: usize = 16;
/// Limit on one identity file, in bytes.
const MAX_IDENTITY: u64 = 1 << 20;

/// The workspace of one agent in an engine on another machine.
pub(crate) struct WorkspaceVolume<'a> {
    pub home: &'a Home,
    pub agent: &'a AgentId,
    pub placed: &'a PlacedEngine,
    /// An image of the engine, for the container that never runs.
    pub image: &'a str,
    pub user: SandboxUser,
}

impl WorkspaceVolume<'_> {
    /// Makes the volume ready for a new container: it is made and filled with what the agent's folder on this machine has, if
    /// that was not done before, and gets the present identity files.
    ///
    /// The folder is kept until the volume was read back and has the same content. From then on a mark is in its place.
    ///
    /// # Errors
    ///
    /// Returns an error if the workspace is on another engine, if its volume is gone, or if it can't be filled.
    pub async fn provide(&self, workspace: &Path, identity: &Path) -> Result<(), SandboxError> {
        let name = names::workspace_volume(self.home, self.agent);
        let engine = &self.placed.engine;
        let is_whole = match elsewhere::engine_of(workspace) {
            Some(other) if other != self.placed.name => {
                return Err(self.problem(format!("is on the engine {other}")));
            }
            Some(_) => true,
            None => false,
        };
        let is_there = volume_exists(engine, &name).await?;
        if is_whole && !is_there {
            return Err(
                self.problem(format!("is gone: the engine {} has no volume {name}", self.placed.name))
            );
        }
        if !is_whole {
            // One that was not filled to its end.
            if is_there {
                volumes::remove(engine, &name).await?;
            }
            create_volume(engine, self.home, &name).await?;
        }
        let carrier = self.carrier(&name).await?;
        if !is_whole {
            let sent = carrier.upload(workspace.to_owned(), self.user).await?;
            let found = carrier.download(None, None).await?;
            if sent != found {
                return Err(self.problem(format!("was not brought to the engine whole: {found} of {sent}")));
            }
            tracing::info!(agent = %self.agent, engine = %self.placed.name, %sent, "a workspace was brought to its engine");
            let (workspace, name) = (workspace.to_owned(), self.placed.name.clone());
            blocking(&workspace.clone(), move || give_up(&workspace, &name)).await?;
        }
        carrier.identity(identity.to_owned()).await?;
        carrier.end().await
    }

    /// Brings the workspace back to this machine, and puts it in the place of its mark. The volume stays.
    ///
    /// # Errors
    ///
    /// Returns an error if the volume can't be read, or if the files can't be written. Then nothing has changed.
    pub async fn bring_back(&self, workspace: &Path, owner: Option<Owner>) -> Result<(), SandboxError> {
        let name = names::workspace_volume(self.home, self.agent);
        if !volume_exists(&self.placed.engine, &name).await? {
            return Err(
                self.problem(format!("is gone: the engine {} has no volume {name}", self.placed.name))
            );
        }
        let carrier = self.carrier(&name).await?;
        let made = workspace.to_owned();
        let beside = blocking(workspace, move || folder_beside(&made, owner)).await?;
        let (into, place) = (beside.clone(), workspace.to_owned());
        let brought = async {
            let sent = carrier.download(Some(into.clone()), owner).await?;
            let found = blocking(&place, {
                let into = into.clone();
                move || archive::tally(&open(&into)?, &IDENTITY_FILES)
            })
            .await?;
            if sent != found {
                return Err(self.problem(format!("was not brought back whole: {found} of {sent}")));
            }
            let to = place.clone();
            blocking(&place, move || elsewhere::unmark(&to, &into).map_err(io::Error::other)).await?;
            Ok(sent)
        };
        match brought.await {
            Ok(tally) => {
                tracing::info!(agent = %self.agent, engine = %self.placed.name, %tally, "a workspace was brought back");
                carrier.end().await
            }
            Err(error) => {
                let _ = blocking(workspace, move || clear(&beside)).await;
                Err(error)
            }
        }
    }

    fn problem(&self, what: String) -> SandboxError {
        SandboxError::Workspace { agent: self.agent.clone(), what }
    }

    async fn carrier(&self, volume: &str) -> Result<Carrier, SandboxError> {
        let engine = &self.placed.engine;
        let name = names::carrier(self.home, self.agent);
        if let Some(left) = containers::find_own(engine, self.home, &name).await? {
            containers::remove(engine, &left.id).await?;
        }
        let owner = names::owner(self.home);
        let mount = MountSpec::volume(WORKSPACE_TARGET, volume, true).body(&owner);
        let body = ContainerCreateBody {
            image: Some(self.image.to_owned()),
            entrypoint: Some(vec!["/nothing".to_owned()]),
            labels: Some(HashMap::from([(names::LABEL_HOME.to_owned(), owner)])),
            host_config: Some(HostConfig {
                mounts: Some(vec![mount]),
                // The engine puts nothing into a container with a read-only root, even into a volume above it.
                readonly_rootfs: Some(false),
                ..spec::confined_host_config()
            }),
            ..ContainerCreateBody::default()
        };
        let id = containers::create(engine, &name, body).await?;
        let guard = RemoveOnDrop { engine: Arc::clone(engine), name: Some(id.clone()) };
        Ok(Carrier { engine: Arc::clone(engine), id, guard })
    }
}

/// Removes the volume of an agent's workspace. It is no error if there is none.
pub(crate) async fn remove(engine: &Engine, home: &Home, agent: &AgentId) -> Result<(), SandboxError> {
    volumes::remove(engine, &names::workspace_volume(home, agent)).await
}

/// Returns the agents whose workspaces are in an engine on another machine. Some may have been removed without their files.
pub(crate) fn agents_in(home: &Home, engine: &EngineName) -> Vec<AgentId> {
    let entries = fs_err::read_dir(home.workspaces()).into_iter().flatten().flatten();
    let there = entries.filter(|entry| elsewhere::engine_of(&entry.path()).as_ref() == Some(engine));
    let mut agents: Vec<AgentId> =
        there.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    agents.sort();
    agents
}

/// Returns the volumes of workspaces in an engine that belong to no agent.
///
/// # Errors
///
/// Returns an error if the engine does not answer.
pub(crate) async fn unclaimed(
    engine: &Engine,
    home: &Home,
    name: &EngineName,
) -> Result<Vec<String>, SandboxError> {
    let claimed: Vec<String> =
        agents_in(home, name).iter().map(|agent| names::workspace_volume(home, agent)).collect();
    let mut found = volumes::list(engine, home).await?;
    found.retain(|volume| volume.starts_with(names::WORKSPACE_VOLUMES) && !claimed.contains(volume));
    Ok(found)
}

/// Puts an empty folder in the place of a workspace whose engine is lost.
///
/// # Errors
///
/// Returns an error if the folder can't be made.
pub(crate) fn abandon(home: &Home, agent: &AgentId) -> io::Result<()> {
    let workspace = home.workspace(agent);
    let folder = folder_beside(&workspace, None)?;
    elsewhere::unmark(&workspace, &folder).map_err(io::Error::other)
}

async fn volume_exists(engine: &Engine, name: &str) -> Result<bool, SandboxError> {
    let client = engine.client()?;
    let what = format!("look for the volume {name}");
    Ok(engine.find(&what, engine::QUICK, client.inspect_volume(name)).await?.is_some())
}

async fn create_volume(engine: &Engine, home: &Home, name: &str) -> Result<(), SandboxError> {
    let client = engine.client()?;
    let request = VolumeCreateRequest {
        name: Some(name.to_owned()),
        labels: Some(HashMap::from([(names::LABEL_HOME.to_owned(), names::owner(home))])),
        ..VolumeCreateRequest::default()
    };
    let what = format!("create the volume {name}");
    engine.call(&what, engine::SLOW, client.create_volume(request)).await.map(drop)
}

/// The container through which files go. It is removed at its end, and also if it is dropped before.
struct Carrier {
    engine: Arc<Engine>,
    id: String,
    guard: RemoveOnDrop,
}

impl Carrier {
    /// Sends a folder of this machine without its identity files. A folder that does not exist is an empty one.
    async fn upload(&self, from: PathBuf, user: SandboxUser) -> Result<Tally, SandboxError> {
        let path = from.clone();
        self.send(&path, move |to| {
            fs_err::create_dir_all(&from)?;
            archive::pack(&open(&from)?, TOP, user, &IDENTITY_FILES, to)
        })
        .await
    }

    /// Sends the identity files. They belong to root, so that no program of the agent changes one by accident.
    async fn identity(&self, folder: PathBuf) -> Result<(), SandboxError> {
        let path = folder.clone();
        self.send(&path, move |to| {
            let mut archive = tar::Builder::new(to);
            let root = if folder.is_dir() { Some(open(&folder)?) } else { None };
            for name in IDENTITY_FILES {
                let read = |root: &Root| root.read(Path::new(name), MAX_IDENTITY).ok();
                let Some(text) = root.as_ref().and_then(read) else { continue };
                let mut header = tar::Header::new_gnu();
                header.set_mode(0o444);
                header.set_size(text.len() as u64);
                archive.append_data(&mut header, Path::new(TOP).join(name), text.as_slice())?;
            }
            archive.into_inner()?.flush()
        })
        .await
    }

    /// Sends the archive that a function writes.
    async fn send<T: Send + 'static>(
        &self,
        path: &Path,
        write: impl FnOnce(Pieces) -> io::Result<T> + Send + 'static,
    ) -> Result<T, SandboxError> {
        let (sender, receiver) = mpsc::channel::<io::Result<Bytes>>(PIECES);
        let broken = sender.clone();
        let writing = tokio::task::spawn_blocking(move || {
            let written = write(Pieces { to: sender, buffer: Vec::new() });
            if written.is_err() {
                // The engine must not take a part of an archive for a whole one.
                let _ = broken.blocking_send(Err(io::ErrorKind::InvalidData.into()));
            }
            written
        });
        let body = futures_util::stream::unfold(receiver, async |mut from: mpsc::Receiver<_>| {
            let piece = from.recv().await?;
            Some((piece, from))
        });
        let client = self.engine.client()?;
        let options = UploadToContainerOptionsBuilder::default().path("/").build();
        let uploading = client.upload_to_container(&self.id, Some(options), bollard::body_try_stream(body));
        let uploaded =
            self.engine.call("take the files of a workspace", engine::IMAGE_TIMEOUT, uploading).await;
        // What could not be read here is the reason for what the engine says about it.
        match writing.await {
            Ok(Ok(written)) => uploaded.map(|()| written),
            Ok(Err(source)) if source.kind() != io::ErrorKind::BrokenPipe => {
                Err(SandboxError::Host { path: path.to_owned(), source })
            }
            Ok(Err(source)) => {
                Err(uploaded.err().unwrap_or(SandboxError::Host { path: path.to_owned(), source }))
            }
            Err(error) => Err(SandboxError::Host { path: path.to_owned(), source: io::Error::other(error) }),
        }
    }

    /// Reads the workspace without its identity files, and writes it to an empty folder if one is given.
    async fn download(&self, into: Option<PathBuf>, owner: Option<Owner>) -> Result<Tally, SandboxError> {
        let client = self.engine.client()?;
        let options = DownloadFromContainerOptionsBuilder::default().path(WORKSPACE_TARGET).build();
        let mut pieces = std::pin::pin!(client.download_from_container(&self.id, Some(options)));
        let (sender, receiver) = mpsc::channel(PIECES);
        let path = into.clone().unwrap_or_else(|| WORKSPACE_TARGET.into());
        let reading = tokio::task::spawn_blocking(move || {
            let mut from = Arriving { from: receiver, piece: Bytes::new() };
            let root = into.as_deref().map(open).transpose()?;
            let tally = archive::unpack(&mut from, &IDENTITY_FILES, root.as_ref(), owner)?;
            // What follows the end of the archive has to be taken, or the engine would see a broken connection.
            io::copy(&mut from, &mut io::sink())?;
            Ok(tally)
        });
        let what = "give the files of a workspace";
        loop {
            let piece = tokio::time::timeout(engine::SLOW, pieces.next()).await;
            match piece.map_err(|_| self.engine.silent(what, engine::SLOW))? {
                None => break,
                Some(Ok(piece)) => {
                    if sender.send(piece).await.is_err() {
                        // The reader has an error to tell.
                        break;
                    }
                }
                Some(Err(error)) => return Err(self.engine.error(what, error)),
            }
        }
        drop(sender);
        let read = reading.await.unwrap_or_else(|error| Err(io::Error::other(error)));
        read.map_err(|source| SandboxError::Host { path, source })
    }

    async fn end(mut self) -> Result<(), SandboxError> {
        self.guard.name = None;
        containers::remove(&self.engine, &self.id).await
    }
}

/// Writes an archive in pieces to a channel.
struct Pieces {
    to: mpsc::Sender<io::Result<Bytes>>,
    buffer: Vec<u8>,
}

/// Size of a piece, in bytes.
const PIECE: usize = 64 << 10;

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= PIECE {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let piece = std::mem::take(&mut self.buffer);
        if piece.is_empty() {
            return Ok(());
        }
        self.to.blocking_send(Ok(piece.into())).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

/// Reads an archive that arrives in pieces.
struct Arriving {
    from: mpsc::Receiver<Bytes>,
    piece: Bytes,
}

impl Read for Arriving {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty() {
            match self.from.blocking_recv() {
                Some(piece) => self.piece = piece,
                None => return Ok(0),
            }
        }
        let count = self.piece.len().min(buffer.len());
        buffer[..count].copy_from_slice(&self.piece.split_to(count));
        Ok(count)
    }
}

/// Replaces the folder on this machine by a mark, and removes it.
fn give_up(workspace: &Path, engine: &EngineName) -> io::Result<()> {
    match elsewhere::mark(workspace, engine).map_err(io::Error::other)? {
        Some(old) => clear(&old),
        None => Ok(()),
    }
}

fn clear(folder: &Path) -> io::Result<()> {
    let Some((above, name)) = folder.parent().zip(folder.file_name()) else { return Ok(()) };
    remove_tree::clear(above, Path::new(name)).map_err(|(stuck, _)| stuck.error)
}

/// Makes an empty folder beside a workspace.
fn folder_beside(workspace: &Path, owner: Option<Owner>) -> io::Result<PathBuf> {
    let (Some(above), Some(name)) = (workspace.parent(), workspace.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let name = format!(".{}.incoming-{:016x}", name.to_string_lossy(), rand::random::<u64>());
    open(above)?.create_dir(Path::new(&name), owner).map_err(io::Error::other)?;
    Ok(above.join(name))
}

fn open(folder: &Path) -> io::Result<Root> {
    Root::open(folder).map_err(io::Error::other)
}

async fn blocking<T: Send + 'static>(
    path: &Path,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, SandboxError> {
    let done = tokio::task::spawn_blocking(work).await;
    let done = done.unwrap_or_else(|error| Err(io::Error::other(error)));
    done.map_err(|source| SandboxError::Host { path: path.to_owned(), source })
}
