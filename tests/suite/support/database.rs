//! The databases of tests' homes: files, or schemas on a server.
//!
//! With `FLOCK_TEST_POSTGRES`, each home gets a schema of its own on that server, and a `store.json` that names it. The
//! tests are the same. Those for which that makes no sense are listed in `only_on_sqlite.txt`, and have files all the same.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use flock::config::secret;
use flock::home::{Home, atomic};
use flock::store::Store;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::postgres::{self, HeldLock};

/// The tests that have their databases in files, each line a test or, with `::` at the end, a module, and the reason.
const ONLY_ON_SQLITE: &str = include_str!("only_on_sqlite.txt");

/// How long another process may hold the database.
const LIMIT: Duration = Duration::from_secs(60);

/// The files of a database, in the home.
const FILES: [&str; 3] = ["data/flock.db", "data/flock.db-wal", "data/flock.db-shm"];

/// Returns the tests and modules that are for SQLite only, each with the reason.
pub fn only_on_sqlite() -> impl Iterator<Item = (&'static str, &'static str)> {
    let lines = ONLY_ON_SQLITE.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| {
        let (name, reason) = line.split_once(' ').unwrap_or((line, ""));
        (name, reason.trim())
    })
}

/// Returns `true` if the homes of the test on this thread have their databases on the server.
fn is_on_server() -> bool {
    if postgres::address().is_none() {
        return false;
    }
    let thread = std::thread::current();
    // Threads of a test's own have no name. None of those that are listed makes a home there.
    let Some(test) = thread.name() else { return true };
    assert_ne!(
        test, "main",
        "with FLOCK_TEST_POSTGRES, the names of the threads say which tests are for SQLite only"
    );
    let listed =
        only_on_sqlite().find(|(name, _)| *name == test || name.ends_with("::") && test.starts_with(*name));
    if let Some((_, reason)) = listed {
        eprintln!("on SQLite, not on PostgreSQL: {reason}");
    }
    listed.is_none()
}

/// The database of a home. A schema is dropped with the value.
#[derive(Debug)]
pub struct HomeDatabase {
    home: Home,
    schema: Option<Schema>,
}

/// A schema on the server, which is dropped with the value.
#[derive(Debug)]
pub struct Schema(String);

impl Drop for Schema {
    fn drop(&mut self) {
        postgres::discard(&self.0);
    }
}

impl HomeDatabase {
    /// Gives a home, whose folders are there, its database: nothing yet, at the place where flock will make it.
    pub fn of(home: &Home) -> Self {
        Self { home: home.clone(), schema: is_on_server().then(|| new_schema(home)) }
    }

    /// Gives a home that was copied from this one, folder by folder, the database that a copy of the files has.
    pub fn copied_to(&self, home: &Home) -> Self {
        let schema = self.schema.as_ref().map(|from| {
            let to = new_schema(home);
            make_tables(&to);
            fill(from, &to);
            to
        });
        Self { home: home.clone(), schema }
    }

    /// The home.
    pub fn home(&self) -> &Home {
        &self.home
    }

    /// The file; `None` on a server.
    pub fn file(&self) -> Option<PathBuf> {
        self.schema.is_none().then(|| self.home.database())
    }

    /// What flock calls it in its output.
    pub fn name(&self) -> &str {
        self.schema.as_ref().map_or("flock.db", |schema| schema.0.as_str())
    }

    /// Executes a statement behind flock's back and returns how many rows it changed.
    pub fn execute(&self, statement: &str) -> u64 {
        match &self.schema {
            Some(schema) => schema.run(statement).count,
            None => self.open().execute(statement, ()).unwrap().try_into().unwrap(),
        }
    }

    /// Returns the number that a query gives.
    pub fn number(&self, query: &str) -> i64 {
        match &self.schema {
            Some(schema) => schema.run(query).number(),
            None => self.open().query_row(query, (), |row| row.get(0)).unwrap(),
        }
    }

    /// Returns `true` if a text is anywhere in it. The text must be one that needs no quoting.
    pub fn contains(&self, text: &str) -> bool {
        assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte)), "{text}");
        let Some(schema) = &self.schema else {
            let files = FILES.map(|file| std::fs::read(self.home.root().join(file)).unwrap_or_default());
            assert!(files.iter().any(|bytes| !bytes.is_empty()), "there is no database");
            return files.iter().any(|bytes| bytes.windows(text.len()).any(|part| part == text.as_bytes()));
        };
        let tables = schema.tables();
        assert!(tables.len() > 30, "there is no database: {tables:?}");
        let hex = flock::id::hex(text.as_bytes());
        let found = tables.iter().map(|table| {
            // Bytes are shown in hex.
            format!(
                "SELECT count(*) AS hits FROM \"{table}\" AS one
                 WHERE strpos(one::text, '{text}') > 0 OR strpos(one::text, '{hex}') > 0"
            )
        });
        let found = found.collect::<Vec<_>>().join(" UNION ALL ");
        schema.run(&format!("SELECT sum(hits) FROM ({found}) AS each_table")).number() > 0
    }

    /// Keeps the database as it is now. On SQLite, its files are copied into this folder.
    pub fn saved(&self, folder: &Path) -> SavedDatabase {
        let Some(schema) = &self.schema else {
            copy_files(self.home.root(), folder);
            return SavedDatabase::Files(folder.to_owned());
        };
        let saved = Schema(postgres::schema());
        let (from, to) = (&schema.0, &saved.0);
        postgres::run(&format!(
            "BEGIN ISOLATION LEVEL REPEATABLE READ; CREATE SCHEMA \"{to}\";
             DO $$ DECLARE name text; BEGIN
                 FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = '{from}' LOOP
                     EXECUTE format('CREATE TABLE %I.%I AS TABLE %I.%I', '{to}', name, '{from}', name);
                 END LOOP;
             END $$; COMMIT"
        ))
        .unwrap();
        SavedDatabase::Schema(saved)
    }

    /// Makes the database what it was then, while nobody uses it.
    pub fn bring_back(&self, saved: &SavedDatabase) {
        match (saved, &self.schema) {
            (SavedDatabase::Files(folder), _) => copy_files(folder, self.home.root()),
            (SavedDatabase::Schema(saved), Some(schema)) => fill(saved, schema),
            (SavedDatabase::Schema(_), None) => panic!("a schema is no file"),
        }
    }

    /// Holds it as another process that is writing does.
    pub fn locked(&self) -> LockedDatabase {
        let Some(schema) = &self.schema else {
            let holder = self.open();
            holder.execute_batch("BEGIN IMMEDIATE").unwrap();
            return LockedDatabase::File(holder);
        };
        // The key is the one of `Settings::lock_key`.
        let digest = Sha256::new().chain_update("the store of flock: ").chain_update(&schema.0).finalize();
        LockedDatabase::Server(HeldLock::take(i64::from_be_bytes(digest[..8].try_into().unwrap())))
    }

    /// Has no flock be able to open it, until [`Self::mend`]. Returns a part of what flock then says.
    pub fn spoil(&self) -> &'static str {
        let Some(schema) = &self.schema else {
            for file in FILES.map(|file| self.home.root().join(file)) {
                if file.exists() {
                    std::fs::rename(&file, aside(&file)).unwrap();
                }
            }
            std::fs::create_dir(self.home.database()).unwrap();
            return "flock.db";
        };
        make_tables(schema);
        // Without its version it looks new, and its tables can't be made once more.
        schema.run("ALTER TABLE schema_version RENAME TO kept_version");
        "failed to bring the database to version 1"
    }

    /// Undoes [`Self::spoil`].
    pub fn mend(&self) {
        let Some(schema) = &self.schema else {
            std::fs::remove_dir(self.home.database()).unwrap();
            for file in FILES.map(|file| self.home.root().join(file)) {
                if aside(&file).exists() {
                    std::fs::rename(aside(&file), file).unwrap();
                }
            }
            return;
        };
        schema.run("ALTER TABLE kept_version RENAME TO schema_version");
    }

    fn open(&self) -> rusqlite::Connection {
        let database = rusqlite::Connection::open(self.home.database()).unwrap();
        database.busy_timeout(LIMIT).unwrap();
        database
    }
}

impl Schema {
    fn run(&self, statements: &str) -> postgres::Answer {
        postgres::run(&format!("SET search_path TO \"{}\"; {statements}", self.0)).unwrap()
    }

    fn tables(&self) -> Vec<String> {
        let found = self.run("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()");
        found.rows.into_iter().filter_map(|row| row.into_iter().next().flatten()).collect()
    }
}

/// A database as it was at a moment.
pub enum SavedDatabase {
    /// The files, in this folder.
    Files(PathBuf),
    /// The tables, in another schema.
    Schema(Schema),
}

/// A database that is held until the value is dropped.
pub enum LockedDatabase {
    File(rusqlite::Connection),
    Server(HeldLock),
}

/// Has a home use a new schema.
fn new_schema(home: &Home) -> Schema {
    let schema = Schema(postgres::schema());
    name_schema(home, &schema);
    schema
}

/// Has a home use a schema, as a person does it by hand.
fn name_schema(home: &Home, schema: &Schema) {
    let (address, password) = postgres::sign_in(&postgres::address().expect("there is a server"));
    let document = json!({"postgres": address, "schema": schema.0}).to_string();
    atomic::write(&home.root().join("store.json"), document.as_bytes(), 0o600).unwrap();
    secret::set(home, "postgres", &password).unwrap();
}

/// Makes the tables of a schema, by a home that is gone afterwards.
fn make_tables(schema: &Schema) {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path().canonicalize().unwrap().join("home"), None);
    home.make_folders().unwrap();
    name_schema(&home, schema);
    // Not in the test's own runtime, if it is in one.
    std::thread::spawn(move || drop(Store::open(&home).unwrap())).join().unwrap();
}

/// Replaces all rows of a schema by those of another one, which is as it is at one moment.
fn fill(from: &Schema, to: &Schema) {
    let (from, to) = (&from.0, &to.0);
    // The rows refer to each other, and come in any order.
    postgres::run(&format!(
        "BEGIN ISOLATION LEVEL REPEATABLE READ; SET LOCAL session_replication_role = replica;
         DO $$ DECLARE one record; names text; BEGIN
             FOR one IN SELECT tablename FROM pg_tables WHERE schemaname = '{to}' LOOP
                 SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) INTO names FROM pg_attribute
                     WHERE attrelid = format('%I.%I', '{to}', one.tablename)::regclass
                     AND attnum > 0 AND NOT attisdropped AND attgenerated = '';
                 EXECUTE format('DELETE FROM %I.%I', '{to}', one.tablename);
                 EXECUTE format('INSERT INTO %I.%I (%s) OVERRIDING SYSTEM VALUE SELECT %s FROM %I.%I',
                     '{to}', one.tablename, names, names, '{from}', one.tablename);
             END LOOP;
             FOR one IN SELECT sequencename, last_value FROM pg_sequences
                 WHERE schemaname = '{from}' AND last_value IS NOT NULL LOOP
                 PERFORM setval(format('%I.%I', '{to}', one.sequencename), one.last_value);
             END LOOP;
         END $$; COMMIT"
    ))
    .unwrap();
}

/// Copies the files of a database from one folder to another one, also while it is in use.
fn copy_files(from: &Path, to: &Path) {
    for file in FILES {
        drop(std::fs::remove_file(to.join(file)));
        if from.join(file).exists() {
            std::fs::create_dir_all(to.join(file).parent().unwrap()).unwrap();
            let copied = Command::new("cp").arg("-a").args([from.join(file), to.join(file)]).status();
            assert!(copied.unwrap().success());
        }
    }
}

fn aside(file: &Path) -> PathBuf {
    file.with_file_name(format!("kept-{}", file.file_name().unwrap().to_string_lossy()))
}
