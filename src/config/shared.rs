//! The configuration that several gateways share: all of `config.json` but what each of them has for itself.
//!
//! Pure. `gateway::shared_config` carries the changes between the file of the home and the database.

use std::path::Path;

use serde_json::Value;

use super::relocate::relocate;
use crate::home::Home;

/// The settings that each gateway has for itself: the token of its owner, its ports and its address, and the folder of its data. Each path is
/// a pointer to an object, and a key in it.
const OWN: [(&str, &str); 5] = [
    ("/gateway/auth", "token"),
    ("/gateway", "port"),
    ("/plugins/entries/flock/config/gateway", "port"),
    ("/plugins/entries/flock/config/gateway", "peerAddress"),
    ("/plugins/entries/flock/config", "dataDir"),
];

/// Returns what a configuration shares with other gateways.
#[must_use]
pub fn shared_part(document: &Value) -> Value {
    let mut shared = document.clone();
    for (parent, key) in OWN {
        if let Some(Value::Object(parent)) = shared.pointer_mut(parent) {
            parent.shift_remove(key);
        }
    }
    shared
}

/// Returns the configuration of a home that adopts what others share. `own` is its present one, and `root` the folder of the
/// agents' files in `shared`.
#[must_use]
pub fn adopted(shared: &Value, own: &Value, root: &Path, home: &Home) -> Value {
    let mut document = shared_part(shared);
    relocate(&mut document, root, home);
    for (parent, key) in OWN {
        let Some(value) = own.pointer(parent).and_then(|parent| parent.get(key)) else { continue };
        if let Some(Value::Object(parent)) = document.pointer_mut(parent) {
            parent.insert(key.to_owned(), value.clone());
        }
    }
    document
}

/// A step of a home towards one configuration with the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Both are the same.
    Same,
    /// It takes the one of the database.
    Adopt,
    /// It puts its own into the database, in place of the one with the number that it knows.
    Publish,
    /// It takes the one of the database although its own was changed as well. The change is in the backups of the home.
    Overrule,
}

/// Decides what a home does. `base` is the number and the shared part of what it adopted or published last, `present` is
/// what its file shares now, and `newest` is the number in the database.
#[must_use]
pub fn decide(base: Option<(i64, &Value)>, present: &Value, newest: i64) -> Sharing {
    match base {
        // A home that has just joined has nothing that others could want.
        None => Sharing::Adopt,
        // The database may be of a backup, and then its number is lower than the known one.
        Some((known, base)) if known != newest => {
            if base == present {
                Sharing::Adopt
            } else {
                Sharing::Overrule
            }
        }
        Some((_, base)) if base != present => Sharing::Publish,
        Some(_) => Sharing::Same,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::config::agents::{NewAgent, add};
    use crate::config::{Role, parse, starter};

    fn made(home: &Home, token: &str, port: u16) -> Value {
        let mut document = starter::document(home, None, token, port);
        add(&mut document, home, &NewAgent::new("coder".parse().unwrap(), Role::Worker)).unwrap();
        document
    }

    #[test]
    fn a_home_adopts_everything_but_its_token_its_ports_and_its_folders() {
        let [first, second] = ["/srv/first", "/srv/second"].map(|root| Home::new(root.into(), None));
        let mut theirs = made(&first, "theirs", 4000);
        theirs["later"] = json!({"unknown": [1]});
        let own = starter::document(&second, None, "own", 5000);
        theirs["plugins"]["entries"]["flock"]["config"]["gateway"]["peerAddress"] = "10.0.0.5:4001".into();
        let text = shared_part(&theirs).to_string();
        assert!(!text.contains("4001"));
        assert!(!text.contains("theirs") && !text.contains("4000") && !text.contains("/srv/first/data"));
        let adopted = adopted(&serde_json::from_str(&text).unwrap(), &own, first.root(), &second);
        let mut expected = made(&second, "own", 5000);
        expected["later"] = theirs["later"].clone();
        assert_eq!(adopted, expected);
        let config = parse::config(&adopted, &second).unwrap();
        assert_eq!((config.token.as_str(), config.port), ("own", 5000));
        assert_eq!(config.agents[0].workspace, second.workspace(&config.agents[0].id));
    }

    #[test]
    fn a_token_of_others_is_never_adopted() {
        let home = Home::new("/srv/own".into(), None);
        let own = starter::document(&home, None, "own", 5000);
        // Somebody may have written it into the database by hand.
        let theirs = starter::document(&home, None, "theirs", 4000);
        assert_eq!(adopted(&theirs, &own, home.root(), &home), own);
    }

    #[test]
    fn a_change_is_published_and_a_newer_configuration_adopted() {
        let (one, two) = (json!({"a": 1}), json!({"a": 2}));
        for (base, present, newest, sharing) in [
            (None, &one, 1, Sharing::Adopt),
            (Some((1, &one)), &one, 1, Sharing::Same),
            (Some((1, &one)), &two, 1, Sharing::Publish),
            (Some((1, &one)), &one, 2, Sharing::Adopt),
            (Some((1, &one)), &two, 2, Sharing::Overrule),
            (Some((3, &one)), &one, 2, Sharing::Adopt),
        ] {
            assert_eq!(decide(base, present, newest), sharing, "{base:?} {present} {newest}");
        }
    }
}
