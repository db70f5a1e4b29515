//! Builds images in the engine from the pinned public base image.

use std::time::Duration;

use bollard::query_parameters::BuildImageOptionsBuilder;
use bytes::Bytes;
use futures_util::StreamExt as _;

use super::{ImageError, ImageProgress, ImageStage, ProgressSink, Recipe, id, pull, ready, recipe};
use crate::home::Home;
use crate::sandbox::engine::Engine;
use crate::sandbox::names;

/// Makes sure that the base image is in the engine.
///
/// # Errors
///
/// Returns the reason why it could not be pulled, in one line of at most 200 characters.
pub async fn base(engine: &Engine, sink: ProgressSink<'_>, recipe: Recipe) -> Result<(), String> {
    if matches!(id(engine, recipe::BASE).await, Ok(Some(_))) {
        return Ok(());
    }
    let detail = |detail| sink(ImageProgress { recipe, step: ImageStage::Pulling, detail });
    pull(engine, recipe::BASE, REGISTRY_TIMEOUT, &detail).await.map_err(|error| {
        let text = crate::error::chain(error.as_ref());
        text.lines().next().unwrap_or_default().chars().take(200).collect()
    })
}

/// Builds the images of `recipes` from the base.
///
/// # Errors
///
/// Returns [`ImageError::Step`] with the last line of output if a build fails.
pub(crate) async fn build_images(
    engine: &Engine,
    home: &Home,
    recipes: &[Recipe],
    sink: ProgressSink<'_>,
) -> Result<(), ImageError> {
    for recipe in recipes.iter().copied() {
        let client = engine.client()?;
        let reference = recipe.reference(home);
        let options = BuildImageOptionsBuilder::default().t(&reference).rm(true).forcerm(true).build();
        let context =
            context(recipe).map_err(|source| ImageError::Host { path: "Dockerfile".into(), source })?;
        let mut answers =
            std::pin::pin!(client.build_image(options, None, Some(bollard::body_full(context))));
        let mut tail = String::new();
        while let Some(answer) = answers.next().await {
            let answer = match answer {
                Ok(answer) => answer,
                Err(error) => return Err(build_error(&tail, &error.to_string())),
            };
            if let Some(detail) = answer.error_detail {
                return Err(build_error(&tail, &detail.message.unwrap_or_default()));
            }
            for line in answer.stream.unwrap_or_default().lines().filter(|line| !line.trim().is_empty()) {
                sink(ImageProgress { recipe, step: ImageStage::Building, detail: line.to_owned() });
                tail = line.to_owned();
            }
        }
        // The stream may end without an error message although nothing was built.
        if id(engine, &reference).await?.is_none() {
            return Err(build_error(&tail, "the engine built nothing"));
        }
        ready(sink, recipe, &reference);
    }
    Ok(())
}

fn build_error(tail: &str, error: &str) -> ImageError {
    ImageError::Step { what: "building the image", tail: format!("{error} (after: {tail})") }
}

/// Returns the build context as a tar archive. The label is the last instruction, so that no intermediate image carries
/// it.
fn context(recipe: Recipe) -> std::io::Result<Bytes> {
    let packages = recipe.packages().join(" ");
    let dockerfile = format!(
        "FROM {base}\nCOPY flock-make /flock-make\nRUN sh -eu /flock-make {packages} && rm -f /flock-make\nLABEL {label}={hash}\n",
        base = recipe::BASE,
        label = names::LABEL_RECIPE,
        hash = recipe.hash(),
    );
    let script = format!("{}{}", recipe::INSTALL, recipe::CLEAN);
    let mut tar = tar::Builder::new(Vec::new());
    for (name, content) in [("Dockerfile", dockerfile), ("flock-make", script)] {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, name, content.as_bytes())?;
    }
    Ok(tar.into_inner()?.into())
}

/// Silence after which the registry counts as unreachable. A registry that can be reached answers quickly.
const REGISTRY_TIMEOUT: Duration = Duration::from_secs(20);
