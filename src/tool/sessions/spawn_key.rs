//! The key of a session that an agent starts for itself. The key contains the nesting depth, so no other state is
//! needed for it, and none can be lost.

use crate::id::{SessionKey, SessionKind};

/// Maximum nesting depth of spawned sessions.
pub(super) const MAX_DEPTH: u32 = 2;

const PREFIX: &str = "spawn-";

/// Returns the number of sessions above this one: 0 for a session that no agent started.
#[must_use]
pub fn depth(key: &SessionKey) -> u32 {
    // Spawned sessions are always of this kind. A peer of another kind may have the same prefix by chance.
    if key.kind() != SessionKind::Request {
        return 0;
    }
    key.peer()
        .strip_prefix(PREFIX)
        .and_then(|rest| rest.split_once('-'))
        .and_then(|(depth, _)| depth.parse().ok())
        .unwrap_or(0)
}

/// Returns a new key, one level below the parent, or `None` if the depth limit is reached.
pub(super) fn child(parent: &SessionKey) -> Option<SessionKey> {
    let depth = depth(parent).checked_add(1).filter(|depth| *depth <= MAX_DEPTH)?;
    let peer = format!("{PREFIX}{depth}-{}", uuid::Uuid::now_v7().simple());
    Some(SessionKey::new(parent.agent(), SessionKind::Request, &peer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spawn_depth_is_limited() {
        let mut key: SessionKey = "agent:coder:flock:main:me".parse().unwrap();
        for expected in 1..=MAX_DEPTH {
            key = child(&key).unwrap();
            assert_eq!(depth(&key), expected);
            assert_eq!(key.agent().as_str(), "coder");
        }
        assert_eq!(child(&key), None);
    }

    #[test]
    fn other_keys_have_no_depth() {
        for text in [
            "agent:a:flock:main:spawn-2-x",
            "agent:a:flock:request:spawn",
            "agent:a:flock:request:spawn-x-y",
            "agent:a:flock:request:0192",
        ] {
            assert_eq!(depth(&text.parse().unwrap()), 0, "{text}");
        }
        assert_eq!(child(&"agent:a:flock:request:spawn-4294967295-x".parse().unwrap()), None);
    }
}
