use proptest::prelude::*;

use super::*;
use crate::config::Api;
use crate::provider::wire_format;

fn read(body: &str, api: Api) -> Result<RequestBody, String> {
    RequestBody::read(Bytes::copy_from_slice(body.as_bytes()), wire_format::of(api).relay.unwrap())
}

fn to(body: &str, api: Api) -> String {
    String::from_utf8(read(body, api).unwrap().to("a/b \"c\"", 1_000).to_vec()).unwrap()
}

#[test]
fn the_agents_model_is_written_in_and_nothing_else_is_touched() {
    let name = r#""a/b \"c\"""#;
    for (body, expected) in [
        (r#"{"model":"x","top_k":1}"#.to_owned(), format!(r#"{{"model":{name},"top_k":1}}"#)),
        (
            "\n {\"system\": [1, {\"model\": \"in\"}] , \"mod\\u0065l\" : null ,\"top_p\":1.50, \"é\": null}\n"
                .to_owned(),
            format!(
                "\n {{\"system\": [1, {{\"model\": \"in\"}}] , \"mod\\u0065l\" : {name} ,\"top_p\":1.50, \"é\": null}}\n"
            ),
        ),
        (r#"{"top_k": 1}"#.to_owned(), format!(r#"{{"model":{name},"top_k": 1}}"#)),
        ("{ }".to_owned(), format!(r#"{{"model":{name} }}"#)),
    ] {
        assert_eq!(to(&body, Api::AnthropicMessages), expected);
    }
    let google = Api::GoogleGenerativeAi;
    assert_eq!(to(r#"{"contents":[]}"#, google), r#"{"contents":[]}"#);
    assert_eq!(to(r#"{"model":"models/x"}"#, google), r#"{"model":"models/a/b \"c\""}"#);
}

#[test]
fn no_other_model_can_be_named() {
    for body in [
        r#"{"model":"x","model":"y"}"#,
        r#"{"model":"x","Model":"y"}"#,
        r#"{"MODEL":"y"}"#,
        r#"{"model":"x","models":["y"]}"#,
        r#"{"model":"x","mod\u0065l":"y"}"#,
        "[]",
        "",
        "{} {}",
        r#"{"model""#,
        "null",
    ] {
        assert!(read(body, Api::OpenAiCompletions).is_err(), "{body}");
    }
}

#[test]
fn the_models_limits_are_written_in_beside_its_name() {
    let sent = |body: &str, api| {
        let sent = read(body, api).unwrap().to("m", 500);
        String::from_utf8(sent.to_vec()).unwrap()
    };
    assert_eq!(
        sent(r#"{"max_tokens":900,"top_p":[1.0],"model":"asked"}"#, Api::AnthropicMessages),
        r#"{"max_tokens":500,"top_p":[1.0],"model":"m"}"#
    );
    assert_eq!(
        sent(r#"{"generationConfig":{"maxOutputTokens":501}}"#, Api::GoogleGenerativeAi),
        r#"{"generationConfig":{"maxOutputTokens":500}}"#
    );
    assert_eq!(sent(r#"{"max_tokens":1e3}"#, Api::OpenAiCompletions), r#"{"model":"m","max_tokens":500}"#);
}

fn input(body: &str, api: Api, model: &str) -> u64 {
    read(body, api).unwrap().input(model, 100_000)
}

#[test]
fn a_picture_is_charged_as_the_most_that_one_takes_and_everything_else_by_its_size() {
    let data = "QUJD".repeat(100_000);
    let url = format!(r#"{{"messages":[{{"image_url":"data:image/png;base64,{data}","text":"abcd"}}]}}"#);
    for (model, most) in [("gpt-5", 20_000), ("vendor/gpt-4o-mini", 50_000)] {
        let tokens = input(&url, Api::OpenAiCompletions, model);
        assert!((most..most + 40).contains(&tokens), "{tokens}");
    }
    // The same letters in any other place are text.
    let text = format!(r#"{{"messages":[{{"text":"{data}"}}]}}"#);
    let tokens = input(&text, Api::OpenAiCompletions, "gpt-5");
    assert!((100_000..100_020).contains(&tokens), "{tokens}");
    let file = format!(r#"{{"messages":[{{"file_data":"{}"}}]}}"#, &data[..50_000]);
    let tokens = input(&file, Api::OpenAiCompletions, "gpt-5");
    assert!((50_000..50_020).contains(&tokens), "{tokens}");
    let words = "word ".repeat(1_000);
    let tokens = input(&format!(r#"{{"system":"{words}"}}"#), Api::AnthropicMessages, "claude");
    assert!((1_250..1_260).contains(&tokens), "{tokens}");
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(written) = RequestBody::read(bytes.into(), wire_format::of(Api::OpenAiCompletions).relay.unwrap()) {
            let sent = written.to("m", 1_000);
            let sent: Value = serde_json::from_slice(&sent).unwrap();
            prop_assert_eq!(&sent["model"], "m");
        }
    }

    #[test]
    fn the_model_is_the_one_of_the_agent(
        before in "\\PC{0,12}", asked in "\\PC{0,12}", after in prop::collection::vec("[a-z]{1,8}", 0..4),
    ) {
        let mut body = serde_json::Map::new();
        body.insert("instructions".into(), before.into());
        body.insert("model".into(), asked.into());
        body.insert("metadata".into(), after.into_iter().map(|name| (name, Value::from(1.5))).collect());
        let mut expected = body.clone();
        expected.insert("model".into(), "m".into());
        let text = Value::Object(body).to_string();
        let sent = read(&text, Api::OpenAiResponses).unwrap().to("m", 1_000);
        prop_assert_eq!(String::from_utf8(sent.to_vec()).unwrap(), Value::Object(expected).to_string());
    }
}
