//! Provides the two images that flock needs. An image is found in the engine, pulled, built from a public base, or made
//! from the distribution's own packages if no registry answers.
//!
//! An image of flock is recognised by the label with its recipe's hash together with a tag given by some home. Each
//! home has its own tag, so a second home of the same engine tags what the first one made, and an image stays as long
//! as any home wants it. The label is written in the step that completes the image, so an incomplete image is never
//! found.

mod bootstrap;
mod build;
mod error;
mod recipe;
mod script;
mod sources;
mod tags;
mod with_helper;
mod work_folder;

use std::collections::HashMap;
use std::time::Duration;

use bollard::query_parameters::{
    CreateImageOptionsBuilder, ListImagesOptionsBuilder, TagImageOptionsBuilder,
};
use futures_util::StreamExt as _;

use crate::config::{Agent, Config};
use crate::home::Home;
use crate::sandbox::engine::{self, Engine};
use crate::sandbox::{SandboxError, names};

pub use error::ImageError;
pub use recipe::Recipe;
pub use tags::{tags, untag};
pub(crate) use with_helper::with_helper;

/// The stage of providing an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ImageStage {
    /// Waiting for another flock process that makes images.
    Waiting,
    /// Pulling the image, or the base it is built from.
    Pulling,
    /// Building it from the public base.
    Building,
    /// Making a system from the distribution's packages.
    Bootstrapping,
    /// Installing packages into that system.
    Installing,
    /// Waiting before the last step is tried again. The detail is the reason.
    Retrying,
    /// Streaming the system to the engine.
    Importing,
    /// The image is available.
    Ready,
}

/// A progress report for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageProgress {
    pub recipe: Recipe,
    pub step: ImageStage,
    /// One line of detail, such as a package, a layer or the image's name.
    pub detail: String,
}

/// A callback for progress reports. It is called from one task and in order.
pub(crate) type ProgressSink<'a> = &'a (dyn Fn(ImageProgress) + Send + Sync);

/// Returns the image's name for this home: the configured one, or flock's own with this home's tag.
#[must_use]
pub fn reference(home: &Home, config: &Config, recipe: Recipe) -> String {
    configured_image(config, recipe).map_or_else(|| recipe.reference(home), str::to_owned)
}

/// Returns the name of the image of an agent's sandbox.
pub(crate) fn of_agent(home: &Home, config: &Config, agent: &Agent) -> String {
    agent.docker.image.clone().unwrap_or_else(|| reference(home, config, Recipe::Sandbox))
}

/// Returns the image that the configuration names instead of flock's own.
fn configured_image(config: &Config, recipe: Recipe) -> Option<&str> {
    match recipe {
        Recipe::Sandbox => config.sandbox_image.as_deref(),
        Recipe::Store => config.nix_image.as_deref(),
    }
}

/// Makes sure that both images are in the engine. It can be repeated after any interruption, and several homes and
/// processes may run it at once.
///
/// # Errors
///
/// Returns [`ImageError::Pull`] if a configured image cannot be pulled, and otherwise the error of the step that
/// failed. Images that were complete before remain.
pub async fn ensure_images(
    engine: &Engine,
    home: &Home,
    config: &Config,
    sink: ProgressSink<'_>,
) -> Result<(), ImageError> {
    let mut missing = Vec::new();
    for recipe in Recipe::ALL {
        let reference = reference(home, config, recipe);
        if id(engine, &reference).await?.is_some() {
            ready(sink, recipe, &reference);
        } else if let Some(image) = configured_image(config, recipe) {
            pull(engine, image, CONFIGURED_TIMEOUT, &|detail| {
                sink(ImageProgress { recipe, step: ImageStage::Pulling, detail });
            })
            .await
            .map_err(|source| pull_error(image, source))?;
            ready(sink, recipe, image);
        } else if !tag_existing(engine, home, recipe, sink).await? {
            missing.push(recipe);
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let work = work_folder::WorkFolder::lock(&|| {
        sink(ImageProgress { recipe: missing[0], step: ImageStage::Waiting, detail: String::new() });
    })
    .await?;
    // The process that held the lock may have made them.
    let mut still = Vec::new();
    for recipe in missing {
        if !tag_existing(engine, home, recipe, sink).await? {
            still.push(recipe);
        }
    }
    if still.is_empty() {
        return Ok(());
    }
    // If the base cannot be pulled, no registry answers, and the images are made from packages.
    match build::base(engine, sink, still[0]).await {
        Ok(()) => build::build_images(engine, home, &still, sink).await?,
        Err(registry) => bootstrap::make(engine, home, &still, &work, &registry, sink).await?,
    }
    Ok(())
}

/// Returns the id of an image, or `None` if it is missing.
pub async fn id(engine: &Engine, reference: &str) -> Result<Option<String>, SandboxError> {
    let client = engine.client()?;
    let what = format!("look for the image {reference}");
    let found = engine.find(&what, engine::QUICK, client.inspect_image(reference)).await?;
    Ok(found.and_then(|image| image.id))
}

/// Gives a name to the image with this id.
///
/// # Errors
///
/// Returns an error if the engine does not answer or has no such image.
pub(crate) async fn tag(engine: &Engine, id: &str, name: &str) -> Result<(), SandboxError> {
    let client = engine.client()?;
    // A tag is what follows the last colon, unless that belongs to the registry's port.
    let (repository, tag) =
        name.rsplit_once(':').filter(|(_, tag)| !tag.contains('/')).unwrap_or((name, "latest"));
    let options = TagImageOptionsBuilder::default().repo(repository).tag(tag).build();
    engine.call(&format!("tag {name}"), engine::QUICK, client.tag_image(id, Some(options))).await?;
    Ok(())
}

/// Gives this home's tag to an existing image of the recipe. Returns `false` if the engine has none.
async fn tag_existing(
    engine: &Engine,
    home: &Home,
    recipe: Recipe,
    sink: ProgressSink<'_>,
) -> Result<bool, SandboxError> {
    let client = engine.client()?;
    let label = format!("{}={}", names::LABEL_RECIPE, recipe.hash());
    let filters = HashMap::from([("label", vec![label.as_str()])]);
    let options = ListImagesOptionsBuilder::default().filters(&filters).build();
    let found = engine.call("list images", engine::QUICK, client.list_images(Some(options))).await?;
    // The label alone is not enough, because an image that somebody builds on top of this one inherits the label.
    let plain = format!("{}:{}", recipe.repository(), recipe.hash());
    let of_a_home = |tag: &String| {
        tags::short(tag)
            .strip_prefix(&plain)
            .is_some_and(|suffix| suffix.is_empty() || suffix.starts_with('-'))
    };
    let newest = found
        .into_iter()
        .filter(|image| image.repo_tags.iter().any(of_a_home))
        .max_by_key(|image| image.created);
    let Some(image) = newest else { return Ok(false) };
    let tag = recipe.tag(home);
    let options = TagImageOptionsBuilder::default().repo(recipe.repository()).tag(&tag).build();
    let reference = recipe.reference(home);
    let what = format!("tag {reference}");
    // The image may have been removed since it was listed. Then it has to be made anew.
    let tagged = client.tag_image(&image.id, Some(options));
    if engine.find(&what, engine::QUICK, tagged).await?.is_none() {
        return Ok(false);
    }
    ready(sink, recipe, &reference);
    Ok(true)
}

/// Pulls an image. `silence` limits the time for which the registry may send nothing.
async fn pull(
    engine: &Engine,
    reference: &str,
    silence: Duration,
    detail: &(dyn Fn(String) + Send + Sync),
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let client = engine.client()?;
    let options = CreateImageOptionsBuilder::default().from_image(&with_tag(reference)).build();
    let mut answers = std::pin::pin!(client.create_image(Some(options), None, None));
    loop {
        match tokio::time::timeout(silence, answers.next()).await {
            Err(_) => return Err(format!("no answer for {} seconds", silence.as_secs()).into()),
            Ok(None) => break,
            Ok(Some(Err(error))) => return Err(Box::new(error)),
            Ok(Some(Ok(info))) => {
                let layer = info.id.unwrap_or_default();
                detail(format!("{layer} {}", info.status.unwrap_or_default()).trim().to_owned());
            }
        }
    }
    // The stream may end without an error although nothing was pulled.
    match id(engine, reference).await? {
        Some(_) => Ok(()),
        None => Err("the engine pulled nothing".into()),
    }
}

/// Adds `:latest` to a name without tag or digest. The engine would otherwise pull every tag of the repository.
fn with_tag(reference: &str) -> String {
    let name = reference.rsplit('/').next().unwrap_or_default();
    if name.contains([':', '@']) { reference.to_owned() } else { format!("{reference}:latest") }
}

fn pull_error(image: &str, source: Box<dyn std::error::Error + Send + Sync>) -> ImageError {
    match source.downcast::<SandboxError>() {
        Ok(error) => ImageError::Engine(*error),
        Err(source) => ImageError::Pull { image: image.to_owned(), source },
    }
}

fn ready(sink: ProgressSink<'_>, recipe: Recipe, reference: &str) {
    sink(ImageProgress { recipe, step: ImageStage::Ready, detail: reference.to_owned() });
}

/// Limit on the registry's silence about an image that the configuration names.
const CONFIGURED_TIMEOUT: Duration = Duration::from_secs(120);
