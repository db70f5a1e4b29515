//! Brings a workspace to its volume in a cluster and back, as a tar archive that a program in the pod reads or writes.

use std::io;
use std::path::{Path, PathBuf};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_util::sync::CancellationToken;

use super::client::ClusterClient;
use super::objects::CONTAINER;
use super::stream::StreamEnd;
use crate::home::beneath::Owner;
use crate::home::elsewhere::Mark;
use crate::id::AgentId;
use crate::sandbox::SandboxError;
use crate::sandbox::spec::{HELPER_TARGET, IDENTITY_FILES, WORKSPACE_TARGET};
use crate::sandbox::workspace::SHARED_USER;
use crate::sandbox::workspace_archive::{self as archive, Tally};
use crate::sandbox::workspace_volume::{
    Arriving, GIVEN_UP, MovedFiles, Pieces, blocking, clear, folder_beside, open, unpack_error,
};

/// The folder of an archive that holds the workspace.
const TOP: &str = "workspace";
/// A folder that file systems make themselves, which nobody but root can read.
const LOST_FOUND: &str = "lost+found";

/// A workspace and its volume in a cluster.
pub(super) struct Transfer<'a> {
    pub cluster: &'a ClusterClient,
    pub agent: &'a AgentId,
    pub pod: &'a str,
    /// The cluster and the name of the claim that has the volume.
    pub mark: &'a Mark,
}

impl Transfer<'_> {
    /// Fills the new volume with what the folder on this machine has. The folder is kept until the volume was read back and has
    /// the same content. From then on a mark is in its place.
    ///
    /// # Errors
    ///
    /// Returns an error if the volume can't be filled, or if nobody waits for it any more.
    pub async fn bring(&self, workspace: &Path, given_up: &CancellationToken) -> Result<(), SandboxError> {
        let carried = async {
            let tally = self.upload(workspace.to_owned()).await?;
            Ok::<_, SandboxError>((tally, self.download(None, None).await?))
        };
        let carried = given_up.run_until_cancelled(carried).await;
        let (tally, found) = carried.unwrap_or_else(|| Err(self.problem(GIVEN_UP.to_owned())))?;
        let moved = MovedFiles { agent: self.agent, mark: self.mark, tally };
        moved.check(workspace, &found).await?;
        // Without the turn, the agent may go on elsewhere with the folder.
        if given_up.is_cancelled() {
            return Err(self.problem(GIVEN_UP.to_owned()));
        }
        moved.leave(workspace).await
    }

    /// Brings the workspace back to this machine, and puts it in the place of its mark. The volume stays.
    ///
    /// # Errors
    ///
    /// Returns an error if the volume can't be read, or if the files can't be written. Then nothing has changed.
    pub async fn bring_back(&self, workspace: &Path, owner: Option<Owner>) -> Result<(), SandboxError> {
        let made = workspace.to_owned();
        let beside = blocking(workspace, move || folder_beside(&made, owner)).await?;
        let brought = async {
            let tally = self.download(Some(beside.clone()), owner).await?;
            MovedFiles { agent: self.agent, mark: self.mark, tally }.arrive(workspace, &beside).await
        };
        let brought = brought.await;
        if brought.is_err() {
            let _ = blocking(workspace, move || clear(&beside)).await;
        }
        brought
    }

    fn problem(&self, what: String) -> SandboxError {
        SandboxError::Workspace { agent: self.agent.clone(), what }
    }

    async fn upload(&self, from: PathBuf) -> Result<Tally, SandboxError> {
        let place = format!("--directory={WORKSPACE_TARGET}");
        // Without it, the modes would be those that the umask leaves.
        let modes = "--preserve-permissions";
        let program =
            ["tar", "--extract", "--file=-", &place, "--strip-components=1", "--no-same-owner", modes];
        let command = [&[HELPER_TARGET, "restrict"][..], &program].concat();
        let mut streams = self.cluster.exec(self.pod, CONTAINER, &command).await?;
        let (pieces, mut receiver) = Pieces::new();
        let path = from.clone();
        let packing = tokio::task::spawn_blocking(move || {
            fs_err::create_dir_all(&from)?;
            archive::pack(&open(&from)?, TOP, SHARED_USER, &IDENTITY_FILES, pieces)
        });
        let failed = |source| SandboxError::Host { path: path.clone(), source };
        while let Some(piece) = receiver.recv().await {
            let piece = piece.map_err(failed)?;
            if streams.input.write_all(&piece).await.is_err() {
                // The outcome says why.
                break;
            }
        }
        drop(receiver);
        let _ = streams.input.shutdown().await;
        let end = streams.outcome.wait().await;
        let packed = packing.await.unwrap_or_else(|error| Err(io::Error::other(error)));
        match end {
            StreamEnd::Exited(0) => packed.map_err(failed),
            end => Err(self.broken("takes no files", &end)),
        }
    }

    /// Reads the volume, and writes it to an empty folder if one is given.
    async fn download(&self, into: Option<PathBuf>, owner: Option<Owner>) -> Result<Tally, SandboxError> {
        let left_out = format!("--exclude={TOP}/{LOST_FOUND}");
        let program = ["tar", "--create", "--file=-", "--directory=/", &left_out, TOP];
        let command = [&[HELPER_TARGET, "restrict"][..], &program].concat();
        let mut streams = self.cluster.exec(self.pod, CONTAINER, &command).await?;
        // Otherwise the program in the pod would have an input that nobody ends.
        let _ = streams.input.shutdown().await;
        let (to, from) = Arriving::new();
        let path = into.clone().unwrap_or_else(|| WORKSPACE_TARGET.into());
        let reading = tokio::task::spawn_blocking(move || from.unpack(into.as_deref(), owner));
        loop {
            let mut piece = bytes::BytesMut::with_capacity(64 << 10);
            match streams.output.read_buf(&mut piece).await {
                Ok(0) | Err(_) => break,
                Ok(_) => {
                    if to.send(piece.freeze()).await.is_err() {
                        // The reader has an error to tell.
                        break;
                    }
                }
            }
        }
        drop(to);
        let read = reading.await.unwrap_or_else(|error| Err(io::Error::other(error)));
        let tally = read.map_err(|source| unpack_error(self.agent, path, source))?;
        match streams.outcome.wait().await {
            StreamEnd::Exited(0) => Ok(tally),
            end => Err(self.broken("gives no files", &end)),
        }
    }

    fn broken(&self, what: &str, end: &StreamEnd) -> SandboxError {
        let why = match end {
            StreamEnd::Exited(code) => format!("tar ended with {code}"),
            StreamEnd::Failed(why) | StreamEnd::Cut(why) => why.clone(),
        };
        self.problem(format!("is in a volume of {} that {what}: {why}", self.cluster.name()))
    }
}
