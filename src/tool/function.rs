//! A tool that consists of its definition, a service and a function that works on it.

use std::sync::Arc;

use serde_json::Value;

use super::arguments::Arguments;
use super::{CallContext, Tool, ToolDefinition, ToolError, ToolOutput, ToolResult};
use crate::provider::{BoxFuture, ToolSpec};

/// The function of a tool.
pub(crate) type ToolFn<S, O> =
    for<'a> fn(&'a Arc<S>, &'a CallContext, Arguments) -> BoxFuture<'a, ToolResult<O>>;

/// A tool with its function.
pub(crate) struct FunctionTool<S: ?Sized, O> {
    spec: ToolSpec,
    aliases: &'static [&'static str],
    service: Arc<S>,
    work: ToolFn<S, O>,
}

impl<S, O> FunctionTool<S, O>
where
    S: ?Sized + Send + Sync + 'static,
    O: Into<ToolOutput> + 'static,
{
    /// Creates a tool.
    pub fn shared(
        definition: &'static ToolDefinition,
        service: &Arc<S>,
        work: ToolFn<S, O>,
    ) -> Arc<dyn Tool> {
        // Made once: the schema is serialised here, and each request of each agent contains it.
        let (spec, aliases) = (definition.spec(), definition.aliases);
        Arc::new(Self { spec, aliases, service: Arc::clone(service), work })
    }
}

impl<S, O> Tool for FunctionTool<S, O>
where
    S: ?Sized + Send + Sync + 'static,
    O: Into<ToolOutput> + 'static,
{
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn aliases(&self) -> &[&str] {
        self.aliases
    }

    fn call<'a>(
        &'a self,
        context: &'a CallContext,
        arguments: &'a Value,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let arguments = Arguments::new(arguments)?;
            // Cancellation is left to the function, which knows what has to be reported to the model.
            (self.work)(&self.service, context, arguments).await.map(Into::into)
        })
    }
}

/// Runs work that may block outside of the async worker threads.
///
/// # Errors
///
/// Returns the error of the work, and [`ToolError::Fatal`] if the work panics.
pub(crate) async fn blocking<O: Send + 'static>(
    work: impl FnOnce() -> Result<O, ToolError> + Send + 'static,
) -> Result<O, ToolError> {
    let job = tokio::task::spawn_blocking(work).await;
    job.unwrap_or_else(|failure| Err(ToolError::Fatal(Box::new(failure))))
}
