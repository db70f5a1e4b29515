//! The Agent2Agent protocol: the home's agents for clients of other systems, over JSON-RPC and server-sent
//! events. Both versions in use are spoken, 1.0 and 0.3; a method's name says which one is.
//!
//! A request's way: [`rpc`] understands the call, [`request`] what it wants, [`serve`] does it, [`view`] says
//! what came of it in the words of its version. [`follow`] watches a task, [`stream`] tells of it.

pub mod card;
pub mod follow;
pub mod request;
pub mod rpc;
pub mod serve;
pub mod stream;
pub mod view;

/// A version of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// 0.3: parts and results name their `kind`, methods are like paths.
    V03,
    /// 1.0: the protocol's buffers written as JSON.
    V1,
}
