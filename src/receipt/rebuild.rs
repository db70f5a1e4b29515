//! Rebuilds the packages that the checks of a receipt used, for a second run elsewhere.
//!
//! They are rebuilt only from the package set that this home is pinned to. A bundle that names another set could have
//! this machine fetch and build anything.

use std::collections::BTreeSet;

use tokio_util::sync::CancellationToken;

use super::ReceiptError;
use super::bundle::Bundle;
use super::verify::{Finding, Outcome};
use crate::id::AgentId;
use crate::nix_store::{Attribute, PackageStore};

/// The name of the profile that holds the packages while the checks run. No agent has such a name: it is too long to be
/// chosen by chance, and reserved in this home for the receipt.
fn profile(bundle: &Bundle) -> Option<AgentId> {
    format!("verify-{}", bundle.id.get(..40)?).parse().ok()
}

/// Makes sure that the packages of a receipt are in the store, with the content that the receipt names.
///
/// # Errors
///
/// Fails if the engine or the store does not answer. Packages that can't be had are a finding.
pub async fn packages(
    bundle: &Bundle,
    store: &PackageStore,
    cancel: &CancellationToken,
    watch: &(dyn Fn(&str) + Send + Sync),
) -> Result<Vec<Finding>, ReceiptError> {
    let receipt = &bundle.receipt;
    let missing = |text: String| Ok(vec![Finding::new("packages", Outcome::NotVerified, text)]);
    if receipt.packages.is_empty() {
        return Ok(Vec::new());
    }
    let paths = &receipt.sandbox.packages;
    let mut found = store.closure(paths).await;
    if found.is_err() {
        let names: Result<Vec<Attribute>, _> =
            receipt.packages.iter().map(|package| package.attribute.parse()).collect();
        let (Ok(names), Some(profile)) = (names, profile(bundle)) else {
            return missing("the receipt names something that is no package".to_owned());
        };
        let pin = store.current_pin()?;
        let is_pinned = |package: &super::document::Package| {
            pin.as_ref().is_some_and(|pin| {
                pin.locked == package.flake && package.nar_hash.as_ref() == Some(&pin.nar_hash)
            })
        };
        if let Some(other) = receipt.packages.iter().find(|package| !is_pinned(package)) {
            let flake = crate::clean::summary(&other.flake, 200);
            return missing(format!("the packages are of {flake}, and this home has another package set"));
        }
        if let Err(error) = store.install(&profile, &names, cancel, watch).await {
            return missing(format!("the packages can't be built: {}", crate::error::chain(&error)));
        }
        found = store.closure(paths).await;
        // Without a profile, the next collection of garbage takes them again.
        store.forget(&profile).await?;
    }
    let found: BTreeSet<(String, String)> = match found {
        Ok(found) => found.into_iter().collect(),
        Err(error) => {
            return missing(format!("the packages are not the same: {}", crate::error::chain(&error)));
        }
    };
    let expected: BTreeSet<(String, String)> =
        receipt.closure.iter().map(|path| (path.path.clone(), path.nar_hash.clone())).collect();
    let finding = if found == expected {
        let text = format!("{} paths of packages have the same content", expected.len());
        Finding::new("packages", Outcome::Verified, text)
    } else {
        Finding::new("packages", Outcome::Differs, "the packages have other content")
    };
    Ok(vec![finding])
}
