//! Volumes and networks of a home. Only those with the home's label are listed.

use std::collections::HashMap;

use bollard::models::{Volume, VolumeCreateRequest};
use bollard::query_parameters::{
    ListNetworksOptionsBuilder, ListVolumesOptionsBuilder, RemoveVolumeOptionsBuilder,
};

use crate::home::Home;
use crate::sandbox::engine::{self, Engine};
use crate::sandbox::{SandboxError, engine_claim, names};

/// Returns the names of this home's volumes, sorted.
pub async fn list(engine: &Engine, home: &Home) -> Result<Vec<String>, SandboxError> {
    engine_claim::check(engine, home).await?;
    let mut names = matching(engine, &names::owned(home)).await?;
    names.sort();
    Ok(names)
}

/// Returns the names of the volumes that the engine finds by these filters.
pub(super) async fn matching(
    engine: &Engine,
    filters: &HashMap<String, Vec<String>>,
) -> Result<Vec<String>, SandboxError> {
    let client = engine.client()?;
    let options = ListVolumesOptionsBuilder::default().filters(filters).build();
    let found =
        engine.call("list volumes", engine::DISPLAY_TIMEOUT, client.list_volumes(Some(options))).await?;
    Ok(found.volumes.unwrap_or_default().into_iter().map(|volume| volume.name).collect())
}

/// Makes a volume. One of this name that is there stays as it is.
pub(super) async fn create(
    engine: &Engine,
    name: &str,
    labels: HashMap<String, String>,
) -> Result<(), SandboxError> {
    let client = engine.client()?;
    let request = VolumeCreateRequest {
        name: Some(name.to_owned()),
        labels: Some(labels),
        ..VolumeCreateRequest::default()
    };
    let what = format!("create the volume {name}");
    engine.call(&what, engine::SLOW, client.create_volume(request)).await.map(drop)
}

/// Looks for a volume.
pub(super) async fn inspect(engine: &Engine, name: &str) -> Result<Option<Volume>, SandboxError> {
    let client = engine.client()?;
    engine.find(&format!("look for the volume {name}"), engine::QUICK, client.inspect_volume(name)).await
}

/// Returns the names of this home's networks, sorted. flock creates none today, but an earlier or later version may
/// have.
pub async fn networks(engine: &Engine, home: &Home) -> Result<Vec<String>, SandboxError> {
    let client = engine.client()?;
    let options = ListNetworksOptionsBuilder::default().filters(&names::owned(home)).build();
    let found =
        engine.call("list networks", engine::DISPLAY_TIMEOUT, client.list_networks(Some(options))).await?;
    let mut names: Vec<String> = found.into_iter().filter_map(|network| network.name).collect();
    names.sort();
    Ok(names)
}

/// Removes a volume with its contents. It is not an error if the volume is missing.
pub async fn remove(engine: &Engine, name: &str) -> Result<(), SandboxError> {
    let client = engine.client()?;
    let what = format!("remove the volume {name}");
    let options = RemoveVolumeOptionsBuilder::default().build();
    engine.find(&what, engine::SLOW, client.remove_volume(name, Some(options))).await.map(drop)
}

/// Removes a network. It is not an error if the network is missing.
pub(crate) async fn remove_network(engine: &Engine, name: &str) -> Result<(), SandboxError> {
    let client = engine.client()?;
    let what = format!("remove the network {name}");
    engine.find(&what, engine::SLOW, client.remove_network(name)).await.map(drop)
}
