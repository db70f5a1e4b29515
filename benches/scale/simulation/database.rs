//! The databases, as they are filled and measured from outside of flock.

use std::sync::atomic::{AtomicUsize, Ordering};

use flock::home::Home;
use serde_json::json;

/// The database of a run.
pub enum Database {
    Sqlite,
    /// A schema on a server, which is dropped at the end.
    Postgres {
        server: String,
        schema: String,
    },
}

impl Database {
    /// Returns the database on a server, in a schema that no other run uses.
    pub fn postgres(server: &str) -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let schema = format!("flock_scale_{}_{number}", std::process::id());
        Self::Postgres { server: server.to_owned(), schema }
    }

    /// Writes into a home where its database is.
    pub fn choose(&self, home: &Home) {
        if let Self::Postgres { server, schema } = self {
            let document = json!({"postgres": server, "schema": schema});
            std::fs::write(home.root().join("store.json"), document.to_string()).unwrap();
        }
    }

    /// Opens a connection of its own to the database of a home.
    pub fn connect(&self, home: &Home) -> Connection {
        match self {
            Self::Sqlite => {
                let connection = rusqlite::Connection::open(home.database()).unwrap();
                connection.execute_batch("PRAGMA synchronous = OFF; PRAGMA foreign_keys = OFF").unwrap();
                Connection::Sqlite(connection)
            }
            Self::Postgres { server, schema } => {
                let server = Server::connect(server);
                server.run(&format!("SET search_path TO {schema}; SET synchronous_commit = off"));
                Connection::Postgres { server, schema: schema.clone() }
            }
        }
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        if let Self::Postgres { server, schema } = self {
            Server::connect(server).run(&format!("DROP SCHEMA IF EXISTS {schema} CASCADE"));
        }
    }
}

/// A connection that runs texts of SQL.
pub enum Connection {
    Sqlite(rusqlite::Connection),
    Postgres { server: Server, schema: String },
}

impl Connection {
    /// Runs statements that both databases know.
    pub fn run(&self, sql: &str) {
        match self {
            Self::Sqlite(connection) => connection.execute_batch(sql).unwrap(),
            Self::Postgres { server, .. } => server.run(sql),
        }
    }

    /// Has a server count what its planner needs to know. It does so by itself within minutes.
    pub fn analyze(&self) {
        if let Self::Postgres { server, .. } = self {
            server.run("ANALYZE");
        }
    }

    /// Returns the size of the database with its indexes.
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Sqlite(connection) => {
                let size = "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()";
                connection.query_row(size, (), |row| row.get::<_, i64>(0)).unwrap().unsigned_abs()
            }
            Self::Postgres { server, schema } => {
                let size = "SELECT CAST(sum(pg_total_relation_size(c.oid)) AS BIGINT) FROM pg_class c
                    JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relkind = 'r'";
                let row = server.runtime.block_on(server.client.query_one(size, &[schema])).unwrap();
                row.get::<_, i64>(0).unsigned_abs()
            }
        }
    }
}

/// A connection to PostgreSQL. Its task runs whenever somebody waits for an answer.
pub struct Server {
    client: tokio_postgres::Client,
    runtime: tokio::runtime::Runtime,
}

impl Server {
    fn connect(address: &str) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let connecting = tokio_postgres::connect(address, tokio_postgres::NoTls);
        let (client, connection) = runtime.block_on(connecting).unwrap();
        runtime.spawn(connection);
        Self { client, runtime }
    }

    fn run(&self, sql: &str) {
        self.runtime.block_on(self.client.batch_execute(sql)).unwrap();
    }
}
