//! What is said in one channel is never in what a model is asked for another.

use serde_json::json;

use super::stage::{LIMIT, Served, until_said};
use crate::support::home::TempHome;
use crate::support::model_server::{ModelServer, Reply};
use crate::support::wait_until;

#[test]
fn a_secret_of_one_channel_is_never_in_a_request_of_another() {
    const SECRET: &str = "xyzzy-4711";
    let home = TempHome::new().init();
    let model = ModelServer::start();
    model.always(Reply::text("understood"));
    let mut config = home.config();
    config["models"]["providers"]["acme"] = json!({
        "baseUrl": model.openai_url(), "apiKey": "sk-test", "api": "openai-completions",
        "models": [{"id": "one", "name": "one"}],
    });
    std::fs::write(home.file("config.json"), config.to_string()).unwrap();
    for agent in ["ada", "bob"] {
        home.flock(["add", agent, "--no-container", "--model", "acme/one"]).ok();
    }
    for id in ["alpha", "beta"] {
        home.flock(["channel", "create", id, "--topic", id, "--member", "ada", "--member", "bob"]).ok();
    }
    let _served = Served::start(&home);
    home.flock(["channel", "post", "alpha", &format!("alpha-mark: the secret is {SECRET}")]).ok();
    for agent in ["ada", "bob"] {
        until_said(&home, "alpha", agent, "understood");
    }
    for round in 0..2 {
        home.flock(["channel", "post", "beta", &format!("beta-mark {round}: what is the secret?")]).ok();
        wait_until("both answer in beta", LIMIT, || {
            let all = super::stage::said(&home, "beta");
            let count = all.iter().filter(|(_, text)| text == "understood").count();
            (count == 2 * (round + 1)).then_some(()).ok_or_else(|| format!("{all:?}"))
        });
    }
    let requests: Vec<String> = model.requests().iter().map(|request| request.body.to_string()).collect();
    let of_alpha = requests.iter().filter(|text| text.contains(SECRET)).count();
    let of_beta: Vec<&String> = requests.iter().filter(|text| text.contains("beta-mark")).collect();
    assert!(of_alpha >= 2, "the secret was given to both in its own channel");
    assert!(of_beta.len() >= 4, "{}", of_beta.len());
    assert!(of_beta.iter().all(|text| !text.contains(SECRET) && !text.contains("alpha-mark")));
    assert!(
        of_beta.iter().any(|text| text.contains("beta-mark 0") && text.contains("beta-mark 1")),
        "it remembers its own"
    );
}
