//! The command line: one file per verb, each with its help, its arguments and what it does.
