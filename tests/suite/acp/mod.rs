//! `flock acp` as an editor sees it: the real binary, driven by the client side of the official crate.

mod channels;
mod editor;
mod odd_input;
mod permissions;
mod prompts;
mod sessions;
