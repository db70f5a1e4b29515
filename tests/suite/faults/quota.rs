//! A quota that is used up: its turns wait without asking, one call is tried at the reset, and then all go on.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::provider::with_agents;
use crate::support::home::{TempHome, finish};
use crate::support::model_server::{ModelServer, Reply};
use crate::support::wait_until;
use crate::team::stage::{LIMIT, Served, log_text, said, transcripts};

const ANSWER: &str = "understood";

/// A refusal whose quota comes back after this many seconds.
fn used_up(seconds: u64) -> Reply {
    Reply::status(429, "used up").header("retry-after", &seconds.to_string())
}

/// The status of the gateway. A busy machine may need more than one attempt.
fn status(home: &TempHome) -> Value {
    wait_until("the gateway tells its status", LIMIT, || {
        let run = home.flock(["status", "--json"]);
        if run.code == 0 { Ok(run.json()) } else { Err(format!("{run:?}")) }
    })
}

/// Waits until no turn runs.
fn is_at_rest(home: &TempHome) {
    wait_until("no turn runs", LIMIT, || {
        let turns = &status(home)["gateway"]["turns"];
        if turns["running"] == 0 && turns["waiting"] == 0 { Ok(()) } else { Err(turns.to_string()) }
    });
}

fn parked(home: &TempHome) -> Vec<Value> {
    status(home)["parked"].as_array().cloned().unwrap_or_default()
}

/// Waits until these agents wait for a quota and no turn runs.
fn until_parked(home: &TempHome, agents: usize) -> Value {
    let park = wait_until("the quota is parked", LIMIT, || {
        let parks = parked(home);
        match &parks[..] {
            [park] if park["agents"].as_array().is_some_and(|held| held.len() == agents) => Ok(park.clone()),
            _ => Err(format!("{parks:?}\n{}", log_text(home))),
        }
    });
    is_at_rest(home);
    park
}

fn until_answered(home: &TempHome, channel: &str, count: usize, limit: Duration) {
    wait_until(&format!("{count} answers in #{channel}"), limit, || {
        let all = said(home, channel);
        let found = all.iter().filter(|(_, text)| text == ANSWER).count();
        if found >= count { Ok(()) } else { Err(format!("{found}: {all:#?}\n{}", log_text(home))) }
    });
}

fn notices(home: &TempHome, channel: &str) -> Vec<String> {
    let is_notice = |(by, text): &(String, String)| by == "system" && text.contains("is used up");
    said(home, channel).into_iter().filter(is_notice).map(|(_, text)| text).collect()
}

/// A home with these agents in the channel `work`, which have seen everything.
fn at_rest(model: &ModelServer, agents: &[&str]) -> (TempHome, Served) {
    model.always(Reply::text(ANSWER));
    let home = with_agents(model, agents);
    let mut create = vec!["channel", "create", "work", "--topic", "x"];
    for agent in agents {
        create.extend(["--member", agent]);
    }
    let served = Served::start(&home);
    home.flock(create).ok();
    wait_until("everybody has seen the channel", LIMIT, || {
        let asked = model.requests().len();
        if asked >= agents.len() { Ok(()) } else { Err(format!("{asked}\n{}", log_text(&home))) }
    });
    is_at_rest(&home);
    (home, served)
}

#[test]
fn twenty_agents_on_one_credential_are_probed_once_and_go_on_within_a_minute() {
    let names: Vec<String> = (0..20).map(|number| format!("ada{number}")).collect();
    let agents: Vec<&str> = names.iter().map(String::as_str).collect();
    let model = ModelServer::start();
    let (home, _served) = at_rest(&model, &agents);
    let before = model.requests().len();
    let answered = said(&home, "work").iter().filter(|(_, text)| text == ANSWER).count();
    let patience = "plugins.entries.flock.config.quota.patienceSeconds";
    home.flock(["config", "set", patience, "5"]).ok();
    model.always(used_up(25));
    home.flock(["channel", "post", "work", "@all what now"]).ok();
    let park = until_parked(&home, 20);
    assert!(park["named"] == true && park["credential"] == "acme", "{park}");
    let refused = model.requests().len() - before;
    // Only the turns that ran together were refused; the others were not even begun.
    assert!((1..=8).contains(&refused), "{refused} refusals");
    assert_eq!(notices(&home, "work").len(), 1, "{:?}", said(&home, "work"));

    // The probe is held, and meanwhile nobody else asks.
    let probe = model.reply_held(ANSWER);
    model.always(Reply::text(ANSWER));
    wait_until("the probe is made", LIMIT * 2, || {
        let parks = parked(&home);
        let is_probing = parks.first().is_some_and(|park| park["probing"] == true);
        if is_probing { Ok(()) } else { Err(format!("{parks:?}\n{}", log_text(&home))) }
    });
    let turns = status(&home)["gateway"]["turns"].clone();
    assert_eq!((&turns["running"], &turns["waiting"]), (&json!(1), &json!(0)), "{turns}");
    assert_eq!(model.requests().len() - before - refused, 1, "one probe for all");
    let reset = Instant::now();
    probe.notify_one();
    until_answered(&home, "work", answered + 20, Duration::from_secs(60));
    println!("20 agents went on within {:.1} s after one probe", reset.elapsed().as_secs_f64());
    is_at_rest(&home);
    assert_eq!(model.requests().len() - before - refused, 20, "each turn has asked once");
    assert_eq!(parked(&home), [] as [Value; 0]);
    for agent in &agents {
        let own = said(&home, "work").iter().filter(|(by, text)| by == agent && text == ANSWER).count();
        assert!(own >= 1, "{agent}: {:?}", said(&home, "work"));
    }
    assert_eq!(notices(&home, "work").len(), 1);
}

#[test]
fn a_kill_while_a_quota_is_used_up_changes_nothing_and_a_person_resumes_it() {
    let model = ModelServer::start();
    let (home, served) = at_rest(&model, &["ada", "bob"]);
    let before = model.requests().len();
    let answered = said(&home, "work").iter().filter(|(_, text)| text == ANSWER).count();
    // OpenAI's own headers, without Retry-After.
    let windows = Reply::status(429, "Rate limit reached for requests")
        .header("x-ratelimit-limit-requests", "200")
        .header("x-ratelimit-remaining-requests", "0")
        .header("x-ratelimit-reset-requests", "7h12m0s");
    model.always(windows);
    home.flock(["channel", "post", "work", "text-one"]).ok();
    let park = until_parked(&home, 2);
    let refused = model.requests().len() - before;
    served.kill();
    let doctor = home.flock(["doctor"]);
    assert!(doctor.stdout.contains("the quota of acme is used up"), "{doctor:?}");
    let served = Served::start(&home);
    let again = until_parked(&home, 2);
    assert_eq!((&again["until"], &again["since"]), (&park["until"], &park["since"]));
    assert!(home.flock(["status"]).ok().stdout.contains("acme is used up for acme/one; next try at"));
    // What is said meanwhile waits too, and is told once.
    home.flock(["channel", "post", "work", "text-two"]).ok();
    is_at_rest(&home);
    assert_eq!(model.requests().len() - before, refused, "nothing is asked");
    assert_eq!(notices(&home, "work").len(), 1, "{:?}", said(&home, "work"));

    // A client is told at once, and nothing is asked for it either.
    let chat = home.flock(["chat", "ada", "hello"]).fails(1);
    assert!(chat.stderr.contains("the quota of acme is used up until"), "{chat:?}");
    assert!(chat.stderr.contains("flock resume --credential acme"), "{chat:?}");
    assert_eq!(model.requests().len() - before, refused);

    // Still used up: it is parked again, to the new time, and said no second time.
    model.always(used_up(100_000));
    let said_so = home.flock(["resume", "--credential", "acme", "--json"]).ok().json();
    assert_eq!(said_so["resumed"][0]["agents"], json!(["ada", "bob"]), "{said_so}");
    wait_until("it is parked to the new time", LIMIT, || {
        let parks = parked(&home);
        let is_later = parks.first().is_some_and(|park| park["until"].as_i64() > again["until"].as_i64());
        if is_later { Ok(()) } else { Err(format!("{parks:?}\n{}", log_text(&home))) }
    });
    assert_eq!(model.requests().len() - before, refused + 1, "one probe");
    assert_eq!(notices(&home, "work").len(), 1, "{:?}", said(&home, "work"));

    served.kill();
    model.always(Reply::text(ANSWER));
    home.flock(["resume", "bob"]).ok();
    let _served = Served::start(&home);
    until_answered(&home, "work", answered + 2, LIMIT);
    is_at_rest(&home);
    for agent in ["ada", "bob"] {
        let seen = transcripts(&home, agent).join("\n");
        for line in ["human:ann: text-one", "human:ann: text-two"] {
            assert_eq!(seen.matches(line).count(), 1, "{agent} is given {line} once: {seen}");
        }
    }
    assert_eq!(parked(&home), [] as [Value; 0]);
    assert!(home.flock(["resume"]).ok().stderr.contains("no such quota is used up"));
}

#[test]
fn a_turn_goes_on_from_where_its_quota_ended_and_no_tool_runs_twice() {
    let model = ModelServer::start();
    let (home, served) = at_rest(&model, &["ada"]);
    model.reply(Reply::call("c1", "flock_channel_post", &json!({"channelId": "work", "message": "half"})));
    model.always(used_up(3_600));
    home.flock(["channel", "post", "work", "do it"]).ok();
    until_parked(&home, 1);
    served.kill();
    let _served = Served::start(&home);
    until_parked(&home, 1);
    model.always(Reply::text("the end"));
    home.flock(["resume"]).ok();
    wait_until("the turn ends", LIMIT, || {
        let seen = transcripts(&home, "ada").join("\n");
        if seen.contains("the end") { Ok(()) } else { Err(log_text(&home)) }
    });
    is_at_rest(&home);
    let posts = said(&home, "work");
    assert_eq!(posts.iter().filter(|(by, text)| by == "ada" && text == "half").count(), 1, "{posts:?}");
    let last = model.requests().pop().unwrap().body;
    let roles: Vec<&str> =
        last["messages"].as_array().unwrap().iter().filter_map(|message| message["role"].as_str()).collect();
    assert!(roles.contains(&"tool"), "the result of the call is still there: {last}");
}

#[test]
fn a_fallback_answers_first_where_the_owner_configured_one() {
    let (model, spare) = (ModelServer::start(), ModelServer::start());
    let (home, _served) = at_rest(&model, &["ada"]);
    spare.always(Reply::text("from the spare"));
    let mut config = home.config();
    config["models"]["providers"]["spare"] = json!({
        "baseUrl": spare.openai_url(), "apiKey": "sk-other", "api": "openai-completions",
        "models": [{"id": "two", "name": "two"}],
    });
    let agents = config["agents"]["list"].as_array_mut().unwrap();
    let ada = agents.iter_mut().find(|agent| agent["id"] == "ada").unwrap();
    ada["model"] = json!({"primary": "acme/one", "fallbacks": ["spare/two"]});
    std::fs::write(home.file("config.json"), config.to_string()).unwrap();
    let before = model.requests().len();
    model.always(used_up(3_600));
    let chat = home.flock(["chat", "ada", "hello"]).ok();
    assert!(chat.stdout.contains("from the spare"), "{chat:?}");
    let park = until_parked(&home, 0);
    assert_eq!((&park["credential"], &park["agents"]), (&json!("acme"), &json!([])));
    assert!(home.flock(["chat", "ada", "again"]).ok().stdout.contains("from the spare"));
    assert_eq!(model.requests().len() - before, 1, "the used-up one is asked once");
    // The spare one is used up too. Now the agent waits, for the one that comes first.
    spare.always(used_up(1_800));
    home.flock(["chat", "ada", "more"]).fails(1);
    wait_until("the agent waits for the spare one", LIMIT, || {
        let parks = parked(&home);
        let held = parks.iter().find(|park| park["credential"] == "spare").map(|park| park["agents"].clone());
        if held == Some(json!(["ada"])) { Ok(()) } else { Err(format!("{parks:?}")) }
    });
}

#[test]
fn a_frozen_agent_of_a_used_up_quota_stays_frozen_and_a_changed_key_ends_the_park() {
    let model = ModelServer::start();
    let (home, _served) = at_rest(&model, &["ada", "bob"]);
    let answered = said(&home, "work").iter().filter(|(_, text)| text == ANSWER).count();
    model.always(used_up(3_600));
    home.flock(["channel", "post", "work", "text"]).ok();
    until_parked(&home, 2);
    home.flock(["freeze", "ada"]).ok();
    model.always(Reply::text(ANSWER));
    let key = ["config", "set", "models.providers.acme.apiKey", "-"];
    home.flock_with_input(key, "sk-a-new-key-of-the-owner").ok();
    until_answered(&home, "work", answered + 1, LIMIT);
    is_at_rest(&home);
    let is_of = |agent: &'static str| move |(by, text): &&(String, String)| by == agent && text == ANSWER;
    let all = said(&home, "work");
    assert_eq!(
        all.iter().filter(is_of("bob")).count() + all.iter().filter(is_of("ada")).count(),
        answered + 1
    );
    assert_eq!(parked(&home), [] as [Value; 0]);
    home.flock(["thaw", "ada"]).ok();
    until_answered(&home, "work", answered + 2, LIMIT);
}

/// In the place of Gemini CLI with its user's own login: its quota is used up until the file `open` is there.
const PROGRAM: &str = r#"
here=${0%/*}
case "$*" in --version) echo 0.61.0; exit;; esac
if [ -n "$GEMINI_WRITE_SYSTEM_MD" ]; then echo own > "$GEMINI_WRITE_SYSTEM_MD"; exit 1; fi
{ echo "== $*"; cat; echo; } >> "$here/given"
if [ ! -e "$here/open" ]; then
    text='You have exhausted your capacity on this model. Your quota will reset after 2h13m20s.'
    echo '{"type":"result","status":"error","error":{"message":"'"$text"'"}}'
    exit 1
fi
echo '{"type":"message","role":"assistant","content":"understood"}'
echo '{"type":"result","status":"success"}'
"#;

#[test]
fn the_words_of_a_program_with_its_own_login_park_it() {
    let home = TempHome::new().init();
    let installed = tempfile::tempdir().unwrap();
    let package: PathBuf = installed.path().join("lib/node_modules/@google/gemini-cli");
    let bin = installed.path().join("bin");
    std::fs::create_dir_all(package.join("bundle")).unwrap();
    std::fs::create_dir_all(&bin).unwrap();
    std::fs::write(package.join("package.json"), "{}").unwrap();
    let script = package.join("bundle/gemini.js");
    std::fs::write(&script, PROGRAM).unwrap();
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::os::unix::fs::symlink(&script, bin.join("gemini")).unwrap();
    std::fs::copy("/bin/bash", bin.join("node")).unwrap();
    let command = || {
        let mut command = home.command();
        let path = std::env::var("PATH").unwrap();
        command.env("PATH", format!("{}:{path}", bin.display()));
        command
    };
    for agent in ["ada", "bob"] {
        let mut add = command();
        let model = ["--model", "google/gemini-3-pro-preview"];
        add.args(["add", agent, "--runtime", "gemini", "--on-host"]).args(model);
        finish(add.stdin(std::process::Stdio::null())).ok();
    }
    let given = || std::fs::read_to_string(package.join("bundle/given")).unwrap_or_default();
    let runs = || given().matches("== ").count();
    let _served = Served::start_as(&home, command());
    home.flock(["channel", "create", "work", "--topic", "x", "--member", "ada", "--member", "bob"]).ok();
    let park = until_parked(&home, 2);
    assert_eq!((&park["credential"], &park["named"]), (&json!("gemini-login"), &json!(true)), "{park}");
    let wait = park["until"].as_i64().unwrap() - park["since"].as_i64().unwrap();
    assert!((7_900_000..8_100_000).contains(&wait), "{park}");
    let before = runs();
    assert!(before <= 2, "{}", given());
    home.flock(["channel", "post", "work", "text"]).ok();
    is_at_rest(&home);
    assert_eq!(runs(), before, "the program is not even started");
    std::fs::write(package.join("bundle/open"), "").unwrap();
    home.flock(["resume", "--credential", "gemini-login"]).ok();
    until_answered(&home, "work", 2, LIMIT);
    assert_eq!(parked(&home), [] as [Value; 0]);
}
