//! A tool of the team: its specification and the function that does its work.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::provider::{BoxFuture, ToolSpec};
use crate::swarm::Swarm;
use crate::tool::arguments::Arguments;
use crate::tool::{CallContext, Tool, ToolError, ToolOutput};

/// Does the work; what it gives is for the model.
pub type Work = for<'a> fn(&'a Swarm, &'a CallContext, Arguments) -> BoxFuture<'a, Result<String, ToolError>>;

/// A tool of the team.
pub struct TeamTool {
    spec: ToolSpec,
    swarm: Arc<Swarm>,
    work: Work,
}

impl TeamTool {
    /// A tool with these parameters, of which some are required.
    pub fn shared(
        swarm: &Arc<Swarm>,
        name: &str,
        description: &str,
        properties: &Value,
        required: &[&str],
        work: Work,
    ) -> Arc<dyn Tool> {
        let parameters = json!({"type": "object", "properties": properties, "required": required});
        let spec = ToolSpec { name: name.to_owned(), description: description.to_owned(), parameters };
        Arc::new(Self { spec, swarm: Arc::clone(swarm), work })
    }
}

impl Tool for TeamTool {
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
            (self.work)(&self.swarm, context, arguments).await.map(ToolOutput::text)
        })
    }
}
