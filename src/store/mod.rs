//! The database: all SQL and its migrations.
