//! The command line from outside: the real binary in a home of its own. Exit code, stdout and stderr are
//! compared with checked-in snapshots; paths, ports, ids and times in them are replaced.

mod add;
mod audit;
mod backup;
mod bridge;
mod bundle;
mod chat;
mod completions;
mod config;
mod doctor;
mod edit;
mod freeze;
mod generations;
mod handover;
mod init;
mod killed;
mod mcp;
mod own_update;
mod person;
mod programs;
mod prompt;
mod receipt;
mod reference;
mod remove;
mod replay;
mod request;
mod search;
mod session;
mod silent;
mod sim;
mod skill;
mod start_up;
mod terminal;
mod token;
mod top;
mod uninstall;
