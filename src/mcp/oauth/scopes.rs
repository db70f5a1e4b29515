//! Scopes: words of a server for what a sign-in may do. They are its texts, so only what RFC 6749 allows is kept. Pure.

/// The most scopes of a sign-in, and the most bytes of one. They are stored beside the tokens, and all of it is one secret.
const MAX_SCOPES: usize = 50;
const MAX_SCOPE: usize = 128;

/// Reads scopes that are separated by spaces.
pub(super) fn read(text: &str) -> Vec<String> {
    let mut scopes = Vec::new();
    add(&mut scopes, text.split(' ').map(str::to_owned));
    scopes
}

/// Adds scopes that are not there yet and can be sent.
pub(super) fn add(scopes: &mut Vec<String>, more: impl IntoIterator<Item = String>) {
    for scope in more {
        if scopes.len() < MAX_SCOPES && is_scope(&scope) && !scopes.contains(&scope) {
            scopes.push(scope);
        }
    }
}

/// Returns `true` if a text is a scope.
pub(super) fn is_scope(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\');
    (1..=MAX_SCOPE).contains(&text.len()) && text.bytes().all(fits)
}
