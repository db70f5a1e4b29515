//! Changes of the database that only tests make.

use super::Store;
use crate::id::Party;

/// Makes a person with an account, which with `bound_by` the owner bound to the account.
pub(crate) async fn add_account(
    store: &Store,
    platform: &str,
    id: &str,
    person: &Party,
    bound_by: Option<&str>,
) {
    let row = (platform.to_owned(), id.to_owned(), person.to_string(), bound_by.map(str::to_owned));
    let sql = "INSERT INTO account (platform, id, person, username, created_at, bound_by) VALUES (?1, ?2, ?3, 'x', 1, ?4)";
    store.write("add an account", move |transaction| transaction.execute(sql, row).map(drop)).await.unwrap();
}

/// Changes the body of a request behind flock's back.
pub(crate) async fn change_body(store: &Store, request: &str, from: &'static str, to: &'static str) {
    let (id, sql) = (request.to_owned(), "UPDATE request SET body = replace(body, ?2, ?3) WHERE id = ?1");
    store
        .write("change a request", move |transaction| transaction.execute(sql, (id, from, to)).map(drop))
        .await
        .unwrap();
}

/// Sets the time at which a request expires.
pub(crate) async fn set_expiry(store: &Store, request: &str, at: i64) {
    let (id, sql) = (request.to_owned(), "UPDATE request SET expires_at = ?2 WHERE id = ?1");
    store
        .write("change a request", move |transaction| transaction.execute(sql, (id, at)).map(drop))
        .await
        .unwrap();
}
