//! Opens the relay for a turn: finds the model, and checks if the program can ask it.

use super::Relay;
use super::tickets::Opened;
use crate::error::Explain as _;
use crate::id::{AgentId, ModelRef};
use crate::runtime::cli::asks::{self, Unable, Way};
use crate::runtime::cli::{Gate, Pass, Program, Relayed};
use crate::runtime::{Order, RuntimeError};

impl Gate for Relay {
    fn has_provider(&self, model: &ModelRef) -> bool {
        let config = self.live.current();
        asks::is_known(model, &config, self.catalog.describe(model, &config).is_ok())
    }

    fn open(&self, order: &Order, program: &dyn Program, own_login: bool) -> Result<Pass, RuntimeError> {
        let config = self.live.current();
        let described = self.catalog.describe(&order.model, &config);
        let way = asks::way(program, &order.model, &config, described, own_login);
        let wire = match way.map_err(|unable| refused(&unable, program, order))? {
            Way::Relay(wire) => Some(wire),
            Way::OwnLogin => None,
        };
        // Without a wire format the program asks with its own login, and it gets no token for the relay.
        let Opened { relay, mcp, ticket, close } =
            self.tickets.open(order, wire.as_ref().map(|wire| wire.api));
        let relay = wire.zip(relay).map(|(wire, token)| Relayed {
            token,
            api: wire.api,
            context_window: wire.context_window,
            max_tokens: u64::from(wire.max_tokens),
        });
        Ok(Pass {
            relay,
            mcp_token: mcp,
            host_origin: format!("http://127.0.0.1:{}", self.port),
            calls: ticket.calls.clone(),
            close: Box::new(close),
        })
    }
}

fn refused(unable: &Unable, program: &dyn Program, Order { agent, model, .. }: &Order) -> RuntimeError {
    let hint = match unable {
        Unable::NoProvider(error) | Unable::NoKey(error) => {
            error.hint().unwrap_or_else(|| "flock doctor".to_owned())
        }
        Unable::Signed(_) | Unable::Unspoken(_) => other_model(agent),
    };
    RuntimeError::NoModel {
        program: program.title(),
        model: model.to_string(),
        reason: unable.reason(program, model),
        hint,
    }
}

fn other_model(agent: &AgentId) -> String {
    format!("flock config set agents.list[{agent}].model.primary PROVIDER/MODEL")
}
