//! Posts and turns whose database is on the server of PostgreSQL that `FLOCK_TEST_POSTGRES` names:
//! `./standalone/postgres.sh --durable cargo bench --bench figures -- postgres`.

use crate::database::Database;
use crate::home::Home;
use crate::{channels, gateways, row, server, stub, turns};

pub fn run() {
    let Some(server) = server::address() else {
        row("posts and turns on PostgreSQL", "not measured, FLOCK_TEST_POSTGRES names no server");
        return;
    };
    with_home(&server, |home, _, _| drop(channels::posts(home, "PostgreSQL")));
    with_home(&server, gateways::posts);
    with_home(&server, |home, model, _| turns::few(home, model, "PostgreSQL"));
}

/// Measures with a new home on the server, the port of its model, and its database.
fn with_home(server: &str, measure: impl FnOnce(&Home, u16, &Database)) {
    // Before the home, which is dropped first: the schema can go when nobody uses it any more.
    let database = Database::postgres(server);
    let model = stub::start();
    let home = Home::new(model);
    database.choose(&home.open());
    measure(&home, model, &database);
}
