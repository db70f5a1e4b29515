//! The workspace of an agent whose engine is on another machine: a volume of that engine. Files are brought in and out by a
//! container that has the volume and never runs, through the engine's interface for archives.
//!
//! A volume is removed only by the name that a mark has, or that this process has chosen just now. None is removed because it
//! was found: it may be the workspace of another home, or of an agent that is not known here. `flock doctor` names those that
//! no mark has.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bollard::models::{ContainerCreateBody, HostConfig, Volume};
use bollard::query_parameters::{
    DownloadFromContainerOptionsBuilder, ListContainersOptionsBuilder, UploadToContainerOptionsBuilder,
};
use bytes::Bytes;
use futures_util::StreamExt as _;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::error::chain;
use crate::home::beneath::{Owner, Root};
use crate::home::elsewhere::{self, Mark};
use crate::home::{Home, instance, remove_tree};
use crate::id::{AgentId, EngineName};
use crate::sandbox::containers::RemoveOnDrop;
use crate::sandbox::disk_room::{DiskRoom, NoRoom};
use crate::sandbox::engine::{self, Engine};
use crate::sandbox::making::{self, MakingLock};
use crate::sandbox::spec::{self, IDENTITY_FILES, MountSpec, SandboxUser, WORKSPACE_TARGET};
use crate::sandbox::workspace_archive::{self as archive, Destination, Tally};
use crate::sandbox::{SandboxError, containers, engine_claim, names, volumes};

/// The folder of an archive that holds the workspace.
const TOP: &str = "workspace";
/// Number of pieces of an archive that wait to be sent or written.
const PIECES: usize = 16;
/// Limit on one identity file, in bytes.
const MAX_IDENTITY: u64 = 1 << 20;
/// The problem with a workspace whose volume lacks what was written meanwhile.
const CHANGED: &str = "changed while it was brought to the engine";
/// The problem with a workspace for which nobody waits any more.
pub(crate) const GIVEN_UP: &str = "was not brought to the engine, because its turn was cancelled";

/// The workspace of one agent in an engine on another machine.
#[derive(Clone)]
pub(crate) struct WorkspaceVolume {
    pub home: Home,
    pub agent: AgentId,
    pub engine: Arc<Engine>,
    /// The engine and the name of the volume.
    pub mark: Mark,
    /// An image of the engine, for the container that never runs.
    pub image: String,
    pub user: SandboxUser,
}

impl WorkspaceVolume {
    /// Makes the volume ready for a new container: it is made and filled with what the agent's folder on this machine has, if
    /// that was not done before, and gets the present identity files.
    ///
    /// The folder is kept until the volume was read back and has the same content. From then on the mark is in its place.
    ///
    /// If the caller is dropped meanwhile, a volume that nobody uses is removed, and `making` is held until it is.
    ///
    /// # Errors
    ///
    /// Returns an error if the volume is gone or another home's, or if it can't be filled.
    pub async fn provide(
        &self,
        workspace: &Path,
        identity: &Path,
        making: &MakingLock,
    ) -> Result<(), SandboxError> {
        if elsewhere::read(workspace).as_ref() == Some(&self.mark) {
            let found = self.check_is_there().await?;
            if let Some(refused) = of_other_home(&self.home, &self.agent, &self.mark, &found) {
                return Err(refused);
            }
        } else {
            self.fill_or_clean(workspace, making).await?;
        }
        let carrier = self.carrier().await?;
        carrier.identity(identity.to_owned()).await?;
        carrier.end().await
    }

    /// Fills the volume in a task of its own. If the caller is dropped, it goes on to its end, or to the removal of the volume.
    async fn fill_or_clean(&self, workspace: &Path, making: &MakingLock) -> Result<(), SandboxError> {
        let (place, folder) = (self.clone(), workspace.to_owned());
        making::finish(making, workspace, move |given_up| async move {
            Box::pin(place.fill(&folder, &given_up)).await
        })
        .await
    }

    /// Makes the volume of a workspace that is on this machine.
    async fn fill(&self, workspace: &Path, given_up: &CancellationToken) -> Result<(), SandboxError> {
        self.create().await?;
        let failed = match self.bring(workspace, given_up).await {
            Ok(moved) => match moved.leave(workspace).await {
                Ok(()) => return Ok(()),
                // The folder is not in its place, so the mark may be there, and names the volume.
                Err(error) if open(workspace).is_err() => return Err(error),
                Err(error) => error,
            },
            Err(error) => error,
        };
        // Nothing has its name but this call.
        if let Err(error) = volumes::remove(&self.engine, &self.mark.volume).await {
            tracing::warn!(
                volume = self.mark.volume,
                error = chain(&error),
                "a volume that is not used could not be removed"
            );
        }
        Err(failed)
    }

    /// Fills the new volume, and makes sure that it has what the folder has at the end. Only the transfer, which may be long, can
    /// be given up: a call to the engine whose answer nobody has may have made something that nobody removes.
    async fn bring(
        &self,
        workspace: &Path,
        given_up: &CancellationToken,
    ) -> Result<MovedFiles<'_>, SandboxError> {
        let carrier = self.carrier().await?;
        let carried = async {
            let sent = carrier.upload(workspace.to_owned(), self.user).await?;
            Ok::<_, SandboxError>((sent, carrier.download(None, None).await?))
        };
        let carried = given_up.run_until_cancelled(carried).await;
        // A volume that a container has can't be removed.
        carrier.end().await?;
        let (tally, found) = carried.unwrap_or_else(|| Err(self.problem(GIVEN_UP.to_owned())))?;
        let moved = MovedFiles { agent: &self.agent, mark: &self.mark, tally };
        moved.check(workspace, &found).await?;
        // Without the turn, the agent may go on elsewhere with the folder.
        if given_up.is_cancelled() {
            return Err(self.problem(GIVEN_UP.to_owned()));
        }
        Ok(moved)
    }

    /// Brings the workspace back to this machine, and puts it in the place of its mark. The volume is removed.
    ///
    /// # Errors
    ///
    /// Returns an error if the volume can't be read, if a container still has it, or if the files can't be written, as when the
    /// disk has no room for them. Then nothing has changed.
    pub async fn bring_back(&self, workspace: &Path, owner: Option<Owner>) -> Result<(), SandboxError> {
        self.check_is_there().await?;
        self.check_is_free().await?;
        let carrier = self.carrier().await?;
        let made = workspace.to_owned();
        let beside = blocking(workspace, move || folder_beside(&made, owner)).await?;
        if let Err(error) = self.take_back(&carrier, workspace, &beside, owner).await {
            let _ = blocking(workspace, move || clear(&beside)).await;
            return Err(error);
        }
        // The files are here: what is left there is no reason to keep the agent.
        let removed = async {
            carrier.end().await?;
            remove(&self.engine, &self.home, &self.mark).await
        };
        let volume = &self.mark.volume;
        match removed.await {
            Ok(Removed::Gone) => {}
            Ok(Removed::Foreign) => tracing::warn!(volume, "{FOREIGN}"),
            Err(error) => {
                tracing::warn!(
                    volume,
                    error = chain(&error),
                    "the volume of a workspace that is here now stays"
                );
            }
        }
        Ok(())
    }

    async fn take_back(
        &self,
        carrier: &Carrier,
        workspace: &Path,
        beside: &Path,
        owner: Option<Owner>,
    ) -> Result<(), SandboxError> {
        let tally = carrier.download(Some(beside.to_owned()), owner).await?;
        MovedFiles { agent: &self.agent, mark: &self.mark, tally }.arrive(workspace, beside).await
    }

    async fn check_is_there(&self) -> Result<Volume, SandboxError> {
        let name = &self.mark.volume;
        let found = volumes::inspect(&self.engine, name).await?;
        let gone = || self.problem(format!("is gone: the engine {} has no volume {name}", self.mark.engine));
        found.ok_or_else(gone)
    }

    /// Refuses to take the workspace from a container that may write to it, as that of a gateway that has died.
    async fn check_is_free(&self) -> Result<(), SandboxError> {
        let client = self.engine.client()?;
        let filters = HashMap::from([("volume".to_owned(), vec![self.mark.volume.clone()])]);
        let options = ListContainersOptionsBuilder::default().all(true).filters(&filters).build();
        let listed = client.list_containers(Some(options));
        let found = self.engine.call("list containers", engine::DISPLAY_TIMEOUT, listed).await?;
        let own = names::carrier(&self.home, &self.agent);
        let mut names = found.into_iter().map(|container| containers::Container::from(container).name);
        match names.find(|name| *name != own) {
            Some(other) => Err(self.problem(format!("is still used by the container {other}"))),
            None => Ok(()),
        }
    }

    async fn create(&self) -> Result<(), SandboxError> {
        let (engine, name) = (&self.engine, &self.mark.volume);
        // From here on the home has an id, by which it knows the volume.
        engine_claim::check(engine, &self.home).await?;
        let mut labels = HashMap::from([
            (names::LABEL_WORKSPACE.to_owned(), self.agent.to_string()),
            (names::LABEL_WORKSPACE_HOME.to_owned(), names::owner(&self.home)),
        ]);
        labels.extend(ids(&self.home).into_iter().next().map(|id| (names::LABEL_INSTANCE.to_owned(), id)));
        volumes::create(engine, name, labels).await
    }

    fn problem(&self, what: String) -> SandboxError {
        SandboxError::Workspace { agent: self.agent.clone(), what }
    }

    async fn carrier(&self) -> Result<Carrier, SandboxError> {
        let engine = &self.engine;
        let name = names::carrier(&self.home, &self.agent);
        if let Some(left) = containers::find_own(engine, &self.home, &name).await? {
            containers::remove(engine, &left.id).await?;
        }
        let owner = names::owner(&self.home);
        let mount = MountSpec::volume(WORKSPACE_TARGET, self.mark.volume.as_str(), true).body(&owner);
        let body = ContainerCreateBody {
            image: Some(self.image.clone()),
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
        Ok(Carrier { engine: Arc::clone(engine), agent: self.agent.clone(), id, guard })
    }
}

/// The files of a workspace that moves between this machine and a volume, however they are carried.
pub(crate) struct MovedFiles<'a> {
    pub agent: &'a AgentId,
    /// The engine and the name of the volume.
    pub mark: &'a Mark,
    /// The files that were sent.
    pub tally: Tally,
}

impl MovedFiles<'_> {
    /// Makes sure that the volume has what the folder has now.
    ///
    /// # Errors
    ///
    /// Returns an error if files are missing there, or were changed here meanwhile.
    pub async fn check(&self, workspace: &Path, found: &Tally) -> Result<(), SandboxError> {
        let sent = &self.tally;
        if sent != found {
            return Err(self.problem(format!("was not brought to the engine whole: {found} of {sent}")));
        }
        self.check_unchanged(workspace).await
    }

    /// Makes sure that a folder has the files that were sent. A person may work in it.
    async fn check_unchanged(&self, folder: &Path) -> Result<(), SandboxError> {
        let path = folder.to_owned();
        let now = blocking(folder, move || archive::tally(&open(&path)?, &IDENTITY_FILES)).await?;
        match now == self.tally {
            true => Ok(()),
            false => Err(self.problem(CHANGED.to_owned())),
        }
    }

    /// Puts the mark in the place of the folder, whose files are in the volume.
    ///
    /// # Errors
    ///
    /// Returns an error if the mark can't be written. It may be there all the same. Returns another one if the folder was changed
    /// before the mark was there. Then the folder is in its place again, or the error names it.
    pub async fn leave(self, workspace: &Path) -> Result<(), SandboxError> {
        let (place, mark) = (workspace.to_owned(), self.mark.clone());
        let marked = move || elsewhere::mark(&place, &mark).map_err(io::Error::other);
        let old = blocking(workspace, marked).await?;
        if let Some(old) = &old {
            // Until the mark was there it could be written to, and from now on nobody finds it by its path.
            if let Err(error) = self.check_unchanged(old).await {
                return Err(self.restored(workspace, old, error).await);
            }
        }
        tracing::info!(agent = %self.agent, engine = %self.mark.engine, "a workspace was brought to its engine");
        if let Some(old) = old {
            let path = old.clone();
            if let Err(error) = blocking(workspace, move || clear(&path)).await {
                tracing::warn!(path = %old.display(), error = chain(&error), "the folder of a workspace that is on its engine now stays");
            }
        }
        Ok(())
    }

    /// Puts a folder back in the place of the mark, because of an error. Returns that error, or another one that names the folder
    /// if it stays where it is.
    async fn restored(&self, workspace: &Path, old: &Path, error: SandboxError) -> SandboxError {
        let (place, folder) = (workspace.to_owned(), old.to_owned());
        let back = move || match elsewhere::unmark(&place, &folder) {
            // It is back, and only the mark beside it is left.
            Err(_) if open(&place).is_ok() => Ok(()),
            done => done.map_err(io::Error::other),
        };
        match blocking(workspace, back).await {
            Ok(()) => error,
            Err(stuck) => {
                tracing::error!(path = %old.display(), error = chain(&stuck), "the folder of a workspace could not be put back");
                self.problem(format!("{CHANGED}, and its files stay in {}", old.display()))
            }
        }
    }

    /// Puts the folder with the files of the volume in the place of the mark.
    ///
    /// # Errors
    ///
    /// Returns an error if files are missing in the folder, or if the mark has changed. Then it is still there.
    pub async fn arrive(self, workspace: &Path, beside: &Path) -> Result<(), SandboxError> {
        let (sent, folder) = (self.tally, beside.to_owned());
        let found = blocking(workspace, move || {
            let root = open(&folder)?;
            let tally = archive::tally(&root, &IDENTITY_FILES)?;
            // The volume goes next, so the files have to be on the disk.
            nix::unistd::syncfs(std::fs::File::open(&folder)?)?;
            Ok(tally)
        })
        .await?;
        if sent != found {
            let what = format!("was not brought back whole: {found} of {sent}");
            return Err(SandboxError::Workspace { agent: self.agent.clone(), what });
        }
        let (place, folder, mark) = (workspace.to_owned(), beside.to_owned(), self.mark.clone());
        let unmarked = move || {
            if elsewhere::read(&place).as_ref() != Some(&mark) {
                return Err(io::Error::other("its mark has changed"));
            }
            elsewhere::unmark(&place, &folder).map_err(io::Error::other)
        };
        blocking(workspace, unmarked).await?;
        tracing::info!(agent = %self.agent, engine = %self.mark.engine, "a workspace was brought back");
        Ok(())
    }

    fn problem(&self, what: String) -> SandboxError {
        SandboxError::Workspace { agent: self.agent.clone(), what }
    }
}

/// The result of [`remove`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Removed {
    /// The volume does not exist any more.
    Gone,
    /// Another home has made the volume, of which this one is a copy. It stays.
    Foreign,
}

/// The reason why a volume stays.
pub(crate) const FOREIGN: &str =
    "the volume of a workspace stays, because the home that made it may still use it";

/// Removes the volume that a workspace is, if this home has made it or a gateway that has the same files. It is no error if
/// the volume is gone.
///
/// # Errors
///
/// Returns an error if the engine does not answer, or if a container has the volume.
pub(crate) async fn remove(engine: &Engine, home: &Home, mark: &Mark) -> Result<Removed, SandboxError> {
    let is_own = is_own(engine, home, mark).await?;
    remove_own(engine, mark, is_own).await
}

/// Removes the volume as [`remove`] does, with the sandbox of the agent that has it. An engine that was away when the agent
/// was removed has both.
///
/// # Errors
///
/// Returns an error if the engine does not answer, or if another container has the volume.
pub(crate) async fn remove_with_sandbox(
    engine: &Engine,
    home: &Home,
    agent: &AgentId,
    mark: &Mark,
) -> Result<Removed, SandboxError> {
    let is_own = is_own(engine, home, mark).await?;
    if is_own == Some(true) {
        containers::remove(engine, &names::sandbox(home, agent)).await?;
    }
    remove_own(engine, mark, is_own).await
}

/// Removes the volume if [`is_own`] has said so.
async fn remove_own(engine: &Engine, mark: &Mark, is_own: Option<bool>) -> Result<Removed, SandboxError> {
    match is_own {
        None => Ok(Removed::Gone),
        Some(false) => Ok(Removed::Foreign),
        Some(true) => volumes::remove(engine, &mark.volume).await.map(|()| Removed::Gone),
    }
}

/// Returns `true` if this home has made the volume, or a gateway that has the same files. `None` if there is none.
async fn is_own(engine: &Engine, home: &Home, mark: &Mark) -> Result<Option<bool>, SandboxError> {
    let found = volumes::inspect(engine, &mark.volume).await?;
    Ok(found.map(|found| has_made(home, &found)))
}

/// Returns `true` if this home has made the volume, or a gateway that has the same files. A copy of a home has the marks of the
/// original.
fn has_made(home: &Home, found: &Volume) -> bool {
    let of_us = |id: &String| ids(home).contains(id);
    found.labels.get(names::LABEL_INSTANCE).is_some_and(of_us)
}

/// Returns why this home may not use the volume that a workspace is: another home has made it. Returns `None` if this home may use
/// it, or if there is none.
///
/// # Errors
///
/// Returns an error if the engine does not answer.
pub(crate) async fn refusal(
    engine: &Engine,
    home: &Home,
    agent: &AgentId,
    mark: &Mark,
) -> Result<Option<SandboxError>, SandboxError> {
    let found = volumes::inspect(engine, &mark.volume).await?;
    Ok(found.and_then(|found| of_other_home(home, agent, mark, &found)))
}

fn of_other_home(home: &Home, agent: &AgentId, mark: &Mark, found: &Volume) -> Option<SandboxError> {
    // In a group it may have been made before the group, and has the id of the home that invited.
    if has_made(home, found) || instance::of_shared_files(home).is_some() {
        return None;
    }
    let maker = match found.labels.get(names::LABEL_WORKSPACE_HOME) {
        Some(path) => format!("the home {path}"),
        None => "another home".to_owned(),
    };
    Some(SandboxError::OfOtherHome {
        agent: agent.clone(),
        engine: mark.engine.clone(),
        volume: format!("{} of {maker}", mark.volume),
        take: format!("flock engine drain {}", mark.engine),
    })
}

/// Returns the ids by which a home knows its volumes: that of the files that it shares with other gateways, and its own.
pub(crate) fn ids(home: &Home) -> Vec<String> {
    instance::of_shared_files(home).into_iter().chain(instance::read(home).ok()).collect()
}

/// Returns the agents whose workspaces are in an engine on another machine. Some may have been removed without their files.
///
/// # Errors
///
/// Returns an error if the marks can't be read. Then any agent may have its workspace there.
pub(crate) fn agents_in(home: &Home, engine: &EngineName) -> Result<Vec<AgentId>, SandboxError> {
    let marks = marks(home)?.into_iter().filter(|(_, mark)| mark.engine == *engine);
    Ok(marks.map(|(agent, _)| agent).collect())
}

pub(crate) fn marks(home: &Home) -> Result<Vec<(AgentId, Mark)>, SandboxError> {
    let folder = home.workspaces();
    elsewhere::marks(&folder).map_err(|source| SandboxError::Host { path: folder, source })
}

/// Returns the volumes of workspaces that this home has made in an engine, and that no mark has.
///
/// # Errors
///
/// Returns an error if the engine does not answer, or if the marks can't be read.
pub(crate) async fn unclaimed(engine: &Engine, home: &Home) -> Result<Vec<String>, SandboxError> {
    let mut found: Vec<String> = Vec::new();
    for id in ids(home) {
        let labels = vec![names::LABEL_WORKSPACE.to_owned(), format!("{}={id}", names::LABEL_INSTANCE)];
        let filters = HashMap::from([("label".to_owned(), labels)]);
        found.extend(volumes::matching(engine, &filters).await?);
    }
    // Read last: a volume is there before its mark.
    let marks = marks(home)?;
    found.retain(|name| {
        name.starts_with(elsewhere::VOLUMES) && marks.iter().all(|(_, mark)| mark.volume != *name)
    });
    found.sort();
    Ok(found)
}

/// Puts an empty folder in the place of a workspace whose engine is lost.
///
/// # Errors
///
/// Returns an error if the folder can't be made or moved. The mark is then as before.
pub(crate) fn abandon(workspace: &Path) -> io::Result<()> {
    let folder = folder_beside(workspace, None)?;
    let put = put_in_place(workspace, &folder);
    // What has its name now is of no use to anybody: the folder if it stayed there, otherwise the mark.
    let _ = clear(&folder);
    put
}

/// Puts a folder in the place of the mark beside it.
///
/// # Errors
///
/// Returns an error if there is no mark, or if the folder can't be moved. The mark is then as before.
pub(crate) fn put_in_place(workspace: &Path, folder: &Path) -> io::Result<()> {
    match elsewhere::unmark(workspace, folder) {
        // They have changed places, and only what follows that has failed.
        Err(error) if open(folder).is_err() && open(workspace).is_ok() => {
            let (path, error) = (workspace.display(), chain(&error));
            tracing::warn!(%path, error, "a workspace is in its place, and its mark may be left beside it");
            Ok(())
        }
        done => done.map_err(io::Error::other),
    }
}

/// The container through which files go. It is removed at its end, and also if it is dropped before.
struct Carrier {
    engine: Arc<Engine>,
    agent: AgentId,
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
        let (pieces, receiver) = Pieces::new();
        let broken = pieces.to.clone();
        let writing = tokio::task::spawn_blocking(move || {
            let written = write(pieces);
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
        let (sender, from) = Arriving::new();
        let path = into.clone().unwrap_or_else(|| WORKSPACE_TARGET.into());
        let reading = tokio::task::spawn_blocking(move || from.unpack(into.as_deref(), owner));
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
        read.map_err(|source| unpack_error(&self.agent, path, source))
    }

    async fn end(mut self) -> Result<(), SandboxError> {
        self.guard.name = None;
        containers::remove(&self.engine, &self.id).await
    }
}

/// Writes an archive in pieces to a channel.
pub(crate) struct Pieces {
    to: mpsc::Sender<io::Result<Bytes>>,
    buffer: Vec<u8>,
}

/// Size of a piece, in bytes.
const PIECE: usize = 64 << 10;

impl Pieces {
    /// Returns the writer and what it writes. Its end is the end of the archive.
    pub(crate) fn new() -> (Self, mpsc::Receiver<io::Result<Bytes>>) {
        let (to, from) = mpsc::channel(PIECES);
        (Self { to, buffer: Vec::new() }, from)
    }
}

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
pub(crate) struct Arriving {
    from: mpsc::Receiver<Bytes>,
    piece: Bytes,
}

impl Arriving {
    /// Returns the reader and what is given to it.
    pub(crate) fn new() -> (mpsc::Sender<Bytes>, Self) {
        let (to, from) = mpsc::channel(PIECES);
        (to, Self { from, piece: Bytes::new() })
    }

    /// Reads the archive of a workspace to its end, and writes it to an empty folder if one is given.
    ///
    /// # Errors
    ///
    /// Returns an error if the archive is not whole, or if the folder can't be written. [`unpack_error`] makes a readable one of
    /// it.
    pub(crate) fn unpack(mut self, into: Option<&Path>, owner: Option<Owner>) -> io::Result<Tally> {
        let root = into.map(open).transpose()?;
        // The error names the folder above, because the new one is removed with what did not fit.
        let room = into.map(|folder| DiskRoom::of(folder.parent().unwrap_or(folder))).transpose()?;
        let into = root.as_ref().zip(room).map(|(root, room)| Destination { root, owner, room });
        let tally = archive::unpack(&mut self, &IDENTITY_FILES, into)?;
        // What follows the end of the archive has to be taken, or the sender would see a broken connection.
        io::copy(&mut self, &mut io::sink())?;
        Ok(tally)
    }
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

/// Returns the error of an archive that could not be unpacked at a path.
pub(crate) fn unpack_error(agent: &AgentId, path: PathBuf, source: io::Error) -> SandboxError {
    match source.downcast::<NoRoom>() {
        Ok(need) => SandboxError::NoRoom { agent: agent.clone(), need },
        Err(source) => SandboxError::Host { path, source },
    }
}

pub(crate) fn clear(folder: &Path) -> io::Result<()> {
    let Some((above, name)) = folder.parent().zip(folder.file_name()) else { return Ok(()) };
    remove_tree::clear(above, Path::new(name)).map_err(|(stuck, _)| stuck.error)
}

/// Makes an empty folder beside a workspace.
pub(crate) fn folder_beside(workspace: &Path, owner: Option<Owner>) -> io::Result<PathBuf> {
    let (Some(above), Some(name)) = (workspace.parent(), workspace.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let name = format!(".{}.incoming-{:016x}", name.to_string_lossy(), rand::random::<u64>());
    open(above)?.create_dir(Path::new(&name), owner).map_err(io::Error::other)?;
    Ok(above.join(name))
}

pub(crate) fn open(folder: &Path) -> io::Result<Root> {
    Root::open(folder).map_err(io::Error::other)
}

pub(crate) async fn blocking<T: Send + 'static>(
    path: &Path,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, SandboxError> {
    let done = tokio::task::spawn_blocking(work).await;
    let done = done.unwrap_or_else(|error| Err(io::Error::other(error)));
    done.map_err(|source| SandboxError::Host { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::error::Explain as _;
    use crate::sandbox::testing;

    /// The answer of an engine that has made a volume.
    const VOLUME: &str =
        r#"{"Name":"x","Driver":"local","Mountpoint":"/x","Labels":{},"Scope":"local","Options":{}}"#;

    fn home() -> (Home, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().join("home"), None);
        home.make_folders().unwrap();
        std::fs::create_dir_all(home.workspaces()).unwrap();
        (home, folder)
    }

    #[test]
    fn workspaces_that_are_not_known_are_not_taken_for_none() {
        let (home, _folder) = home();
        let (far, farther): (EngineName, EngineName) = ("far".parse().unwrap(), "farther".parse().unwrap());
        let agents = |engine: &EngineName| agents_in(&home, engine);
        assert!(agents(&far).unwrap().is_empty());
        for name in ["ada", "bob"] {
            let agent = name.parse().unwrap();
            elsewhere::mark(&home.workspace(&agent), &Mark::new(&far, &agent)).unwrap();
        }
        std::fs::create_dir(home.workspace(&"eve".parse().unwrap())).unwrap();
        let names = || agents(&far).unwrap().iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(names(), ["ada", "bob"]);
        assert!(agents(&farther).unwrap().is_empty());
        // A mark that can't be read may be of any engine.
        let damaged = home.workspace(&"bob".parse().unwrap());
        std::fs::write(&damaged, "This workspace is on another machine.\n").unwrap();
        assert!(agents(&far).is_err() && agents(&farther).is_err());
        std::fs::remove_file(&damaged).unwrap();
        assert_eq!(names(), ["ada"]);
        // So may any agent's if the folder can't be read.
        std::fs::remove_dir_all(home.workspaces()).unwrap();
        std::fs::write(home.workspaces(), "").unwrap();
        assert!(agents(&far).is_err());
    }

    #[tokio::test]
    async fn what_is_written_after_the_comparison_is_not_lost() {
        let (home, _folder) = home();
        let agent: AgentId = "ada".parse().unwrap();
        let workspace = home.workspace(&agent);
        std::fs::create_dir(&workspace).unwrap();
        std::fs::write(workspace.join("work"), "work").unwrap();
        let mark = Mark::new(&"far".parse().unwrap(), &agent);
        let tally = || archive::tally(&open(&workspace).unwrap(), &IDENTITY_FILES).unwrap();
        let sent = tally();
        let moved = |tally: &Tally| MovedFiles { agent: &agent, mark: &mark, tally: tally.clone() };
        moved(&sent).check(&workspace, &sent).await.unwrap();
        // The folder has its name until the mark is there.
        std::fs::write(workspace.join("late"), "late").unwrap();
        let error = moved(&sent).leave(&workspace).await.unwrap_err();
        assert!(error.to_string().contains(CHANGED), "{error}");
        assert_eq!(elsewhere::read(&workspace), None);
        for name in ["work", "late"] {
            assert_eq!(std::fs::read_to_string(workspace.join(name)).unwrap(), name);
        }
        let entries = || std::fs::read_dir(home.workspaces()).unwrap().count();
        assert_eq!(entries(), 1, "no mark is left beside it");
        // The next try takes all of it.
        let sent = tally();
        moved(&sent).leave(&workspace).await.unwrap();
        assert_eq!(elsewhere::read(&workspace).as_ref(), Some(&mark));
        assert_eq!(entries(), 1, "the folder is gone");
    }

    #[test]
    fn a_workspace_without_room_is_named_with_what_it_needs_and_what_to_do() {
        let agent: AgentId = "ada".parse().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let full = DiskRoom::limited(folder.path(), 1 << 20).take(2 << 20).unwrap_err();
        let error = unpack_error(&agent, folder.path().join("new"), full);
        let text = error.to_string();
        let place = folder.path().display().to_string();
        for part in
            ["workspace of ada", "more than the 1 MiB", place.as_str(), "free space", "remove large files"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!(error.hint(), Some(format!("df -h {place}")));
        let other = unpack_error(&agent, folder.path().to_owned(), io::Error::other("x"));
        assert!(matches!(other, SandboxError::Host { .. }), "{other:?}");
    }

    #[test]
    fn a_workspace_that_is_given_up_is_empty_and_nothing_is_left_beside_it() {
        let (home, _folder) = home();
        let agent: AgentId = "ada".parse().unwrap();
        let workspace = home.workspace(&agent);
        let names = || {
            let entries = std::fs::read_dir(home.workspaces()).unwrap();
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect::<Vec<_>>()
        };
        elsewhere::mark(&workspace, &Mark::new(&"far".parse().unwrap(), &agent)).unwrap();
        abandon(&workspace).unwrap();
        assert_eq!((workspace.is_dir(), names()), (true, vec!["ada".to_owned()]));
        // It is on this machine already.
        std::fs::write(workspace.join("work"), "work").unwrap();
        abandon(&workspace).unwrap_err();
        assert_eq!((workspace.join("work").exists(), names()), (true, vec!["ada".to_owned()]));
    }

    /// The workspace of an agent in an engine, with a volume that does not exist yet.
    fn place(home: &Home, agent: &AgentId, engine: Engine) -> WorkspaceVolume {
        WorkspaceVolume {
            home: home.clone(),
            agent: agent.clone(),
            engine: Arc::new(engine),
            mark: Mark::new(&"far".parse().unwrap(), agent),
            image: "image".to_owned(),
            user: SandboxUser { uid: 1000, gid: 1000 },
        }
    }

    /// The volume of a home with the id `original`.
    const OF_ORIGINAL: &str = r#"{"Name":"x","Driver":"local","Mountpoint":"/x","Scope":"local","Options":{},
        "Labels":{"flock.instance":"original","flock.workspace.home":"/original"}}"#;

    #[tokio::test]
    async fn a_copy_of_a_home_does_not_use_the_volumes_of_the_original() {
        let (home, _folder) = home();
        let agent: AgentId = "ada".parse().unwrap();
        let (engine, asked, _socket) = testing::asked_engine(|line: &str| match line {
            line if line.starts_with("GET") && line.contains("/volumes/") => (200, OF_ORIGINAL),
            line if line.starts_with("GET") => (404, r#"{"message":"there is none"}"#),
            _ => (500, r#"{"message":"it makes nothing"}"#),
        });
        let place = place(&home, &agent, engine);
        let workspace = home.workspace(&agent);
        elsewhere::mark(&workspace, &place.mark).unwrap();
        let making = making::take(&Arc::default()).await;
        let identity = home.workspaces();
        let provide = async || Box::pin(place.provide(&workspace, &identity, &making)).await.unwrap_err();
        std::fs::write(home.instance(), "copy\n").unwrap();
        let error = provide().await;
        let volume = format!("{} of the home /original", place.mark.volume);
        assert_eq!(
            error.to_string(),
            format!("the workspace of ada is the volume {volume}, which may still use it")
        );
        let hint = error.hint().unwrap();
        for command in ["flock engine drain far", "flock engine remove far --force"] {
            assert!(hint.contains(command), "{hint}");
        }
        assert!(asked.lock().unwrap().iter().all(|line| line.starts_with("GET")), "nothing was made there");
        let refused = async || refusal(&place.engine, &home, &agent, &place.mark).await.unwrap().is_some();
        assert!(refused().await);
        assert_eq!(remove(&place.engine, &home, &place.mark).await.unwrap(), Removed::Foreign);
        // The original itself, and a gateway of a group that has the volume from before the group.
        for (instance, group) in [("original", None), ("second", Some("group"))] {
            std::fs::write(home.instance(), instance).unwrap();
            if let Some(group) = group {
                std::fs::write(home.files_mark(), group).unwrap();
            }
            assert!(!refused().await, "{instance}");
            let error = provide().await;
            assert!(chain(&error).contains("it makes nothing"), "{instance}: {error:?}");
        }
    }

    #[tokio::test]
    async fn a_volume_whose_filling_is_given_up_is_removed_before_another_one_is_made() {
        let (home, _folder) = home();
        let agent: AgentId = "ada".parse().unwrap();
        let workspace = home.workspace(&agent);
        std::fs::create_dir(&workspace).unwrap();
        std::fs::write(workspace.join("work"), "work").unwrap();
        let (engine, asked, _socket) = testing::asked_engine(|line: &str| match line {
            line if line.contains("/volumes/create") => (201, VOLUME),
            line if line.contains("/containers/create") => (201, r#"{"Id":"carrier","Warnings":[]}"#),
            // It takes the files, and never says that it has them all.
            line if line.starts_with("PUT") => (0, ""),
            line if line.starts_with("DELETE") => (204, ""),
            _ => (404, r#"{"message":"there is none"}"#),
        });
        let place = place(&home, &agent, engine);
        let lock = Arc::default();
        let making = making::take(&lock).await;
        let identity = home.workspaces();
        let is_sent = || asked.lock().unwrap().iter().any(|line| line.starts_with("PUT"));
        tokio::select! {
            done = place.provide(&workspace, &identity, &making) => panic!("{done:?}"),
            () = testing::until("the files are sent", is_sent) => {}
        }
        drop(making);
        drop(tokio::time::timeout(Duration::from_secs(60), making::take(&lock)).await.unwrap());
        let asked = asked.lock().unwrap();
        let removed: Vec<&String> = asked.iter().filter(|line| line.starts_with("DELETE")).collect();
        assert_eq!(removed.len(), 2, "{asked:?}");
        assert!(removed[0].contains("/containers/carrier?"), "a volume in use can't be removed: {asked:?}");
        assert!(removed[1].contains(&place.mark.volume), "{asked:?}");
        assert_eq!(elsewhere::read(&workspace), None);
        assert_eq!(std::fs::read_to_string(workspace.join("work")).unwrap(), "work");
    }

    #[tokio::test]
    async fn a_workspace_that_could_not_be_brought_stays_and_only_its_own_new_volume_is_removed() {
        let (home, _folder) = home();
        let agent: AgentId = "ada".parse().unwrap();
        let workspace = home.workspace(&agent);
        std::fs::create_dir(&workspace).unwrap();
        std::fs::write(workspace.join("work"), "work").unwrap();
        // It takes a volume, and can make no container.
        let (engine, asked, _socket) = testing::asked_engine(|line: &str| match line {
            line if line.contains("/volumes/create") => (201, VOLUME),
            line if line.starts_with("DELETE") => (204, ""),
            _ => (500, r#"{"message":"no space left"}"#),
        });
        let place = place(&home, &agent, engine);
        let mark = &place.mark;
        let making = making::take(&Arc::default()).await;
        let error = place.provide(&workspace, &home.workspaces(), &making).await.unwrap_err();
        assert!(chain(&error).contains("no space left"), "{error:?}");
        assert_eq!(std::fs::read_to_string(workspace.join("work")).unwrap(), "work");
        assert_eq!(elsewhere::read(&workspace), None);
        let removed: Vec<String> =
            asked.lock().unwrap().iter().filter(|line| line.starts_with("DELETE")).cloned().collect();
        assert_eq!(removed.len(), 1, "{removed:?}");
        assert!(removed[0].contains(&mark.volume), "{removed:?}");
        // A workspace whose volume can't be seen is neither filled anew nor given up.
        std::fs::remove_dir_all(&workspace).unwrap();
        elsewhere::mark(&workspace, mark).unwrap();
        asked.lock().unwrap().clear();
        place.provide(&workspace, &home.workspaces(), &making).await.unwrap_err();
        place.bring_back(&workspace, None).await.unwrap_err();
        assert_eq!(elsewhere::read(&workspace), Some(mark.clone()));
        let asked = asked.lock().unwrap();
        assert!(asked.iter().all(|line| line.starts_with("GET")), "{asked:?}");
    }
}
