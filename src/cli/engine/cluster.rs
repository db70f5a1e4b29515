//! The part of `flock engine` for Kubernetes clusters: their settings, the access from a kubeconfig, and their image.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::json;

use super::super::{Context, Failure};
use crate::config::{self, ClusterAddress, docker, secret};
use crate::error::Kind;
use crate::home::Home;
use crate::id::EngineName;
use crate::sandbox::engine::Engine;
use crate::sandbox::image::{self, Recipe};
use crate::sandbox::kubernetes::access::{ClusterAccess, MAX_BYTES};
use crate::sandbox::kubernetes::client::ClusterClient;
use crate::sandbox::kubernetes::cluster_check;

/// The options of a cluster.
#[derive(Debug, clap::Args)]
pub(super) struct ClusterArgs {
    /// Image of the sandboxes in a cluster, which `flock engine image` makes, for a k8s:// address
    #[arg(long, value_name = "REFERENCE")]
    image: Option<String>,
    /// Size of the volume of each workspace, for a k8s:// address [default: 10g]
    #[arg(long, value_name = "SIZE")]
    storage: Option<String>,
    /// Storage class of these volumes [default: the cluster's]
    #[arg(long, value_name = "NAME")]
    storage_class: Option<String>,
    #[command(flatten)]
    access: AccessArgs,
}

/// The place of the kubeconfig.
#[derive(Debug, clap::Args)]
pub(super) struct AccessArgs {
    /// Kubeconfig with the context of a k8s:// address, or - for one in JSON on standard input [default: that of kubectl]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

impl ClusterArgs {
    /// Returns `true` if an option is there that only a cluster has.
    pub(super) fn is_given(&self) -> bool {
        self.image.is_some()
            || self.storage.is_some()
            || self.storage_class.is_some()
            || self.access.is_given()
    }

    pub(super) fn image(&self) -> Option<String> {
        self.image.clone()
    }

    pub(super) fn storage_class(&self) -> Option<String> {
        self.storage_class.clone()
    }

    /// Returns the size of a volume in bytes.
    pub(super) fn storage(&self) -> Result<Option<u64>, Failure> {
        let Some(text) = &self.storage else { return Ok(None) };
        let size = docker::bytes(&json!(text));
        let refused = || {
            let text = format!("{text:?} is not a size; write it as in 512m or 16g, at least 32m");
            Failure::new(Kind::Usage, text).hint("flock engine add --help")
        };
        size.map(Some).ok_or_else(refused)
    }

    pub(super) const fn access(&self) -> &AccessArgs {
        &self.access
    }
}

impl AccessArgs {
    pub(super) const fn is_given(&self) -> bool {
        self.kubeconfig.is_some()
    }

    /// Takes the access to a cluster out of the kubeconfig.
    ///
    /// # Errors
    ///
    /// Returns an error if the kubeconfig can't be read, or needs something that flock does not do.
    pub(super) fn read(&self, address: &ClusterAddress) -> Result<ClusterAccess, Failure> {
        let text = self.kubeconfig(address)?;
        ClusterAccess::from_kubeconfig(&text, &address.context).map_err(refused)
    }

    fn kubeconfig(&self, address: &ClusterAddress) -> Result<String, Failure> {
        match &self.kubeconfig {
            Some(path) if path == Path::new("-") => {
                let mut text = String::new();
                let read = std::io::stdin().take(MAX_BYTES as u64).read_to_string(&mut text);
                read.map_err(|error| refused(format!("standard input can't be read: {error}")))?;
                Ok(text)
            }
            Some(path) => {
                let text = fs_err::read_to_string(path).map_err(|error| refused(error.to_string()))?;
                match text.trim_start().starts_with('{') {
                    true => Ok(text),
                    false => view(address, Some(path)),
                }
            }
            None => view(address, None),
        }
    }
}

/// Keeps an access among the secrets of the home.
///
/// # Errors
///
/// Returns an error if it can't be written.
pub(super) fn keep(home: &Home, name: &EngineName, access: &ClusterAccess) -> Result<(), Failure> {
    Ok(secret::set(home, &ClusterAccess::secret(name), &access.to_text())?)
}

/// Asks a cluster if it answers, and if its access may do all that flock needs.
///
/// # Errors
///
/// Returns the refusal of the cluster, or the rights that are missing.
pub(super) async fn try_access(client: &ClusterClient) -> Result<(), Failure> {
    client.ping().await.map_err(|error| {
        Failure::from(error).hint(format!("flock engine renew {} --kubeconfig FILE", client.name()))
    })?;
    let rights = cluster_check::rights(client).await;
    if rights.ok {
        return Ok(());
    }
    Err(Failure::new(Kind::Failed, rights.message).hint(rights.hint.unwrap_or_default()))
}

/// Has kubectl read the kubeconfig, which is YAML and can be spread over several files. The secrets come through a pipe.
fn view(address: &ClusterAddress, file: Option<&Path>) -> Result<String, Failure> {
    let mut command = Command::new("kubectl");
    command.args(["config", "view", "--raw", "--flatten", "--minify", "--output", "json", "--context"]);
    command.arg(&address.context).stdin(Stdio::null());
    if let Some(file) = file {
        command.arg("--kubeconfig").arg(file);
    }
    let output = command.output().map_err(|error| {
        refused(format!("kubectl, which reads the kubeconfig, can't be run: {error}; or give it as JSON"))
    })?;
    if !output.status.success() {
        let said = crate::clean::summary(&String::from_utf8_lossy(&output.stderr), 300);
        return Err(refused(format!("kubectl can't read the kubeconfig: {said}")));
    }
    String::from_utf8(output.stdout).map_err(|_| refused("the kubeconfig is no text".to_owned()))
}

fn refused(text: String) -> Failure {
    Failure::new(Kind::Usage, text).hint("flock engine add --help")
}

/// Makes the image of the sandboxes in a cluster, in the machine's own engine.
///
/// # Errors
///
/// Returns an error if the engine does not answer, or if the image can't be made.
pub(super) fn make_image(reference: &str, context: &Context) -> Result<(), Failure> {
    let home = context.writable_home()?;
    let config = config::read(&home)?;
    let engine = Engine::from_env();
    context.block_on(async {
        super::images::make_in(&engine, &home, &config, context).await?;
        let base = image::reference(&home, &config, Recipe::Sandbox);
        let made = image::with_helper(&engine, &home, &base).await?;
        image::tag(&engine, &made, reference).await?;
        Ok::<_, Failure>(())
    })
}
