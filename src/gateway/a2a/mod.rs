//! The Agent2Agent protocol. It makes the agents of a home available to clients of other systems, over JSON-RPC and
//! server-sent events. It supports both versions in use, 1.0 and 0.3. The name of a method says which one is meant.
//!
//! Path of a request: [`rpc`] parses the call, [`request`] its parameters, [`dispatch`] carries it out, and [`view`] puts
//! the result into the form of its version. [`follow`] watches a task, and [`stream`] reports on it.

pub(crate) mod card;
pub(crate) mod dispatch;
pub(crate) mod follow;
pub(crate) mod request;
pub(crate) mod rpc;
pub(crate) mod stream;
pub(crate) mod view;

/// A version of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProtocolVersion {
    /// Version 0.3: parts and results have a `kind`, and methods look like paths.
    V03,
    /// Version 1.0: the messages are protocol buffers in their JSON form.
    V1,
}
