//! The tables of the two ends of a move, as each database describes them. Pure.
//!
//! Nothing here names a table of flock, so a new one is moved without a change here.

use std::collections::{BTreeMap, BTreeSet};

/// Tables that belong to one database alone: the versions of its schema, what is known of a move, the gateways that use it
/// with what they own, and the sign-ins that have begun at them. A gateway of the old database would be taken for one that
/// died, and a group of gateways is one of those that use this database.
pub(in crate::store) const NOT_MOVED: [&str; 10] = [
    "schema_version",
    "gateway",
    "gateway_group",
    "lease",
    "lease_change",
    "sign_in_code",
    "oidc_sign_in",
    super::state::STATE_TABLE,
    super::state::TABLES_TABLE,
    super::state::NOTE_TABLE,
];

/// The name of the column by which SQLite numbers the rows of most tables, though no such column was created.
const ROWID: &str = "rowid";

/// The kind of the values of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) enum ColumnKind {
    Integer,
    Real,
    Text,
    Blob,
}

impl ColumnKind {
    /// Returns the kind of a type, by the name that either database has for it.
    pub(in crate::store) fn of(name: &str) -> Option<Self> {
        Some(match name {
            "INTEGER" | "bigint" => Self::Integer,
            "REAL" | "double precision" => Self::Real,
            "TEXT" | "text" => Self::Text,
            "BLOB" | "bytea" => Self::Blob,
            _ => return None,
        })
    }
}

/// A table as its database describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::store) struct TableShape {
    pub(in crate::store) columns: BTreeMap<String, ColumnKind>,
    /// The columns of the primary key, in its order. A few tables have none.
    pub(in crate::store) key: Vec<String>,
    /// The tables that its rows refer to.
    pub(in crate::store) parents: BTreeSet<String>,
    /// Set if SQLite numbers its rows.
    pub(in crate::store) has_rowid: bool,
}

/// The tables of a database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::store) struct Catalog {
    tables: BTreeMap<String, TableShape>,
}

/// A table that is moved: the same on both ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MovedTable {
    pub(super) name: String,
    /// Sorted by name, which is the order in a digest.
    pub(super) columns: Vec<(String, ColumnKind)>,
    /// The places of the key's columns in `columns`. Without a primary key it is all of them.
    pub(super) key: Vec<usize>,
    pub(super) has_primary_key: bool,
}

impl Catalog {
    /// Returns the table of this name, to be filled. `None` if it is not moved.
    pub(in crate::store) fn table(&mut self, name: String) -> Option<&mut TableShape> {
        (!NOT_MOVED.contains(&name.as_str())).then(|| self.tables.entry(name).or_default())
    }

    /// Returns all tables as this end has them, each after those that its rows refer to.
    pub(super) fn all(&self) -> Vec<MovedTable> {
        let ordered = self.ordered();
        ordered.into_iter().filter_map(|name| Some(moved(name, self.tables.get(name)?))).collect()
    }

    /// Returns the names of the tables, each after those that its rows refer to.
    fn ordered(&self) -> Vec<&str> {
        let mut waiting: Vec<(&str, &TableShape)> =
            self.tables.iter().map(|(name, shape)| (name.as_str(), shape)).collect();
        let mut ordered: Vec<&str> = Vec::new();
        while !waiting.is_empty() {
            let is_free = |(name, shape): &(&str, &TableShape)| {
                shape.parents.iter().all(|parent| {
                    parent == name || ordered.contains(&parent.as_str()) || !self.tables.contains_key(parent)
                })
            };
            let (free, rest): (Vec<_>, Vec<_>) = waiting.into_iter().partition(is_free);
            // Tables that refer to each other would never become free. flock has none, and the database would refuse
            // their rows.
            let next = if free.is_empty() { &rest } else { &free };
            ordered.extend(next.iter().map(|(name, _)| *name));
            waiting = if free.is_empty() { Vec::new() } else { rest };
        }
        ordered
    }
}

/// Returns the tables of a move, each after those that its rows refer to.
///
/// # Errors
///
/// Returns a phrase that says in what the two ends differ.
pub(super) fn moved_tables(source: &Catalog, target: &Catalog) -> Result<Vec<MovedTable>, String> {
    let (mut source, mut target) = (source.clone(), target.clone());
    add_rowids(&mut source, &target);
    add_rowids(&mut target, &source);
    for (one, other, end) in [(&source, &target, "source"), (&target, &source, "target")] {
        if let Some(name) = one.tables.keys().find(|name| !other.tables.contains_key(*name)) {
            return Err(format!("the table {name} is in the {end} alone"));
        }
        for (name, shape) in &one.tables {
            let columns = other.tables.get(name).map(|shape| &shape.columns);
            let is_known = |column: &&String| columns.is_some_and(|columns| columns.contains_key(*column));
            if let Some(column) = shape.columns.keys().find(|column| !is_known(column)) {
                return Err(format!("the column {column} of {name} is in the {end} alone"));
            }
        }
    }
    for (name, shape) in &source.tables {
        let Some(other) = target.tables.get(name) else { continue };
        let differs = |column: &&String| shape.columns.get(*column) != other.columns.get(*column);
        if let Some(column) = shape.columns.keys().find(differs) {
            return Err(format!("the column {column} of {name} has values of two kinds"));
        }
        if shape.key != other.key {
            return Err(format!("the table {name} has two keys"));
        }
    }
    Ok(source.all())
}

/// Adds the column `rowid` to tables that have it without having created it, where the other end has created it.
fn add_rowids(catalog: &mut Catalog, other: &Catalog) {
    for (name, shape) in &mut catalog.tables {
        let is_column = other.tables.get(name).is_some_and(|shape| shape.columns.contains_key(ROWID));
        if shape.has_rowid && is_column {
            shape.columns.insert(ROWID.to_owned(), ColumnKind::Integer);
        }
    }
}

fn moved(name: &str, shape: &TableShape) -> MovedTable {
    let place = |column: &String| shape.columns.keys().position(|name| name == column);
    let mut key: Vec<usize> = shape.key.iter().filter_map(place).collect();
    let has_primary_key = !key.is_empty();
    if !has_primary_key {
        key = (0..shape.columns.len()).collect();
    }
    let columns = shape.columns.iter().map(|(name, kind)| (name.clone(), *kind)).collect();
    MovedTable { name: name.to_owned(), columns, key, has_primary_key }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(catalog: &mut Catalog, name: &str, columns: &[&str], key: &[&str], parents: &[&str]) {
        let shape = catalog.table(name.to_owned()).unwrap();
        shape.columns = columns.iter().map(|column| ((*column).to_owned(), ColumnKind::Text)).collect();
        shape.key = key.iter().map(|column| (*column).to_owned()).collect();
        shape.parents = parents.iter().map(|parent| (*parent).to_owned()).collect();
    }

    fn catalog() -> Catalog {
        let mut catalog = Catalog::default();
        add(&mut catalog, "a_child", &["x", "b", "a"], &["x", "a"], &["parent", "a_child"]);
        add(&mut catalog, "grandchild", &["y"], &[], &["a_child"]);
        add(&mut catalog, "parent", &["id"], &["id"], &["gone"]);
        catalog
    }

    #[test]
    fn a_table_follows_those_that_it_refers_to() {
        let tables = moved_tables(&catalog(), &catalog()).unwrap();
        let names: Vec<&str> = tables.iter().map(|table| table.name.as_str()).collect();
        assert_eq!(names, ["parent", "a_child", "grandchild"]);
        // The columns are sorted, and the key keeps its own order.
        assert_eq!(
            tables[1].columns.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(),
            ["a", "b", "x"]
        );
        assert_eq!((&*tables[1].key, tables[1].has_primary_key), (&[2, 0][..], true));
        assert_eq!((&*tables[2].key, tables[2].has_primary_key), (&[0][..], false));
    }

    #[test]
    fn tables_in_a_circle_do_not_hold_the_move_up() {
        let mut catalog = catalog();
        add(&mut catalog, "one", &["id"], &["id"], &["two"]);
        add(&mut catalog, "two", &["id"], &["id"], &["one"]);
        assert_eq!(catalog.all().len(), 5);
    }

    #[test]
    fn what_belongs_to_one_database_is_not_moved() {
        let mut catalog = catalog();
        for name in NOT_MOVED {
            assert!(catalog.table(name.to_owned()).is_none(), "{name}");
        }
        assert_eq!(catalog.all().len(), 3);
    }

    #[test]
    fn every_difference_of_the_ends_is_named() {
        let changed = |change: fn(&mut Catalog)| {
            let mut catalog = catalog();
            change(&mut catalog);
            catalog
        };
        let more = changed(|catalog| add(catalog, "new", &["id"], &["id"], &[]));
        let column = changed(|catalog| add(catalog, "parent", &["id", "name"], &["id"], &[]));
        let key = changed(|catalog| add(catalog, "a_child", &["x", "b", "a"], &["a", "x"], &["parent"]));
        let kind = changed(|catalog| {
            let shape = catalog.table("parent".to_owned()).unwrap();
            shape.columns.insert("id".to_owned(), ColumnKind::Integer);
        });
        for (other, said) in [
            (&more, "the table new is in the"),
            (&column, "the column name of parent is in the"),
            (&key, "the table a_child has two keys"),
            (&kind, "the column id of parent has values of two kinds"),
        ] {
            let (one, two) = (moved_tables(&catalog(), other), moved_tables(other, &catalog()));
            assert!(one.as_ref().is_err_and(|error| error.contains(said)), "{one:?}");
            assert!(two.as_ref().is_err_and(|error| error.contains(said)), "{two:?}");
        }
    }

    #[test]
    fn the_numbers_of_rows_are_moved_where_one_end_has_a_column_for_them() {
        let (mut file, mut server) = (catalog(), catalog());
        file.table("parent".to_owned()).unwrap().has_rowid = true;
        file.table("grandchild".to_owned()).unwrap().has_rowid = true;
        let shape = server.table("parent".to_owned()).unwrap();
        shape.columns.insert(ROWID.to_owned(), ColumnKind::Integer);
        for (source, target) in [(&file, &server), (&server, &file)] {
            let tables = moved_tables(source, target).unwrap();
            assert_eq!(tables[0].columns.len(), 2, "{tables:?}");
            assert_eq!(tables[2].columns.len(), 1, "{tables:?}");
        }
    }
}
