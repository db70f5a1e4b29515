//! Building of the images, with progress for the terminal.

use std::sync::{Mutex, PoisonError};

use super::{Context, Failure};
use crate::config::Config;
use crate::home::Home;
use crate::sandbox::engine::Engine;
use crate::sandbox::image::{self, Recipe, Step};
use crate::ui::Progress;

/// Makes the missing images.
///
/// # Errors
///
/// Returns an error if the engine does not answer, or if an image can't be made.
pub async fn make(engine: &Engine, home: &Home, config: &Config, context: &Context) -> Result<(), Failure> {
    let shown = Mutex::new(None::<(Recipe, Progress)>);
    // The sink is shared, so it can change the progress only behind a lock.
    let sink = |progress: image::Progress| {
        let mut shown = shown.lock().unwrap_or_else(PoisonError::into_inner);
        let image::Progress { recipe, step, detail } = progress;
        // An image that exists already reports only `Ready`. It gets no progress, just a detail with `-v`.
        if shown.as_ref().is_none_or(|(of, _)| *of != recipe) && step != Step::Ready {
            *shown = Some((recipe, context.printer.progress(&format!("making the {}", name(recipe)))));
        }
        match (step, shown.take_if(|(of, _)| step == Step::Ready && *of == recipe)) {
            (Step::Ready, Some((_, progress))) => progress.done(&format!("{} ready", name(recipe))),
            (Step::Ready, None) => {
                context.printer.detail(format!("{} is there: {detail}", name(recipe)));
            }
            _ => {
                if let Some((_, progress)) = shown.as_ref() {
                    progress.step(doing(step));
                    progress.detail(&detail);
                }
            }
        }
    };
    image::ensure_images(engine, home, config, &sink).await?;
    Ok(())
}

const fn name(recipe: Recipe) -> &'static str {
    match recipe {
        Recipe::Sandbox => "sandbox image",
        Recipe::Store => "store image",
    }
}

const fn doing(step: Step) -> &'static str {
    match step {
        Step::Waiting => "waiting for another flock process that makes it",
        Step::Pulling => "pulling",
        Step::Building => "building from the public base image",
        Step::Bootstrapping => "making a system from this host's package sources",
        Step::Installing => "installing packages",
        Step::Importing => "importing it into the engine",
        Step::Ready => "ready",
    }
}
