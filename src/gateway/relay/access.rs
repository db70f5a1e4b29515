//! Opens the relay for a turn: finds the model, and checks if the program can ask it.

use super::Relay;
use super::tickets::IssuedTokens;
use crate::error::Explain as _;
use crate::id::{AgentId, ModelRef};
use crate::runtime::program::model_access::{self, ModelAccess, ModelAccessError};
use crate::runtime::program::{AccessProvider, Program, RelayAccess, TurnAccess};
use crate::runtime::{RuntimeError, RuntimeRequest};

impl AccessProvider for Relay {
    fn has_provider(&self, model: &ModelRef) -> bool {
        let config = self.live.current();
        model_access::is_known(model, &config, self.catalog.describe(model, &config).is_ok())
    }

    fn open(
        &self,
        order: &RuntimeRequest,
        program: &dyn Program,
        own_login: bool,
    ) -> Result<TurnAccess, RuntimeError> {
        let config = self.live.current();
        let described = self.catalog.describe(&order.model, &config);
        let way = model_access::way(program, &order.model, &config, described, own_login);
        let wire = match way.map_err(|unable| no_model_error(&unable, program, order))? {
            ModelAccess::Relay(wire) => Some(wire),
            ModelAccess::OwnLogin => None,
        };
        // Without a wire format the program asks with its own login, and it gets no token for the relay.
        let IssuedTokens { relay, mcp, ticket, close } =
            self.tickets.open(order, wire.as_ref().map(|wire| wire.api));
        let relay = wire.zip(relay).map(|(wire, token)| RelayAccess {
            token,
            api: wire.api,
            context_window: wire.context_window,
            max_tokens: u64::from(wire.max_tokens),
        });
        Ok(TurnAccess {
            relay,
            mcp_token: mcp,
            host_origin: format!("http://127.0.0.1:{}", self.port),
            calls: ticket.calls.clone(),
            close: Box::new(close),
        })
    }
}

fn no_model_error(
    unable: &ModelAccessError,
    program: &dyn Program,
    RuntimeRequest { agent, model, .. }: &RuntimeRequest,
) -> RuntimeError {
    let hint = match unable {
        ModelAccessError::NoProvider(error) | ModelAccessError::NoKey(error) => {
            error.hint().unwrap_or_else(|| "flock doctor".to_owned())
        }
        ModelAccessError::Signed(_) | ModelAccessError::Unspoken(_) => other_model_hint(agent),
    };
    RuntimeError::NoModel {
        program: program.title().to_owned(),
        model: model.to_string(),
        reason: unable.reason(program, model),
        hint,
    }
}

fn other_model_hint(agent: &AgentId) -> String {
    format!("flock config set agents.list[{agent}].model.primary PROVIDER/MODEL")
}
