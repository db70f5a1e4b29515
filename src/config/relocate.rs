//! Corrects a configuration whose home was copied or moved, where its paths still lead to the old place.

use std::path::Path;

use serde_json::{Value, json};

use super::parse::PLUGIN;
use crate::home::Home;

/// Makes the paths of the home's own folders lead to this home, and no longer to the one at `from` that it was copied
/// from, because another home may still be in use there. The package store becomes this home's own as well. Returns
/// `true` if anything changed.
pub(crate) fn relocate(document: &mut Value, from: &Path, home: &Home) -> bool {
    let before = document.clone();
    let moved = |place: Option<&mut Value>, to: &Path| {
        let Some(Value::String(path)) = place else { return };
        // A folder that a person chose outside the old home stays.
        let Ok(rest) = Path::new(path).strip_prefix(from) else { return };
        if let Some(now) = to.join(rest).to_str() {
            now.clone_into(path);
        }
    };
    moved(document.pointer_mut(&format!("/{}/dataDir", PLUGIN.join("/"))), home.root());
    replace_store_bind(document.pointer_mut("/agents/defaults/sandbox/docker/binds"), home);
    let listed = document.pointer_mut("/agents/list").and_then(Value::as_array_mut);
    for agent in listed.into_iter().flatten() {
        moved(agent.get_mut("workspace"), home.files());
        replace_store_bind(agent.pointer_mut("/sandbox/docker/binds"), home);
    }
    *document != before
}

/// Replaces the package store that `flock init` wrote for the other home by this home's own. It would otherwise count
/// as a foreign volume, and foreign volumes are refused.
fn replace_store_bind(binds: Option<&mut Value>, home: &Home) {
    for bind in binds.and_then(Value::as_array_mut).into_iter().flatten() {
        let is_store =
            bind.as_str().is_some_and(|bind| bind.starts_with("flock-nix") && bind.ends_with(":/nix:ro"));
        if is_store {
            *bind = json!(format!("flock-nix{}:/nix:ro", home.suffix()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::agents::{NewAgent, add};
    use crate::config::{Role, ignored, parse, starter};

    #[test]
    fn the_paths_of_a_copy_are_changed_and_other_paths_kept() {
        let [first, second] = ["/srv/first", "/srv/second"].map(|root| Home::new(root.into(), None));
        let made = |home: &Home| {
            let mut document = starter::document(home, None, "token", 4000);
            for id in ["coder", "tester"] {
                add(&mut document, home, &NewAgent::new(id.parse().unwrap(), Role::Worker)).unwrap();
            }
            document["agents"]["list"][1]["workspace"] = json!("/srv/first-of-all");
            document
        };
        let mut copy = made(&first);
        assert!(relocate(&mut copy, first.root(), &second));
        assert_eq!(copy, made(&second));
        assert_eq!(ignored::settings(&copy, &second), []);
        let config = parse::config(&copy, &second).unwrap();
        assert_eq!(config.agents[0].workspace, second.workspace(&config.agents[0].id));
        assert!(!relocate(&mut copy, first.root(), &second), "once is enough");
    }
}
