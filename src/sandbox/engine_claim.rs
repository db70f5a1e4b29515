//! The claim of a home on an engine of another machine. What a home has in an engine is known by the home's path, and two machines may
//! each have a home at the same path. The first of them that uses an engine leaves a volume there with its instance id, and the others
//! are refused before they take anything of the first for their own.

use std::collections::HashMap;

use crate::home::{Home, instance};
use crate::sandbox::engine::{self, Engine};
use crate::sandbox::{SandboxError, names, volumes};

/// Makes sure that an engine is this home's to use. Only the first call for an engine on another machine asks it.
///
/// # Errors
///
/// Returns [`SandboxError::Claimed`] if the home of another machine at the same path uses the engine, and other errors if the engine
/// does not answer or the home has no id.
pub(crate) async fn check(engine: &Engine, home: &Home) -> Result<(), SandboxError> {
    if !engine.is_remote() {
        return Ok(());
    }
    engine.claim().get_or_try_init(|| claim(engine, home)).await.map(drop)
}

async fn claim(engine: &Engine, home: &Home) -> Result<(), SandboxError> {
    let path = home.instance();
    // The gateway may never have run.
    let id = instance::settle(home)
        .and_then(|_| instance::read(home))
        .map_err(|error| SandboxError::Host { path, source: std::io::Error::other(error) })?;
    let labels = HashMap::from([
        (names::LABEL_HOME.to_owned(), names::owner(home)),
        (names::LABEL_INSTANCE.to_owned(), id),
    ]);
    let name = names::claim(home);
    // The engine changes nothing of a volume of this name that is there. Docker's answer has no labels then if the engine was
    // started since, so they are asked for.
    volumes::create(engine, &name, labels.clone()).await?;
    let client = engine.client()?;
    let what = format!("look for the volume {name}");
    let found = engine.call(&what, engine::QUICK, client.inspect_volume(&name)).await?;
    match found.labels == labels {
        true => Ok(()),
        false => {
            Err(SandboxError::Claimed { engine: engine.title(), home: names::owner(home), volume: name })
        }
    }
}
