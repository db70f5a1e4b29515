//! What a provider that keeps prompts finds a session's by. Requests with the same key go to the same machine
//! there, so all of a session have one and no two sessions share one.

use sha2::{Digest as _, Sha256};

use crate::home::{Home, instance};
use crate::id::SessionKey;

/// The session's key. It tells nothing of the session, nor that two of them are of one home; a home without an
/// instance id has none.
pub(super) fn of(home: &Home, session: &SessionKey) -> Option<String> {
    instance::read(home).ok().map(|instance| digest(&instance, session.as_str()))
}

fn digest(instance: &str, session: &str) -> String {
    let hash = Sha256::new().chain_update(instance).chain_update([0]).chain_update(session).finalize();
    hash.iter().take(16).fold(String::with_capacity(32), |mut text, byte| {
        for half in [byte >> 4, byte & 15] {
            text.push(char::from_digit(u32::from(half), 16).unwrap_or('0'));
        }
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_the_sessions_and_the_homes_and_tells_neither() {
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
