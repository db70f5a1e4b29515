//! Decides which models receive an agent's reasoning effort.
//!
//! A model that does not reason receives none, because its provider may refuse any field about reasoning. For a model
//! that flock does not know, the wire format decides.

use super::catalog::known_models::reasons;
use crate::config::{Agent, Config, Effort};

/// Returns the effort that a model receives. `reasons` is `Some(false)` if the model is known not to reason.
#[must_use]
pub fn effective(reasons: Option<bool>, effort: Option<Effort>) -> Option<Effort> {
    effort.filter(|_| reasons != Some(false))
}

/// Returns one warning for each agent with an effort that one of its models does not support.
#[must_use]
pub fn warnings(config: &Config) -> Vec<String> {
    // An agent with the effort "off" gets what it wants from a model that does not reason.
    let wants = |agent: &&Agent| agent.effort.is_some_and(|effort| effort != Effort::Off);
    let agents = config.agents.iter().filter(wants);
    let pairs = agents.flat_map(|agent| agent.models().map(move |model| (agent, model)));
    let idle = pairs.filter(|(_, model)| reasons(config, model) == Some(false));
    idle.map(|(agent, model)| {
        format!(
            "the effort of agent {} has no effect with {model}, which does not reason: take it away, or say that the \
             model does (models.providers.{}.models[].reasoning)",
            agent.id,
            model.provider()
        )
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::home::Home;

    fn config(model: &str, effort: &str, reasoning: Option<bool>) -> Config {
        let (provider, name) = model.split_once('/').unwrap();
        let models = reasoning.map(|reasoning| json!([{"id": name, "reasoning": reasoning}]));
        let document = json!({
            "gateway": {"auth": {"token": "t"}},
            "agents": {"defaults": {"model": {"primary": model}}},
            "models": {"providers": {provider: {"models": models.unwrap_or_else(|| json!([]))}}},
            "plugins": {"entries": {"flock": {"config": {"gatewayAgents": [
                {"id": "coder", "role": "worker", "effort": effort},
            ]}}}},
        });
        crate::config::parse::config(&document, &Home::new("/nowhere".into(), None)).unwrap()
    }

    #[test]
    fn only_reasoning_models_get_the_effort_and_others_cause_a_warning() {
        let high = Some(Effort::High);
        for (model, effort, reasoning, expected) in [
            ("anthropic/claude-opus-4-5", "high", None, high),
            ("anthropic/claude-3-5-haiku-latest", "high", None, None),
            ("openai/gpt-4o", "high", None, None),
            ("amazon-bedrock/us.amazon.nova-pro-v1:0", "high", None, None),
            ("amazon-bedrock/us.amazon.nova-2-lite-v1:0", "high", None, high),
            ("lab/qwen3", "high", None, high),
            ("lab/qwen3", "high", Some(false), None),
            ("openai/gpt-4o", "high", Some(true), high),
        ] {
            let config = config(model, effort, reasoning);
            let agent = &config.agents[0];
            let reasons = reasons(&config, agent.model.as_ref().unwrap());
            assert_eq!(effective(reasons, agent.effort), expected, "{model} {reasoning:?}");
            let warnings = warnings(&config);
            assert_eq!(warnings.len(), usize::from(expected.is_none()), "{warnings:?}");
            assert!(
                warnings.iter().all(|text| text.contains("coder") && text.contains(model)),
                "{warnings:?}"
            );
        }
        assert_eq!(warnings(&config("openai/gpt-4o", "off", None)), Vec::<String>::new());
    }
}
