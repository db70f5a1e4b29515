//! An image with the helper program in it, for engines on other machines: a program of this machine can't be mounted there.

use bollard::query_parameters::BuildImageOptionsBuilder;
use bytes::Bytes;
use futures_util::StreamExt as _;
use sha2::{Digest as _, Sha256};

use super::Recipe;
use crate::home::Home;
use crate::id::hex;
use crate::sandbox::engine::{self, Engine};
use crate::sandbox::spec::HELPER_TARGET;
use crate::sandbox::{SandboxError, helper, names};

/// Returns the id of the image that is `base` with the helper in it. It is made if the engine does not have it.
///
/// # Errors
///
/// Returns an error if the engine does not answer or can't make the image.
pub(crate) async fn with_helper(engine: &Engine, home: &Home, base: &str) -> Result<String, SandboxError> {
    let what = "make the image with the helper";
    let refused = |reason: String| SandboxError::Engine { what: what.to_owned(), source: reason.into() };
    // It is among the home's tags, and is removed with them.
    let hash = hex(&Sha256::digest(format!("{base} {}", helper::PROGRAM_SHA256)));
    let reference = format!("{}:{}{}", Recipe::Sandbox.repository(), &hash[..12], home.suffix());
    if let Some(found) = super::id(engine, &reference).await? {
        return Ok(found);
    }
    let client = engine.client()?;
    let options = BuildImageOptionsBuilder::default().t(&reference).rm(true).forcerm(true).build();
    let context = context(base).map_err(|error| refused(error.to_string()))?;
    let building = async {
        let mut answers =
            std::pin::pin!(client.build_image(options, None, Some(bollard::body_full(context))));
        while let Some(answer) = answers.next().await {
            if let Some(detail) = answer?.error_detail {
                return Ok(Some(detail.message.unwrap_or_default()));
            }
        }
        Ok(None)
    };
    if let Some(reason) = engine.call(what, engine::SLOW, building).await? {
        return Err(refused(reason));
    }
    super::id(engine, &reference).await?.ok_or_else(|| refused("the engine built nothing".to_owned()))
}

/// Returns the context of the build. The label of the recipe is replaced: this is no image that another home may take.
fn context(base: &str) -> std::io::Result<Bytes> {
    let label = names::LABEL_RECIPE;
    let dockerfile = format!("FROM {base}\nCOPY flock-helper {HELPER_TARGET}\nLABEL {label}=with-helper\n");
    let mut tar = tar::Builder::new(Vec::new());
    for (name, content, mode) in
        [("Dockerfile", dockerfile.as_bytes(), 0o644), ("flock-helper", helper::PROGRAM, 0o755)]
    {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(mode);
        tar.append_data(&mut header, name, content)?;
    }
    Ok(tar.into_inner()?.into())
}
