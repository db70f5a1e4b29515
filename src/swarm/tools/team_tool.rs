//! A tool of the team: its specification, the function that does its work, and what that works on.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::provider::{BoxFuture, ToolSpec};
use crate::tool::arguments::Arguments;
use crate::tool::{CallContext, Tool, ToolError, ToolOutput};

/// Does the work; what it gives is for the model.
pub type Work<S> =
    for<'a> fn(&'a Arc<S>, &'a CallContext, Arguments) -> BoxFuture<'a, Result<String, ToolError>>;

/// A tool of the team, or of another service.
pub struct TeamTool<S> {
    spec: ToolSpec,
    service: Arc<S>,
    work: Work<S>,
}

impl<S: Send + Sync + 'static> TeamTool<S> {
    /// A tool with these parameters, of which some are required.
    pub fn shared(
        service: &Arc<S>,
        name: &str,
        description: &str,
        properties: &Value,
        required: &[&str],
        work: Work<S>,
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
            // A change that was begun is ended: it is a matter of milliseconds, and half of one is nothing.
            (self.work)(&self.service, context, arguments).await.map(ToolOutput::text)
        })
    }
}
