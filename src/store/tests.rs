use rusqlite::Connection;

use super::sqlite::connection::wal_of;
use super::sqlite::schema;
use super::*;
use crate::home::Home;

fn home() -> (tempfile::TempDir, Home) {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path().to_owned(), None);
    (folder, home)
}

#[test]
fn the_database_file_is_private_to_its_owner() {
    use std::os::unix::fs::PermissionsExt as _;
    let (_folder, home) = home();
    let _store = Store::open(&home).unwrap();
    for path in [home.database(), wal_of(&home.database())] {
        assert_eq!(
            std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600,
            "{}",
            path.display()
        );
    }
}

#[test]
fn a_newer_database_is_refused_and_left_alone() {
    let (_folder, home) = home();
    drop(Store::open(&home).unwrap());
    let connection = Connection::open(home.database()).unwrap();
    connection.execute("INSERT INTO schema_version VALUES (999, 0)", ()).unwrap();
    drop(connection);
    let before = fs_err::read(home.database()).unwrap();
    let Err(error) = Store::open(&home) else { panic!("opened a newer database") };
    assert!(matches!(error, StoreError::Newer { found: 999, .. }), "{error}");
    assert_eq!(crate::error::Explain::kind(&error), crate::error::Kind::NewerHome);
    assert!(Reader::open(&home).is_err());
    assert_eq!(fs_err::read(home.database()).unwrap(), before);
}

#[test]
fn a_migration_saves_the_database_first() {
    let (_folder, home) = home();
    drop(Store::open(&home).unwrap());
    let mut connection = Connection::open(home.database()).unwrap();
    let next = schema::newest() + 1;
    schema::step_for_test(&mut connection, "CREATE TABLE extra (x INTEGER)", next, &home.backups());
    let saved: Vec<_> =
        std::fs::read_dir(home.backups()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(saved.len(), 1);
    let saved = Connection::open(&saved[0]).unwrap();
    assert_eq!(
        saved.query_row("SELECT max(version) FROM schema_version", (), |row| row.get(0)),
        Ok(next - 1)
    );
    assert!(saved.prepare("SELECT * FROM extra").is_err());
    assert!(connection.prepare("SELECT * FROM extra").is_ok());
}

#[test]
fn a_file_that_is_no_database_is_refused_and_left_alone() {
    let (_folder, home) = home();
    fs_err::create_dir_all(home.data()).unwrap();
    fs_err::write(home.database(), "this is not a database, whatever its name says".repeat(100)).unwrap();
    let before = fs_err::read(home.database()).unwrap();
    assert!(matches!(Store::open(&home), Err(StoreError::Open { .. })));
    assert_eq!(fs_err::read(home.database()).unwrap(), before);
}

#[test]
fn a_fifo_or_folder_in_place_of_the_database_is_refused_at_once() {
    use crate::error::{Explain as _, Kind};
    for suffix in ["", "-wal", "-shm", "-journal"] {
        let (_folder, home) = home();
        drop(Store::open(&home).unwrap());
        let path = beside(&home.database(), suffix);
        drop(fs_err::remove_file(&path));
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let errors = [
            Store::open(&home).err(),
            Reader::open(&home).err(),
            schema_version(&home).err(),
            integrity::check(&home.database(), integrity::CheckDepth::Deep).err(),
            row_counts::census(&home.database()).err(),
            restore(&home, None).err(),
        ];
        for error in errors.map(Option::unwrap) {
            assert!(matches!(&error, StoreError::NoFile { path: found } if *found == path), "{error}");
            assert!(error.to_string().ends_with("it is no regular file"), "{error}");
            assert!(error.hint().is_some_and(|hint| hint.starts_with("ls -ld /")), "{error}");
            assert_eq!((error.kind(), error.may_pass()), (Kind::Failed, false));
        }
        assert!(snapshot(&home, &home.data().join("copy")).is_err());
        assert!(!is_newer(&home));
    }
}
