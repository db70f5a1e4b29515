//! Built-in knowledge about well-known models, from the table `models.json`. The configuration of a model takes
//! precedence.
//!
//! A name in the table is a model's name without its release date. A name that ends with `*` is a prefix. Each field
//! comes from the best matching name that has it.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

use crate::config::Config;
use crate::id::ModelRef;

/// Published prices in dollars per million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ListedPrice {
    /// Input tokens that touch no cache.
    pub input: f64,
    /// Output tokens, including the reasoning.
    pub output: f64,
    /// Input tokens read from the provider's cache.
    #[serde(default)]
    pub cache_read: f64,
    /// Input tokens written to the provider's cache.
    #[serde(default)]
    pub cache_write: f64,
}

/// The known facts about a model; `None` means unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ModelFacts {
    /// Context window in tokens.
    pub context: Option<u64>,
    /// Maximum tokens of an answer.
    pub answer: Option<u32>,
    /// `true` if the model accepts pictures.
    pub images: Option<bool>,
    /// `true` if the model can reason before it answers.
    pub reasoning: Option<bool>,
    /// `true` if the model supports tool calls in its API.
    pub tools: Option<bool>,
    /// Published price.
    pub cost: Option<ListedPrice>,
}

impl ModelFacts {
    fn or(self, other: Self) -> Self {
        Self {
            context: self.context.or(other.context),
            answer: self.answer.or(other.answer),
            images: self.images.or(other.images),
            reasoning: self.reasoning.or(other.reasoning),
            tools: self.tools.or(other.tools),
            cost: self.cost.or(other.cost),
        }
    }
}

/// The table. Its file also says for people when and where the prices were noted.
#[derive(Debug, Default, Deserialize)]
struct Table {
    models: BTreeMap<String, BTreeMap<String, ModelFacts>>,
}

const TABLE_JSON: &str = include_str!("models.json");

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    // A test ensures that the table can be parsed.
    serde_json::from_str(TABLE_JSON).unwrap_or_default()
});

/// Returns the known facts about a model. All are unknown for a model that is not in the table.
#[must_use]
pub fn of(model: &ModelRef) -> ModelFacts {
    let Some(models) = TABLE.models.get(model.provider()) else { return ModelFacts::default() };
    let name = table_name(model);
    // An exact name goes before a name without its date, and both go before a prefix.
    let own = models.get(name).or_else(|| models.get(without_date(name))).copied().unwrap_or_default();
    let mut beginnings: Vec<(&str, ModelFacts)> = models
        .iter()
        .filter_map(|(pattern, listed)| Some((pattern.strip_suffix('*')?, *listed)))
        .filter(|(beginning, _)| name.starts_with(beginning))
        .collect();
    // The longest prefix is the most specific one.
    beginnings.sort_by_key(|(beginning, _)| std::cmp::Reverse(beginning.len()));
    beginnings.into_iter().fold(own, |known, (_, listed)| known.or(listed))
}

/// Returns `true` if a model supports tool calls in its API. Other models get instructions to write calls as text.
#[must_use]
pub fn supports_tools(config: &Config, model: &ModelRef) -> bool {
    config.model(model).and_then(|own| own.tools).or_else(|| of(model).tools).unwrap_or(true)
}

/// Returns `true` if a model reasons, from the configuration or else from the table; `None` if neither says.
#[must_use]
pub fn reasons(config: &Config, model: &ModelRef) -> Option<bool> {
    config.model(model).and_then(|own| own.reasoning).or_else(|| of(model).reasoning)
}

/// Returns `true` if the provider's models are listed and this one is not among them. Its name may be misspelt.
#[must_use]
pub(crate) fn is_strange(model: &ModelRef) -> bool {
    let Some(models) = TABLE.models.get(model.provider()) else { return false };
    let name = table_name(model);
    let fits = |pattern: &String| match pattern.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => pattern == name || pattern == without_date(name),
    };
    !models.keys().any(fits)
}

/// Returns the name that the table uses. Bedrock's ids have a region before it and a version after it.
fn table_name(model: &ModelRef) -> &str {
    let name = model.model();
    if model.provider() != "amazon-bedrock" {
        return name;
    }
    let name = name.rsplit('/').next().unwrap_or(name);
    // Inference profiles have the region before the maker's name.
    let name = match name.split_once('.') {
        Some(("us" | "eu" | "apac" | "jp" | "au" | "ca" | "global" | "us-gov", rest)) => rest,
        _ => name,
    };
    let is_version =
        |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b':');
    match name.rsplit_once("-v") {
        Some((start, version)) if is_version(version) => start,
        _ => name,
    }
}

/// Returns a model's name without its release date, because providers offer a model under both names.
fn without_date(name: &str) -> &str {
    let is_day = |text: &str| {
        let digits = text.bytes().filter(u8::is_ascii_digit).count();
        digits == 8 && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')
    };
    // `20250219` and `2025-02-19`.
    for length in [8, 10] {
        let Some(at) = name.len().checked_sub(length + 1) else { continue };
        if let Some((start, end)) = name.split_at_checked(at)
            && let Some(day) = end.strip_prefix('-')
            && is_day(day)
        {
            return start;
        }
    }
    // An alias of the newest release has the properties of the model itself.
    name.strip_suffix("-latest").unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(model: &str) -> ModelFacts {
        of(&model.parse().unwrap())
    }

    #[test]
    fn the_table_parses_and_its_values_are_plausible() {
        let whole: serde_json::Value = serde_json::from_str(TABLE_JSON).unwrap();
        assert!(whole["costsAsOf"].is_string());
        assert!(TABLE.models.len() > 8);
        for (provider, models) in &TABLE.models {
            let source = whole["sources"][provider].as_str().unwrap_or_default();
            assert!(source.starts_with("https://"), "{provider}");
            for (model, listed) in models {
                let name = format!("{provider}/{model}");
                assert!(listed.context.is_none_or(|tokens| (8_000..=10_000_000).contains(&tokens)), "{name}");
                let Some(cost) = listed.cost else { continue };
                for price in [cost.input, cost.output, cost.cache_read, cost.cache_write] {
                    assert!((0.0..=200.0).contains(&price), "{name}");
                }
                assert!(cost.cache_read <= cost.input, "{name}");
            }
        }
    }

    #[test]
    fn each_field_comes_from_the_most_specific_entry_that_has_it() {
        let haiku = listed("anthropic/claude-3-5-haiku-20241022");
        assert_eq!((haiku.context, haiku.answer, haiku.images), (Some(200_000), Some(8_192), Some(true)));
        assert_eq!((haiku.reasoning, haiku.cost.unwrap().output), (Some(false), 4.0));
        assert_eq!(listed("anthropic/claude-3-haiku-20240307").answer, Some(4_096));
        assert_eq!(listed("openai/gpt-5.4-mini").context, Some(400_000));
        assert_eq!(listed("openai/gpt-4o-2024-08-06").cost, listed("openai/gpt-4o").cost);
        assert_eq!(listed("lab/qwen3"), ModelFacts::default());
    }

    #[test]
    fn bedrocks_ids_are_known_by_their_model() {
        for model in [
            "amazon-bedrock/anthropic.claude-sonnet-4-5-20250929-v1:0",
            "amazon-bedrock/global.anthropic.claude-sonnet-4-5-20250929-v1:0",
            "amazon-bedrock/arn:aws:bedrock:us-east-1:1:inference-profile/us.anthropic.claude-sonnet-4-5-20250929-v1:0",
        ] {
            let known = listed(model);
            assert_eq!(
                (known.context, known.cost.map(|cost| cost.input)),
                (Some(200_000), Some(3.3)),
                "{model}"
            );
        }
    }

    #[test]
    fn an_unlisted_model_of_a_listed_provider_is_unknown() {
        let strange = |model: &str| is_strange(&model.parse().unwrap());
        for model in ["anthropic/claud-opus", "openai/davinci", "mistral/mixed", "minimax/abab"] {
            assert!(strange(model), "{model}");
        }
        for model in
            ["anthropic/claude-opus-9", "ollama/anything", "openrouter/x/y", "lab/qwen3", "script/demo"]
        {
            assert!(!strange(model), "{model}");
        }
    }
}
