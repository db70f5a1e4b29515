//! A tool of the team: its specification, the function that does the work, and the service on which it works.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::provider::{BoxFuture, ToolSpec};
use crate::tool::arguments::Arguments;
use crate::tool::{CallContext, Tool, ToolError, ToolOutput};

/// The function of a tool. Its result is text for the model.
pub type TeamToolFn<S> =
    for<'a> fn(&'a Arc<S>, &'a CallContext, Arguments) -> BoxFuture<'a, Result<String, ToolError>>;

/// A tool of the team or of another service.
pub struct TeamTool<S> {
    spec: ToolSpec,
    service: Arc<S>,
    work: TeamToolFn<S>,
}

impl<S: Send + Sync + 'static> TeamTool<S> {
    /// Creates a tool with these parameters. `required` names those that must be given.
    pub fn shared(
        service: &Arc<S>,
        name: &str,
        description: &str,
        properties: &Value,
        required: &[&str],
        work: TeamToolFn<S>,
    ) -> Arc<dyn Tool> {
        let parameters = json!({"type": "object", "properties": properties, "required": required});
        let spec = ToolSpec {
            name: name.to_owned(),
            description: description.to_owned(),
            parameters: parameters.into(),
        };
        Arc::new(Self { spec, service: Arc::clone(service), work })
    }
}

impl<S: Send + Sync + 'static> Tool for TeamTool<S> {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call<'a>(
        &'a self,
        context: &'a CallContext,
        arguments: &'a Value,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let arguments = Arguments::new(arguments)?;
            // Cancellation is not checked. A change that has begun runs to its end: it takes milliseconds, and half of
            // it would be useless.
            (self.work)(&self.service, context, arguments).await.map(ToolOutput::text)
        })
    }
}
