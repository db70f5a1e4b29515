//! The runtime `acp:COMMAND`: a program that flock knows nothing of but its protocol runs turns in a sandbox.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Instant;

use serde_json::json;

use crate::support::home::TempHome;
use crate::team::stage::transcripts;

/// An agent of the protocol. It asks for permission before it writes a file, and tells where it runs.
const AGENT: &str = r#"#!/bin/sh
say() { printf '%s\n' "{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{\"sessionId\":\"s1\",\"update\":$1}}"; }
text() { say "{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":\"text\",\"text\":\"$1\"}}"; }
past=new
while IFS= read -r line; do
    case $line in
    *'"method":"initialize"'*)
        echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"agentCapabilities":{"loadSession":true,"mcpCapabilities":{"http":true}}}}'
        ;;
    *'"method":"session/new"'*)
        case $line in *'"Authorization"'*'/mcp"'* | *'/mcp"'*'"Authorization"'*) past=new-with-tools ;; esac
        echo '{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s1"}}'
        ;;
    *'"method":"session/load"'*)
        text OLD
        past=loaded
        echo '{"jsonrpc":"2.0","id":2,"result":{}}'
        ;;
    *'"method":"session/prompt"'*)
        case $line in
        *'break now'*) echo 'no JSON at all'; exit 3 ;;
        esac
        say '{"sessionUpdate":"tool_call","toolCallId":"c1","title":"write it","kind":"edit","rawInput":{"path":"a.txt"}}'
        echo '{"jsonrpc":"2.0","id":77,"method":"session/request_permission","params":{"sessionId":"s1","options":[{"optionId":"no","kind":"reject_once"},{"optionId":"once","kind":"allow_once"}]}}'
        ;;
    *'"id":77'*'"once"'*)
        echo written > a.txt
        say '{"sessionUpdate":"tool_call_update","toolCallId":"c1","status":"completed","content":[{"type":"content","content":{"type":"text","text":"wrote it"}}]}'
        text "$past in $PWD as $(id -u) with $OPENAI_MODEL at $OPENAI_BASE_URL, home ${HOME%/*}, key ${#OPENAI_API_KEY}"
        echo '{"jsonrpc":"2.0","id":4,"result":{"stopReason":"end_turn"}}'
        ;;
    esac
done
"#;

#[test]
fn a_program_that_speaks_acp_runs_turns_confined_and_without_keys() {
    let Some(home) = TempHome::init_in_docker() else { return };
    let command = home.outside().join("some-agent");
    std::fs::write(&command, AGENT).unwrap();
    std::fs::set_permissions(&command, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut config = home.config();
    config["models"]["providers"]["lab"] = json!({"baseUrl": "http://127.0.0.1:9/v1", "apiKey": "sk-planted-4711",
        "api": "openai-completions", "models": [{"id": "m", "contextWindow": 100_000}]});
    std::fs::write(home.file("config.json"), config.to_string()).unwrap();
    let runtime = format!("acp:{}", command.display());
    for bad in ["acp:", "acp:a  b", "acp:./agent"] {
        home.flock(["add", "far", "--runtime", bad, "--model", "lab/m"]).fails(2);
    }
    let missing = home.flock(["add", "far", "--runtime", "acp:no-such-agent", "--model", "lab/m"]).fails(1);
    assert!(missing.stderr.contains("no-such-agent"), "{missing:?}");
    let on_host = home.flock(["add", "far", "--runtime", &runtime, "--model", "lab/m", "--on-host"]).fails(2);
    assert!(on_host.stderr.contains("sandboxes alone"), "{on_host:?}");
    home.flock(["add", "far", "--runtime", &runtime, "--model", "lab/m"]).ok();
    home.flock(["start", "-q"]).ok();
    let began = Instant::now();
    let said = home.flock(["chat", "far", "hello"]).ok().stdout;
    for part in [
        "new-with-tools in /workspace as ",
        " with m at http://127.0.0.1:",
        "/relay/completions/v1",
        "home /state, key ",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(!said.contains("key 0") && !said.contains("sk-planted"), "{said}");
    assert_eq!(std::fs::read_to_string(home.file("workspaces/far/a.txt")).unwrap(), "written\n");
    let again = home.flock(["chat", "far", "and again"]).ok().stdout;
    assert!(again.contains("loaded in /workspace") && !again.contains("OLD"), "{again}");
    assert!(began.elapsed().as_secs() < 60, "it is not waited for a program that has ended");
    let kept = transcripts(&home, "far").join("\n");
    assert!(kept.contains("wrote it") && !kept.contains("sk-planted"), "{kept}");
    let broken = home.flock(["chat", "far", "break now"]).fails(1);
    assert!(broken.stderr.contains("some-agent (by ACP)"), "{broken:?}");
    let listed = home.flock(["list", "--json"]).ok().json();
    let far = listed["agents"].as_array().unwrap().iter().find(|agent| agent["id"] == "far").unwrap().clone();
    assert_eq!(far["runtime"], runtime);
    home.flock(["stop", "-q"]).ok();
}

/// The same in Python, as a package that a script of pip calls.
const PACKAGE: &str = r#"import json, os, sys

def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

def main():
    for line in sys.stdin:
        asked = json.loads(line)
        method, ident = asked.get("method"), asked.get("id")
        if method == "initialize":
            send(id=ident, result={"protocolVersion": 1, "agentCapabilities": {}})
        elif method == "session/new":
            send(id=ident, result={"sessionId": "s1"})
        elif method == "session/prompt":
            said = "%s from %s with %s" % (os.environ["OPENAI_MODEL"], __file__, " ".join(sys.argv[1:]))
            chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": said}}
            send(method="session/update", params={"sessionId": "s1", "update": chunk})
            send(id=ident, result={"stopReason": "end_turn"})
"#;

#[test]
fn a_script_of_pip_runs_with_the_packages_of_its_environment() {
    let Some(home) = TempHome::init_in_docker() else { return };
    let Ok(python) = std::fs::canonicalize("/usr/bin/python3") else { return };
    let root = home.outside().join("venv");
    let packages = root.join("lib").join(python.file_name().unwrap()).join("site-packages");
    std::fs::create_dir_all(packages.join("some_agent")).unwrap();
    std::fs::create_dir_all(root.join("bin")).unwrap();
    std::fs::write(root.join("pyvenv.cfg"), "include-system-site-packages = false\n").unwrap();
    std::fs::write(packages.join("some_agent/__init__.py"), PACKAGE).unwrap();
    std::os::unix::fs::symlink(&python, root.join("bin/python")).unwrap();
    let command = root.join("bin/some-agent");
    let entry = "import sys\nfrom some_agent import main\nif __name__ == '__main__':\n    sys.exit(main())\n";
    std::fs::write(&command, format!("#!{}\n{entry}", root.join("bin/python").display())).unwrap();
    std::fs::set_permissions(&command, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut config = home.config();
    config["models"]["providers"]["lab"] = json!({"baseUrl": "http://127.0.0.1:9/v1", "apiKey": "sk-planted-4711",
        "api": "openai-completions", "models": [{"id": "m", "contextWindow": 100_000}]});
    std::fs::write(home.file("config.json"), config.to_string()).unwrap();
    // Without the environment its packages are nowhere.
    let loose = home.outside().join("loose-agent");
    std::fs::write(&loose, format!("#!/usr/bin/python3\n{entry}")).unwrap();
    std::fs::set_permissions(&loose, std::fs::Permissions::from_mode(0o755)).unwrap();
    let loose = format!("acp:{}", loose.display());
    let refused = home.flock(["add", "loose", "--runtime", &loose, "--model", "lab/m"]).fails(1);
    assert!(refused.stderr.contains("pipx or uv"), "{refused:?}");
    let runtime = format!("acp:{} --acp", command.display());
    home.flock(["add", "far", "--runtime", &runtime, "--model", "lab/m"]).ok();
    home.flock(["start", "-q"]).ok();
    let said = home.flock(["chat", "far", "hello"]).ok().stdout;
    assert!(
        said.contains("m from /opt/flock/acp-")
            && said.contains("/packages/some_agent/__init__.py with --acp"),
        "{said}"
    );
    home.flock(["stop", "-q"]).ok();
}
