//! The prompt cache key that is sent to a provider. Providers route requests with the same key to the same machine, so
//! all requests of one session share a key and no two sessions do.

use sha2::{Digest as _, Sha256};

use crate::home::{Home, instance};
use crate::id::{SessionKey, hex};

/// Returns the session's cache key, or `None` if the home has no instance id.
///
/// The key is a hash. It reveals neither the session nor whether two sessions belong to the same home.
pub(super) fn of(home: &Home, session: &SessionKey) -> Option<String> {
    instance::read(home).ok().map(|instance| digest(&instance, session.as_str()))
}

fn digest(instance: &str, session: &str) -> String {
    // The zero byte separates the two parts, so that no other pair of strings gives the same hash.
    let hash = Sha256::new().chain_update(instance).chain_update([0]).chain_update(session).finalize();
    // 128 bits are enough to keep sessions apart.
    hex(&hash[..16])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_unique_to_session_and_home_and_reveals_neither() {
        let key = digest("instance-1", "agent:coder:main");
        assert_eq!(key, digest("instance-1", "agent:coder:main"));
        assert_eq!((key.len(), key.chars().all(|c| c.is_ascii_hexdigit())), (32, true));
        for (instance, session) in [
            ("instance-1", "agent:coder:other"),
            ("instance-2", "agent:coder:main"),
            ("instance-1a", "gent:coder:main"),
        ] {
            assert_ne!(digest(instance, session), key);
        }
    }
}
