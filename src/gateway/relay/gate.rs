//! Opens the way for a turn: the model is found, and whether the program can ask it.

use super::Relay;
use super::tickets::Opened;
use crate::config::{Api, Config};
use crate::error::Explain as _;
use crate::id::{AgentId, ModelRef};
use crate::provider::catalog;
use crate::runtime::cli::{Gate, Pass, Program, Relayed};
use crate::runtime::{Order, RuntimeError};

impl Gate for Relay {
    fn has_provider(&self, model: &ModelRef) -> bool {
        self.knows(model, &self.live.current())
    }

    fn open(&self, order: &Order, program: &dyn Program, own_login: bool) -> Result<Pass, RuntimeError> {
        let config = self.live.current();
        let wire = if own_login && !self.knows(&order.model, &config) {
            None
        } else {
            Some(self.wire(order, program, &config)?)
        };
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

impl Relay {
    /// Whether this home has the model's provider: it is configured, or its key is there.
    fn knows(&self, model: &ModelRef, config: &Config) -> bool {
        let settings = config.providers.get(model.provider());
        model.is_script()
            || settings.is_some_and(|settings| settings.base_url.is_some() || settings.api_key.is_some())
            || self.catalog.describe(model, config).is_ok()
    }

    /// How the model is asked, if this program can ask it through the relay.
    fn wire(
        &self,
        Order { agent, model, .. }: &Order,
        program: &dyn Program,
        config: &Config,
    ) -> Result<catalog::Wire, RuntimeError> {
        let refused = |reason: String, hint: String| RuntimeError::NoModel {
            program: program.title(),
            model: model.to_string(),
            reason,
            hint,
        };
        let described = catalog::wire(model, config).and_then(|wire| {
            self.catalog.describe(model, config)?;
            Ok(wire)
        });
        let wire = described.map_err(|error| {
            let hint = error.hint().unwrap_or_else(|| "flock doctor".to_owned());
            refused(error.to_string(), hint)
        })?;
        if !is_passed_on(wire.api) {
            let reason = format!(
                "{} is asked as {}, where each request is signed by itself and can't be passed on",
                model.provider(),
                wire.api.as_str()
            );
            return Err(refused(reason, other_model(agent)));
        }
        if !program.speaks(wire.api) {
            let (provider, api) = (model.provider(), wire.api.as_str());
            let reason = format!("{provider} is asked as {api}, which {} does not speak", program.title());
            return Err(refused(reason, other_model(agent)));
        }
        Ok(wire)
    }
}

/// Whether requests of this wire format can be passed on.
pub(super) const fn is_passed_on(api: Api) -> bool {
    !matches!(api, Api::BedrockConverseStream | Api::GoogleGeminiCli)
}

fn other_model(agent: &AgentId) -> String {
    format!("flock config set agents.list[{agent}].model.primary PROVIDER/MODEL")
}
