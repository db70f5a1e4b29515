//! The Docker engine, and what flock keeps in it.

use std::sync::Arc;

use super::super::team;
use super::check::Check;
use crate::config::Config;
use crate::home::Home;
use crate::sandbox::engine::Engine;
use crate::sandbox::image::{self, Recipe};

/// The engine; where it answers and there is a configuration, the images, too.
pub async fn all(home: &Home, config: Option<&Config>) -> Vec<Check> {
    const NAME: &str = "engine";
    let engine = Engine::from_env();
    match engine.version().await {
        Err(error) => vec![Check::failed(NAME, error.into())],
        Ok((version, api)) => {
            let text = format!("Docker {version}, API {api}, at {}", engine.endpoint());
            let mut checks = vec![Check::ok(NAME, text)];
            if let Some(config) = config {
                for recipe in Recipe::ALL {
                    checks.push(one_image(&engine, home, config, recipe).await);
                }
                checks.push(store(engine, home, config).await);
            }
            checks
        }
    }
}

async fn one_image(engine: &Engine, home: &Home, config: &Config, recipe: Recipe) -> Check {
    const NAME: &str = "image";
    let reference = image::reference(home, config, recipe);
    match image::id(engine, &reference).await {
        Ok(Some(_)) => Check::ok(NAME, reference),
        Ok(None) => Check::warn(NAME, format!("{reference} is not there yet"), "flock init"),
        Err(error) => Check::failed(NAME, error.into()),
    }
}

async fn store(engine: Engine, home: &Home, config: &Config) -> Check {
    const NAME: &str = "store";
    match team::store(home, config, Arc::new(engine)).state().await {
        Ok(found) if found.state == "running" => Check::ok(NAME, format!("{} runs", found.container)),
        Ok(found) => Check::warn(NAME, format!("{} is {}", found.container, found.state), "flock init"),
        Err(error) => Check::failed(NAME, error.into()),
    }
}
