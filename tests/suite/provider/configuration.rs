//! From a model's name and the configuration to a provider.

use flock::config::model::{Api, ModelSettings, ProviderSettings};
use flock::error::Explain as _;
use flock::provider::catalog::known_models;
use flock::provider::{Catalog, Message, ProviderError, Role};

use super::{KEY, Stage, ask_with, config, hello, home};

fn settings(base_url: Option<&str>, api_key: Option<&str>, api: Option<Api>) -> ProviderSettings {
    ProviderSettings {
        base_url: base_url.map(str::to_owned),
        api_key: api_key.map(str::to_owned),
        api,
        models: vec![ModelSettings {
            reasoning: None,
            id: "org/big".into(),
            context_window: Some(9_000),
            max_tokens: Some(700),
            images: Some(true),
            tools: Some(true),
            cost: None,
        }],
    }
}

#[test]
fn what_is_not_configured_says_what_mends_it() {
    let (_folder, home) = home();
    let catalog = Catalog::new(home);
    let config = config([
        ("nourl", settings(None, None, None)),
        ("badurl", settings(Some("ftp://x/"), None, None)),
        ("nosecret", settings(Some("http://127.0.0.1:1/v1"), Some("secret:none"), None)),
        ("badkey", settings(Some("http://127.0.0.1:1/v1"), Some("a b\nc"), None)),
        ("cli", settings(Some("http://127.0.0.1:1/v1"), None, Some(Api::GoogleGeminiCli))),
    ]);
    for (model, reason, hint) in [
        ("never/heard", "no base URL", "flock config set models.providers.never.baseUrl URL"),
        ("nourl/x", "no base URL", "flock config set models.providers.nourl.baseUrl URL"),
        ("badurl/x", "not an http", "flock config set models.providers.badurl.baseUrl URL"),
        ("nosecret/x", "no secret named none", "flock config set models.providers.nosecret.apiKey -"),
        ("badkey/x", "characters", "flock config set models.providers.badkey.apiKey -"),
        ("cli/x", "sign-in with Google", "flock config set models.providers.cli.api google-generative-ai"),
        ("script/none.json", "none.json", "script/demo"),
        ("script/../../etc/passwd", "not the name of a script", "script/demo"),
    ] {
        let model = model.parse().unwrap();
        let error = catalog.describe(&model, &config).unwrap_err();
        assert!(matches!(error, ProviderError::NotConfigured { .. }));
        assert!(error.to_string().contains(reason), "{error}");
        assert!(error.hint().unwrap().contains(hint), "{:?}", error.hint());
        assert_eq!(catalog.resolve(&model, &config).err(), Some(error));
    }
}

#[test]
fn a_model_has_its_own_limits_or_those_of_its_provider() {
    let (_folder, home) = home();
    let catalog = Catalog::new(home);
    let config = config([
        ("mine", settings(Some("http://127.0.0.1:1/v1"), None, None)),
        ("anthropic", settings(None, Some(KEY), None)),
        ("openai", settings(None, Some(KEY), None)),
        ("google", settings(None, Some(KEY), None)),
        ("minimax", settings(None, Some(KEY), None)),
        ("amazon-bedrock", settings(None, Some("AKID:secret"), None)),
    ]);
    let resolve = |model: &str| catalog.resolve(&model.parse().unwrap(), &config).unwrap();
    let own = resolve("mine/org/big");
    assert_eq!((own.context_window, own.max_tokens, own.images), (9_000, 700, true));
    assert_eq!(own.label, "mine/org/big");
    assert!(!resolve("mine/other").images);
    assert_eq!(resolve("anthropic/claude-opus-4-5").context_window, 200_000);
    assert!(resolve("anthropic/claude-opus-4-5").images);
    assert_eq!(resolve("google/gemini-3-pro-preview").context_window, 1_048_576);
    assert_eq!(resolve("google/gemini-3-pro-preview").route.api, Api::GoogleGenerativeAi);
    assert_eq!(resolve("openai/gpt-5.2").route.api, Api::OpenAiResponses);
    assert_eq!(resolve("openai/gpt-4o").route.api, Api::OpenAiCompletions);
    assert_eq!(resolve("openai/gpt-5.4-mini").context_window, 400_000);
    assert_eq!(resolve("anthropic/claude-3-5-haiku-latest").max_tokens, 8_192);
    let minimax = resolve("minimax/MiniMax-M2.5");
    assert_eq!(
        (minimax.route.api, minimax.context_window, minimax.images),
        (Api::AnthropicMessages, 204_800, false)
    );
    let bedrock = resolve("amazon-bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0");
    assert_eq!(
        (bedrock.route.api, bedrock.max_tokens, bedrock.images),
        (Api::BedrockConverseStream, 32_000, true)
    );
    let script = resolve("script/demo");
    assert!(script.label.contains("scripted, not a model"), "{}", script.label);
    assert!(catalog.describe(&"ollama/qwen3:8b".parse().unwrap(), &config).is_ok(), "needs no key");
}

#[tokio::test]
async fn a_server_of_ones_own_needs_no_key() {
    let mut stage = Stage::new(Api::OpenAiCompletions);
    stage.config.providers.get_mut("test").unwrap().api_key = None;
    stage.ask(&hello()).await.0.unwrap();
    assert_eq!(stage.server.requests()[0].header("authorization"), "");
}

#[tokio::test]
async fn a_key_comes_from_the_homes_secrets() {
    let (_folder, home) = home();
    std::fs::write(home.secrets().join("test"), format!("{KEY}\n")).unwrap();
    let stage = Stage::new(Api::OpenAiCompletions);
    let mut config = stage.config.clone();
    config.providers.get_mut("test").unwrap().api_key = None;
    let resolved = Catalog::new(home).resolve(&"test/m".parse().unwrap(), &config).unwrap();
    resolved.provider.call(&hello(), &mut |_| {}).await.unwrap();
    assert_eq!(stage.server.requests()[0].header("authorization"), format!("Bearer {KEY}"));
}

#[tokio::test]
async fn a_script_of_ones_own_is_played() {
    let (_folder, home) = home();
    let text = r#"{"replies": [{"when": "ping", "steps": [{"say": "pong"}]}]}"#;
    std::fs::write(home.scripts().join("ping.json"), text).unwrap();
    let catalog = Catalog::new(home);
    let model = "script/ping.json".parse().unwrap();
    let resolved = catalog.resolve(&model, &config([])).unwrap();
    let request = ask_with(vec![Message::text(Role::User, "ping?")]);
    let answer = resolved.provider.call(&request, &mut |_| {}).await.unwrap();
    assert_eq!(answer.content, [super::text("pong")]);
}

/// An entry that says one thing of a well-known model leaves the others as they are known.
#[test]
fn what_an_entry_does_not_say_is_known_of_the_model_all_the_same() {
    let (_folder, home) = home();
    let entry = |id: &str| ModelSettings {
        id: id.to_owned(),
        context_window: Some(9_000),
        max_tokens: None,
        images: None,
        reasoning: None,
        tools: None,
        cost: None,
    };
    let models = ["gemma-3-27b-it", "gemini-2.5-pro", "x"].map(entry).to_vec();
    let google = ProviderSettings { models, ..settings(None, Some("k"), None) };
    let lab = ProviderSettings {
        models: vec![entry("own")],
        ..settings(Some("http://127.0.0.1:1/v1"), None, None)
    };
    let config = config([("google", google), ("lab", lab)]);
    let calls = |model: &str| known_models::supports_tools(&config, &model.parse().unwrap());
    assert!(!calls("google/gemma-3-27b-it"), "it calls tools in text");
    assert!(calls("google/gemini-2.5-pro") && calls("lab/own"));
    let catalog = Catalog::new(home);
    let resolved = |model: &str| catalog.resolve(&model.parse().unwrap(), &config).unwrap();
    let gemini = resolved("google/gemini-2.5-pro");
    assert_eq!((gemini.context_window, gemini.images), (9_000, true));
    assert!(gemini.max_tokens > 4_096, "{}", gemini.max_tokens);
    assert!(resolved("lab/own").images, "where nobody says, it is taken to read images");
}
