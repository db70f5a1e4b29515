//! The images flock needs, and how it comes by them: there already, pulled, built from a public base, or
//! made from the distribution's own packages where no registry answers.
//!
//! An image is found by the label that names its recipe and a tag that some home gave it, and each home has its own tag on it: a second home
//! of the same engine tags what the first one made, and an image lives as long as some home wants it. The
//! label is written in the same step that makes an image complete, so half an image is never found.

mod bootstrap;
mod build;
mod folder;
mod recipe;
mod sources;
mod tags;

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use bollard::query_parameters::{
    CreateImageOptionsBuilder, ListImagesOptionsBuilder, TagImageOptionsBuilder,
};
use futures_util::StreamExt as _;

use crate::config::Config;
use crate::error::{Explain, Kind};
use crate::home::Home;
use crate::sandbox::engine::{self, Engine};
use crate::sandbox::{SandboxError, names};

pub use recipe::Recipe;
pub use tags::{tags, untag};

/// What is being done about an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Waits for another flock that makes the same image.
    Waiting,
    /// Pulls it, or the base it is built from.
    Pulling,
    /// Builds it from the public base.
    Building,
    /// Makes a system from the distribution's packages.
    Bootstrapping,
    /// Installs packages into that system.
    Installing,
    /// Hands it to the engine.
    Importing,
    /// It is there.
    Ready,
}

/// Told to whoever shows progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Which image.
    pub recipe: Recipe,
    /// What is being done.
    pub step: Step,
    /// A line about it: a package, a layer, the image's name.
    pub detail: String,
}

/// Receives progress, from one task and in order.
pub type Sink<'a> = &'a (dyn Fn(Progress) + Send + Sync);

/// Why an image can't be had.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The engine did not do it.
    #[error(transparent)]
    Engine(#[from] SandboxError),
    /// An image that the configuration names is not there and can't be pulled.
    #[error("the image {image} is not there and can't be pulled")]
    Pull {
        /// Its name.
        image: String,
        /// The registry's or the engine's answer.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A program that makes images is missing.
    #[error("no registry answers ({registry}), and {tool} is not installed to make the image without one")]
    Missing {
        /// Its name.
        tool: &'static str,
        /// Why nothing was pulled.
        registry: String,
    },
    /// Making a system needs root, and sudo asks for a password or is missing.
    #[error(
        "no registry answers ({registry}), and making an image without one needs root, which sudo did not give"
    )]
    NeedsRoot {
        /// Why nothing was pulled.
        registry: String,
    },
    /// The host has no package sources a system could be made from.
    #[error(
        "no registry answers ({registry}), and this host has no Debian or Ubuntu package source to make an image from"
    )]
    NoSources {
        /// Why nothing was pulled.
        registry: String,
    },
    /// A step of making it failed.
    #[error("{what} failed: {tail}")]
    Step {
        /// As in `debootstrap`.
        what: &'static str,
        /// The end of what it printed.
        tail: String,
    },
    /// A folder or file of the host failed.
    #[error("failed to prepare {}", path.display())]
    Host {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

impl Explain for ImageError {
    fn kind(&self) -> Kind {
        match self {
            Self::Engine(error) => error.kind(),
            _ => Kind::Failed,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Engine(error) => error.hint(),
            Self::Pull { image, .. } => Some(format!("docker pull {image}")),
            Self::Missing { tool, .. } => Some(format!("sudo apt-get install {tool}")),
            Self::NeedsRoot { .. } => Some("sudo -v && flock init".to_owned()),
            Self::NoSources { .. } => {
                Some("flock config set plugins.entries.flock.config.sandbox.image IMAGE".to_owned())
            }
            Self::Step { .. } => Some("flock doctor".to_owned()),
            Self::Host { .. } => None,
        }
    }
}

/// The image's name for this home: the configured one, or the tag of flock's own.
#[must_use]
pub fn reference(home: &Home, config: &Config, recipe: Recipe) -> String {
    own(config, recipe).map_or_else(|| recipe.reference(home), str::to_owned)
}

/// The image a person configured instead of flock's.
fn own(config: &Config, recipe: Recipe) -> Option<&str> {
    match recipe {
        Recipe::Sandbox => config.sandbox_image.as_deref(),
        Recipe::Store => config.nix_image.as_deref(),
    }
}

/// Makes sure that both images are there. Safe to run again after any interruption, and by several homes
/// and processes at once.
///
/// # Errors
///
/// As [`ImageError`] says; what was complete before stays.
pub async fn ensure_images(
    engine: &Engine,
    home: &Home,
    config: &Config,
    sink: Sink<'_>,
) -> Result<(), ImageError> {
    let mut missing = Vec::new();
    for recipe in Recipe::ALL {
        let reference = reference(home, config, recipe);
        if id(engine, &reference).await?.is_some() {
            ready(sink, recipe, &reference);
        } else if let Some(image) = own(config, recipe) {
            pull(engine, image, OWN_SILENCE, &|detail| {
                sink(Progress { recipe, step: Step::Pulling, detail });
            })
            .await
            .map_err(|source| pull_error(image, source))?;
            ready(sink, recipe, image);
        } else if !adopt(engine, home, recipe, sink).await? {
            missing.push(recipe);
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let work = folder::Work::lock(&|| {
        sink(Progress { recipe: missing[0], step: Step::Waiting, detail: String::new() });
    })
    .await?;
    // Whoever held the lock may have made them.
    let mut still = Vec::new();
    for recipe in missing {
        if !adopt(engine, home, recipe, sink).await? {
            still.push(recipe);
        }
    }
    if still.is_empty() {
        return Ok(());
    }
    match build::base(engine, sink, still[0]).await {
        Ok(()) => build::from_base(engine, home, &still, sink).await?,
        Err(registry) => bootstrap::make(engine, home, &still, &work, &registry, sink).await?,
    }
    Ok(())
}

/// The id of an image, if it is there.
///
/// # Errors
///
/// As [`Engine::call`].
pub async fn id(engine: &Engine, reference: &str) -> Result<Option<String>, SandboxError> {
    let client = engine.client()?;
    let what = format!("look for the image {reference}");
    let found = engine.find(&what, engine::QUICK, client.inspect_image(reference)).await?;
    Ok(found.and_then(|image| image.id))
}

/// Gives this home's tag to an image made from the recipe, if the engine has one.
async fn adopt(engine: &Engine, home: &Home, recipe: Recipe, sink: Sink<'_>) -> Result<bool, SandboxError> {
    let client = engine.client()?;
    let label = format!("{}={}", names::LABEL_RECIPE, recipe.hash());
    let filters = HashMap::from([("label", vec![label.as_str()])]);
    let options = ListImagesOptionsBuilder::default().filters(&filters).build();
    let found = engine.call("list images", engine::QUICK, client.list_images(Some(options))).await?;
    // A label alone is not enough: what somebody builds on one of these images inherits it.
    let plain = format!("{}:{}", recipe.repository(), recipe.hash());
    let of_a_home = |tag: &String| {
        tag.strip_prefix(&plain).is_some_and(|suffix| suffix.is_empty() || suffix.starts_with('-'))
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
    // Gone since it was listed: make it anew.
    let tagged = client.tag_image(&image.id, Some(options));
    if engine.find(&what, engine::QUICK, tagged).await?.is_none() {
        return Ok(false);
    }
    ready(sink, recipe, &reference);
    Ok(true)
}

/// Pulls an image. `silence` is how long the registry may say nothing.
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
    match id(engine, reference).await? {
        Some(_) => Ok(()),
        None => Err("the engine pulled nothing".into()),
    }
}

/// Without a tag the engine would pull every tag there is.
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

fn ready(sink: Sink<'_>, recipe: Recipe, reference: &str) {
    sink(Progress { recipe, step: Step::Ready, detail: reference.to_owned() });
}

/// How long a registry may be silent about an image that the configuration names.
const OWN_SILENCE: Duration = Duration::from_secs(120);
