//! The OpenAPI document where there is an engine: the state of sandboxes, and the probe of one.

use flock::gateway::openapi;
use serde_json::Value;

use crate::gateway::openapi::document::Document;
use crate::support::home::TempHome;
use crate::team::stage::Served;

#[tokio::test]
async fn the_state_of_sandboxes_fits_the_document() {
    let begun = tokio::task::spawn_blocking(|| {
        let home = TempHome::init_in_docker()?;
        home.flock(["add", "coder"]).ok();
        let served = Served::start(&home);
        Some((home, served))
    });
    let Some((home, served)) = begun.await.unwrap() else { return };
    let owner = home.owner();
    let document = Document::new(openapi::document().clone());
    let prepared = document.done(&owner, "POST", "/api/agents/coder/prepare", &Value::Null).await;
    assert_eq!(prepared["sandbox"], "ready");
    let probed = document.done(&owner, "POST", "/api/agents/coder/probe", &Value::Null).await;
    assert_eq!(probed["probe"]["confined"], true, "{probed}");
    let status = document.get(&owner, "/api/status").await;
    let containers = status["containers"].as_array().unwrap();
    assert!(containers.iter().any(|found| found["probe"].is_object()), "{status}");
    assert!(!status["images"].as_array().unwrap().is_empty() && status["store"].is_object(), "{status}");
    document.assert_kept();
    // The command asks the gateway to remove the container.
    tokio::task::spawn_blocking(move || {
        home.flock(["remove", "coder"]).ok();
        served.stop();
    })
    .await
    .unwrap();
}
