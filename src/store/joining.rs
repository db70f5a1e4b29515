//! The place of a database that a home is about to use, because its gateway joins others.

use std::fmt;
use std::path::PathBuf;

use super::StoreError;
use super::gateway_group::GatewayGroup;
use super::location;
use super::postgres::{self, Server, Settings};
use crate::home::Home;

/// A database on a server.
#[derive(Clone, Debug)]
pub(crate) struct ServerPlace {
    settings: Settings,
    /// The name of the secret with the password.
    secret: String,
}

impl fmt::Display for ServerPlace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.settings.fmt(formatter)
    }
}

impl ServerPlace {
    /// Reads an address, as in `postgres://flock@db.example/flock`, with the names of a schema and a secret.
    ///
    /// # Errors
    ///
    /// Returns the reason if one of them is not as it should be. It does not quote what may be a password.
    pub(crate) fn parse(address: &str, schema: Option<&str>, secret: Option<&str>) -> Result<Self, String> {
        let (settings, secret) = location::server(address, schema, secret)?;
        Ok(Self { settings, secret })
    }

    /// Returns the group of gateways that use this database, or `None` if there is no group, or no database. `home` has the
    /// password.
    ///
    /// # Errors
    ///
    /// Returns an error if the database can't be read, or was created by a newer flock.
    pub(crate) async fn group(&self, home: &Home) -> Result<Option<GatewayGroup>, StoreError> {
        let server = Server::new(home, self.settings.clone(), self.secret.clone())?;
        match postgres::open_reader(server, home)? {
            Some(reader) => reader.gateway_group().find().await,
            None => Ok(None),
        }
    }

    /// Has the home use this database from now on. Returns the path that the database in a file has then, if there was one.
    ///
    /// # Errors
    ///
    /// Returns an error if a file of the home can't be written.
    pub(crate) fn use_from_now_on(&self, home: &Home, at: i64) -> Result<Option<PathBuf>, StoreError> {
        let kept = location::switch_to_server(home, &self.settings, &self.secret, at)?;
        Ok(kept.exists().then_some(kept))
    }
}
