//! Building of the images, with progress for the terminal.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use super::{Context, Failure};
use crate::config::Config;
use crate::generation;
use crate::home::Home;
use crate::sandbox::engine::Engine;
use crate::sandbox::image::{self, ImageStage, Recipe};
use crate::ui::Progress;

/// Makes the missing images in the machine's own engine, and in the others that answer.
///
/// # Errors
///
/// Returns an error if the machine's own engine does not answer, or if an image can't be made in it.
pub(crate) async fn make(
    engine: &Engine,
    home: &Home,
    config: &Config,
    context: &Context,
) -> Result<(), Failure> {
    make_in(engine, home, config, context).await?;
    for other in config.engines.iter().filter(|other| !other.name.is_local() && other.cluster.is_none()) {
        let engine = Engine::named(home, other.name.clone(), other.address.clone().unwrap_or_default());
        let made = match engine.first_ping().await {
            Ok(()) => make_in(&engine, home, config, context).await,
            Err(error) => Err(error.into()),
        };
        // The agents of the machine's own engine do not depend on it.
        if let Err(failure) = made {
            context.printer.warn(&format!(
                "the images of engine {} were not made: {}",
                other.name,
                failure.text()
            ));
        }
    }
    record(engine, home, config).await
}

/// Makes the missing images in one engine.
///
/// # Errors
///
/// Returns an error if the engine does not answer, or if an image can't be made.
pub(crate) async fn make_in(
    engine: &Engine,
    home: &Home,
    config: &Config,
    context: &Context,
) -> Result<(), Failure> {
    let shown = Mutex::new(None::<(Recipe, Progress)>);
    // The sink is shared, so it can change the progress only behind a lock.
    let sink = |progress: image::ImageProgress| {
        let mut shown = shown.lock().unwrap_or_else(PoisonError::into_inner);
        let image::ImageProgress { recipe, step, detail } = progress;
        // An image that exists already reports only `Ready`. It gets no progress, just a detail with `-v`.
        if shown.as_ref().is_none_or(|(of, _)| *of != recipe) && step != ImageStage::Ready {
            *shown = Some((recipe, context.printer.progress(&format!("making the {}", name(recipe)))));
        }
        match (step, shown.take_if(|(of, _)| step == ImageStage::Ready && *of == recipe)) {
            (ImageStage::Ready, Some((_, progress))) => progress.done(&format!("{} ready", name(recipe))),
            (ImageStage::Ready, None) => {
                context.printer.detail(format!("{} is there: {detail}", name(recipe)));
            }
            _ => {
                if let Some((_, progress)) = shown.as_ref() {
                    if step == ImageStage::Retrying {
                        // Plain lines omit details, and this one says what went wrong.
                        progress.step(&format!("{}: {detail}", step_text(step)));
                    } else {
                        progress.step(step_text(step));
                        progress.detail(&detail);
                    }
                }
            }
        }
    };
    image::ensure_images(engine, home, config, &sink).await?;
    Ok(())
}

/// Records the images that are in use in the newest generation. One that was made anew is a new generation.
async fn record(engine: &Engine, home: &Home, config: &Config) -> Result<(), Failure> {
    let mut images = BTreeMap::new();
    for recipe in Recipe::ALL {
        let name = image::reference(home, config, recipe);
        if let Some(id) = image::id(engine, &name).await? {
            images.insert(name, id);
        }
    }
    let known = generation::log::newest(home)?.map(|newest| newest.state.images).unwrap_or_default();
    let is_new = known.iter().any(|(name, id)| images.get(name).is_some_and(|now| now != id));
    if is_new {
        generation::change(home, |state| state.images = images)?;
    } else {
        // An image that is seen for the first time was not changed.
        generation::recorder::complete(home, |state| state.images = images)?;
    }
    Ok(())
}

const fn name(recipe: Recipe) -> &'static str {
    match recipe {
        Recipe::Sandbox => "sandbox image",
        Recipe::Store => "store image",
    }
}

const fn step_text(step: ImageStage) -> &'static str {
    match step {
        ImageStage::Waiting => "waiting for another flock process that makes it",
        ImageStage::Pulling => "pulling",
        ImageStage::Building => "building from the public base image",
        ImageStage::Bootstrapping => "making a system from this host's package sources",
        ImageStage::Installing => "installing packages",
        ImageStage::Retrying => "trying again",
        ImageStage::Importing => "importing it into the engine",
        ImageStage::Ready => "ready",
    }
}
