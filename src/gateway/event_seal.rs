//! The ids of events for people. A number that counts all events would tell a person by its gaps that something happened
//! which is not theirs to see. So a person gets the number encrypted: each id is another text, and only this process reads it.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};

/// The key of the ids, which is made anew by each process.
#[derive(Debug)]
pub(super) struct EventSeal {
    /// `None` if the library refuses the key. Then ids say nothing, and a reader begins again when it reconnects.
    key: Option<LessSafeKey>,
}

impl EventSeal {
    pub(super) fn new() -> Self {
        let key = UnboundKey::new(&CHACHA20_POLY1305, &rand::random::<[u8; 32]>());
        Self { key: key.ok().map(LessSafeKey::new) }
    }

    /// Returns an id of a position for this person.
    #[must_use]
    pub(super) fn seal(&self, person: &str, position: u64) -> String {
        let nonce: [u8; NONCE_LEN] = rand::random();
        let mut sealed = position.to_be_bytes().to_vec();
        let done = self.key.as_ref().map(|key| {
            let nonce = Nonce::assume_unique_for_key(nonce);
            key.seal_in_place_append_tag(nonce, Aad::from(person.as_bytes()), &mut sealed)
        });
        if !matches!(done, Some(Ok(()))) {
            return String::new();
        }
        URL_SAFE_NO_PAD.encode([nonce.as_slice(), &sealed].concat())
    }

    /// Returns the position of an id, or `None` if it was made by another process or for somebody else.
    #[must_use]
    pub(super) fn open(&self, person: &str, id: &str) -> Option<u64> {
        let mut bytes = URL_SAFE_NO_PAD.decode(id).ok()?;
        let (nonce, sealed) = bytes.split_first_chunk_mut::<NONCE_LEN>()?;
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let opened = self.key.as_ref()?.open_in_place(nonce, Aad::from(person.as_bytes()), sealed).ok()?;
        Some(u64::from_be_bytes((&*opened).try_into().ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_by_its_process_for_its_person_alone() {
        let seal = EventSeal::new();
        let id = seal.seal("ann", 7);
        assert_eq!(seal.open("ann", &id), Some(7));
        assert_eq!(seal.open("bob", &id), None);
        assert_eq!(EventSeal::new().open("ann", &id), None);
        assert_ne!(seal.seal("ann", 7), id, "the same position has many ids");
        let lengths: Vec<usize> = [0, 7, 4096, u64::MAX].map(|at| seal.seal("ann", at).len()).to_vec();
        assert!(lengths.iter().all(|length| *length == lengths[0]), "{lengths:?}");
        for wrong in ["", "x", "b.7", &id[1..], &format!("{id}A"), &id.to_uppercase()] {
            assert_eq!(seal.open("ann", wrong), None, "{wrong}");
        }
    }
}
