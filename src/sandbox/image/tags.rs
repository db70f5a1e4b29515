//! Lists and removes the tags that a home has on images, including those of older recipes.

use std::collections::HashMap;

use bollard::query_parameters::{ListImagesOptionsBuilder, RemoveImageOptionsBuilder};

use super::Recipe;
use crate::home::Home;
use crate::sandbox::SandboxError;
use crate::sandbox::engine::{self, Engine};

/// Returns this home's tags, sorted, for example `flock-sandbox:564a49572696-0a1b2c3d`.
pub async fn tags(engine: &Engine, home: &Home) -> Result<Vec<String>, SandboxError> {
    let client = engine.client()?;
    let repositories = Recipe::ALL.map(|recipe| recipe.repository().to_owned());
    let filters = HashMap::from([("reference".to_owned(), repositories.to_vec())]);
    let options = ListImagesOptionsBuilder::default().filters(&filters).build();
    let found =
        engine.call("list images", engine::DISPLAY_TIMEOUT, client.list_images(Some(options))).await?;
    let all = found.iter().flat_map(|image| &image.repo_tags).map(|reference| short(reference));
    let own = all.filter(|reference| is_home_tag(home.suffix(), reference));
    let mut tags: Vec<String> = own.map(str::to_owned).collect();
    tags.sort();
    Ok(tags)
}

/// Returns a tag without the registry that Podman writes before it, which is another one for images that were loaded. Docker
/// leaves out that of its own images.
pub(super) fn short(reference: &str) -> &str {
    let own = ["docker.io/library/", "localhost/"];
    own.iter().find_map(|registry| reference.strip_prefix(registry)).unwrap_or(reference)
}

/// Returns `true` if a reference is a tag of the home with this suffix, for any recipe.
fn is_home_tag(suffix: &str, reference: &str) -> bool {
    let Some((repository, tag)) = reference.split_once(':') else { return false };
    let hash = tag.strip_suffix(suffix).unwrap_or_default();
    Recipe::ALL.iter().any(|recipe| recipe.repository() == repository)
        // The length keeps a home without a suffix from matching the tags of other homes.
        && hash.len() == 12
        && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Removes this home's tags. The engine deletes an image when its last tag goes. Returns the tags that had to stay
/// because a container still uses the image.
pub async fn untag(engine: &Engine, home: &Home) -> Result<Vec<String>, SandboxError> {
    let client = engine.client()?;
    let mut used = Vec::new();
    for reference in tags(engine, home).await? {
        // Without `force` the engine refuses to remove an image that a container uses.
        let options = RemoveImageOptionsBuilder::default().force(false).build();
        let what = format!("remove the image {reference}");
        let removed = client.remove_image(&reference, Some(options), None);
        match engine.find(&what, engine::SLOW, removed).await {
            Err(error) if engine::refusal(&error) == Some(409) => used.push(reference),
            answer => drop(answer?),
        }
    }
    Ok(used)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_registries_that_stand_for_none_are_left_out() {
        for (reference, expected) in [
            ("flock-nix:1", "flock-nix:1"),
            ("docker.io/library/flock-nix:1", "flock-nix:1"),
            ("localhost/flock-nix:1", "flock-nix:1"),
            ("elsewhere/localhost/flock-nix:1", "elsewhere/localhost/flock-nix:1"),
        ] {
            assert_eq!(short(reference), expected);
        }
    }

    #[test]
    fn a_home_has_its_own_tags_of_all_recipes_and_no_others() {
        for (suffix, reference, expected) in [
            ("", "flock-sandbox:564a49572696", true),
            ("", "flock-nix:000000000000", true),
            ("", "flock-sandbox:564a49572696-0a1b2c3d", false),
            ("-0a1b2c3d", "flock-sandbox:564a49572696-0a1b2c3d", true),
            ("-0a1b2c3d", "flock-sandbox:564a49572696-ffffffff", false),
            ("-0a1b2c3d", "flock-sandbox:564a49572696", false),
            ("", "flock-sandbox:latest", false),
            ("-0a1b2c3d", "flock-sandbox:mine-0a1b2c3d", false),
            ("", "elsewhere/flock-sandbox:564a49572696", false),
        ] {
            assert_eq!(is_home_tag(suffix, reference), expected, "{suffix} {reference}");
        }
    }
}
