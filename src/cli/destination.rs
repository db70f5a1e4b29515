//! The place for a database, as the options of a command name it. Pure.

use crate::store::transfer::Destination;

/// Returns the place that the options of a command name. The two names are those of the schema and of the secret.
///
/// # Errors
///
/// Returns what is wrong with them. The text does not quote the address, which may have a password.
pub(super) fn of(
    to: &str,
    (schema, secret): (Option<&str>, Option<&str>),
    replaces_nul: bool,
) -> Result<Destination, &'static str> {
    if to.starts_with("postgres://") || to.starts_with("postgresql://") {
        return Ok(Destination::Server {
            address: to.to_owned(),
            schema: schema.map(str::to_owned),
            secret: secret.map(str::to_owned),
        });
    }
    if to != "sqlite" {
        return Err("--to takes an address that begins with postgres://, or the word sqlite");
    }
    if schema.is_some() || secret.is_some() || replaces_nul {
        return Err("--schema, --password-secret and --replace-nul are for a server");
    }
    Ok(Destination::File)
}
