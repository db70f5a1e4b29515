//! The credential that a model is asked with, without the key itself: two agents with the same key have the same one.

use hmac::{Hmac, Mac as _};
use sha2::Sha256;

use super::key::ApiKey;
use crate::home::{Home, instance};
use crate::id::hex;

/// A credential by its identity. The key can't be found from it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Credential {
    /// A keyed digest of the key, or the name of the login or provider if there is no key.
    pub id: String,
    /// The name for people: the provider's, or the program's whose login it is.
    pub name: String,
}

impl Credential {
    /// Returns the credential of a provider that is asked with this key. The same key has the same identity at every
    /// provider of this home and of those that share its files, and another one in every other home.
    #[must_use]
    pub(super) fn of_key(home: &Home, provider: &str, key: Option<&ApiKey>) -> Self {
        // A placeholder such as `ollama` is no secret, and servers that share it have nothing else in common.
        let digest = key.and_then(ApiKey::secret).and_then(|secret| {
            let place = instance::of_shared_files(home).or_else(|| instance::read(home).ok())?;
            digest(&place, secret)
        });
        let id = digest.map_or_else(
            || of_machine(home, format!("provider:{provider}")),
            |digest| format!("key:{digest}"),
        );
        Self { id, name: provider.to_owned() }
    }

    /// Returns the credential of a program that asks with its user's own login.
    #[must_use]
    pub(super) fn of_login(home: &Home, program: &str) -> Self {
        Self { id: of_machine(home, format!("login:{program}")), name: format!("{program}-login") }
    }
}

/// Returns the identity of something that each gateway of a group has for itself, such as a login or a server on its
/// machine.
fn of_machine(home: &Home, id: String) -> String {
    match (instance::of_shared_files(home), instance::read(home)) {
        (Some(_), Ok(instance)) => format!("{id}@{instance}"),
        _ => id,
    }
}

fn digest(place: &str, secret: &str) -> Option<String> {
    let mut mac = Hmac::<Sha256>::new_from_slice(place.as_bytes()).ok()?;
    mac.update(b"credential\0");
    mac.update(secret.as_bytes());
    // 64 bits keep the few keys of a home apart.
    Some(hex(&mac.finalize().into_bytes()[..8]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_known_by_its_digest_alone() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().to_owned(), None);
        home.make_folders().unwrap();
        instance::settle(&home).unwrap();
        let of = |provider, key: &str| Credential::of_key(&home, provider, ApiKey::new(key).as_ref());
        let one = of("lab", "sk-planted-and-long-1");
        assert_eq!(one.id, of("other", "sk-planted-and-long-1").id, "the same key at two providers");
        assert_ne!(one.id, of("lab", "sk-planted-and-long-2").id, "another key");
        assert!(!format!("{one:?}").contains("planted") && one.id.starts_with("key:"), "{one:?}");
        assert_eq!(of("lab", "ollama").id, "provider:lab", "a placeholder is no key");
        assert_eq!(Credential::of_key(&home, "lab", None).id, "provider:lab");
        assert_eq!(Credential::of_login(&home, "claude").id, "login:claude");
    }

    #[test]
    fn homes_that_share_their_files_know_a_key_by_one_identity() {
        let folder = tempfile::tempdir().unwrap();
        let homes = ["one", "two", "alone"].map(|name| {
            let home = Home::new(folder.path().join(name), None);
            home.make_folders().unwrap();
            instance::settle(&home).unwrap();
            home
        });
        let [one, two, alone] = &homes;
        for home in [one, two] {
            crate::home::atomic::write(&home.files_mark(), b"0123-abcd\n", 0o600).unwrap();
        }
        let of = |home, key: &str| Credential::of_key(home, "lab", ApiKey::new(key).as_ref()).id;
        let key = "sk-planted-and-long-1";
        assert_eq!(of(one, key), of(two, key));
        assert_ne!(of(one, key), of(alone, key), "it is not in the group");
        assert_ne!(of(one, key), of(two, "sk-planted-and-long-2"));
        // Both have a login and a server of their own, which may have quotas of their own.
        assert_ne!(of(one, "ollama"), of(two, "ollama"));
        assert_ne!(Credential::of_login(one, "claude").id, Credential::of_login(two, "claude").id);
        assert_eq!(Credential::of_login(one, "claude").name, "claude-login");
    }
}
