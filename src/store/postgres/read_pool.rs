//! Connections for reading.

use std::sync::Arc;

use tokio::runtime::{Handle, RuntimeFlavor};

use super::server::{Purpose, Server};
use super::session::Session;
use crate::store::read_pool::ReadingDriver;
use crate::store::{StoreError, sql};

impl ReadingDriver for Arc<Server> {
    type Connection = Session;

    fn connect(&self) -> Result<Session, StoreError> {
        Server::connect(self, Purpose::Read)
    }

    fn is_usable(connection: &Session) -> bool {
        connection.is_usable()
    }

    fn view(connection: &Session) -> sql::Connection<'_> {
        sql::Connection::postgres(connection)
    }

    fn wait<T>(read: impl FnOnce() -> T) -> T {
        // An answer takes as long as the network does. A runtime with several threads gives the other tasks of this one
        // to another meanwhile. One with a single thread can't, and is used by short-lived commands alone.
        match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
            Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(read),
            _ => read(),
        }
    }
}
