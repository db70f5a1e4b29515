//! `flock_audit`: the sysadmin reads what was done by whom.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::provider::{BoxFuture, ToolSpec};
use crate::store::{AuditFilter, AuditRow, Level, MAX_AUDIT_ROWS};
use crate::swarm::Swarm;
use crate::swarm::SwarmError;
use crate::tool::arguments::Arguments;
use crate::tool::{CallContext, Tool, ToolError, ToolOutput};

/// The tools of this subject.
#[must_use]
pub fn all(swarm: &Arc<Swarm>) -> Vec<Arc<dyn Tool>> {
    let text = json!({"type": "string"});
    let spec = ToolSpec {
        name: "flock_audit".to_owned(),
        description: "Read what was done by whom, newest first.".to_owned(),
        parameters: json!({
            "type": "object",
            "properties": {
                "agentId": text,
                "level": {"type": "string", "enum": ["GREEN", "YELLOW", "RED"]},
                "limit": {"type": "integer"}
            }
        }),
    };
    vec![Arc::new(Audit { spec, swarm: Arc::clone(swarm) })]
}

struct Audit {
    spec: ToolSpec,
    swarm: Arc<Swarm>,
}

impl Tool for Audit {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call<'a>(
        &'a self,
        _context: &'a CallContext,
        arguments: &'a Value,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let arguments = Arguments::new(arguments)?;
            let level = arguments.optional::<String>("level")?.filter(|level| !level.is_empty());
            let level = level
                .map(|level| level.parse::<Level>())
                .transpose()
                .map_err(|reason| ToolError::model(format!("level: {reason}")))?;
            let filter = AuditFilter {
                actor: arguments.optional::<String>("agentId")?.filter(|actor| !actor.is_empty()),
                level,
                ..AuditFilter::default()
            };
            let limit = arguments.optional::<u32>("limit")?.unwrap_or(20).clamp(1, MAX_AUDIT_ROWS);
            let store = Arc::clone(self.swarm.store());
            let rows = match tokio::task::spawn_blocking(move || store.audit_rows(&filter, limit)).await {
                Ok(rows) => rows.map_err(SwarmError::from)?,
                Err(failure) => return Err(ToolError::Fatal(Box::new(failure))),
            };
            if rows.is_empty() {
                return Ok(ToolOutput::text("there is nothing like that in the audit"));
            }
            Ok(ToolOutput::text(rows.iter().map(line).collect::<Vec<_>>().join("\n")))
        })
    }
}

/// One row on one line: whatever is in it, it can't begin a line of its own.
fn line(row: &AuditRow) -> String {
    let time = jiff::Timestamp::from_millisecond(row.at).unwrap_or_default();
    let time = time.strftime("%Y-%m-%dT%H:%M:%SZ");
    let AuditRow { id, actor, action, subject, level, detail, .. } = row;
    let text = format!("{id} {time} {level} {actor} {action} {subject}");
    let text = if detail.is_empty() { text } else { format!("{text}: {detail}") };
    text.chars().map(|c| if is_plain(c) { c } else { ' ' }).collect()
}

/// Whether a character may stand in a line: neither a control character nor one that turns the direction.
fn is_plain(c: char) -> bool {
    !c.is_control() && !matches!(c, '\u{2028}' | '\u{2029}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}
