//! Posts and turns whose database is on the server of PostgreSQL that `FLOCK_TEST_POSTGRES` names:
//! `./standalone/postgres.sh --durable cargo bench --bench figures -- postgres`.

use crate::database::Database;
use crate::home::Home;
use crate::{channels, row, stub, turns};

pub fn run() {
    let Some(server) = std::env::var("FLOCK_TEST_POSTGRES").ok().filter(|address| !address.is_empty()) else {
        row("posts and turns on PostgreSQL", "not measured, FLOCK_TEST_POSTGRES names no server");
        return;
    };
    // Declared first, because the schema is dropped when nobody uses it any more.
    let database = Database::postgres(&server);
    let bench = Home::new(stub::start());
    database.choose(&bench.open());
    channels::posts(&bench, "PostgreSQL");
    drop(bench);

    let database = Database::postgres(&server);
    let model = stub::start();
    let bench = Home::new(model);
    database.choose(&bench.open());
    turns::few(&bench, model, "PostgreSQL");
    drop(bench);
}
