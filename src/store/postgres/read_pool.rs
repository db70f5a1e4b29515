//! Connections for reading.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Handle, RuntimeFlavor};

use super::PostgresError;
use super::server::{Purpose, Server};
use super::session::Session;
use crate::store::read_pool::{ConnectionLimit, ReadingDriver};
use crate::store::{StoreError, sql};

/// The most connections of a process for reading. Each is a process of the server, which takes a hundred of all kinds
/// unless it was set up for more. More of them at once would not read faster either: a server has few cores.
const MAX_CONNECTIONS: usize = 16;
/// The time after which a read gives up waiting for a connection.
const WAIT_LIMIT: Duration = Duration::from_secs(30);

impl ReadingDriver for Arc<Server> {
    type Connection = Session;

    // To make a connection, with its encryption and its sign-in, takes as long as dozens of reads, so all are kept.
    const MAX_IDLE: usize = MAX_CONNECTIONS;
    const LIMIT: Option<ConnectionLimit> = Some(ConnectionLimit {
        most: MAX_CONNECTIONS,
        wait: WAIT_LIMIT,
        refusal: || PostgresError::Busy(WAIT_LIMIT).into(),
    });

    fn connect(&self) -> Result<Session, StoreError> {
        Server::connect(self, Purpose::Read)
    }

    fn is_usable(connection: &Session) -> bool {
        connection.is_usable()
    }

    fn view(connection: &Session) -> sql::Connection<'_> {
        sql::Connection::postgres(connection)
    }

    fn wait(read: &mut dyn FnMut()) {
        // An answer takes as long as the network does. A runtime with several threads gives the other tasks of this one
        // to another meanwhile. One with a single thread can't, and is used by short-lived commands alone.
        match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
            Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(read),
            _ => read(),
        }
    }
}
