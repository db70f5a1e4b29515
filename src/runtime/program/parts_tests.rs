//! The files of an installed program, in folders that look like those of npm and of the programs' own installers.

use std::path::{Path, PathBuf};

use super::interface::{ProgramFiles, RequiredOptions};
use super::listed;

const NATIVE: &[u8] = b"\x7fELF\x02\x01\x01";

struct Install(tempfile::TempDir);

impl Install {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn put(&self, path: &str, content: &[u8]) -> PathBuf {
        let path = self.path(path);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(&path, content).unwrap();
        path
    }
}

fn arch() -> &'static str {
    super::executable::npm_arch()
}

fn parts(name: &str, command: &Path) -> Result<ProgramFiles, String> {
    let parts = listed(name).unwrap().parts(command);
    if let Ok(parts) = &parts {
        let below = format!("/opt/flock/{name}/");
        assert!(parts.sandbox[0].starts_with(&below), "{parts:?}");
        for (source, inside) in &parts.mounts {
            assert!(source.exists() && inside.starts_with(&below), "{parts:?}");
        }
        assert!(Path::new(&parts.host[0]).is_absolute());
    }
    parts
}

#[test]
fn claude_code_is_one_file() {
    let install = Install::new();
    let npm = install.put("lib/node_modules/@anthropic-ai/claude-code/bin/claude.exe", NATIVE);
    let own = install.put(".local/share/claude/versions/2.1.330", NATIVE);
    for file in [npm, own] {
        let parts = parts("claude", &file).unwrap();
        assert_eq!(parts.mounts, [(file.clone(), "/opt/flock/claude/claude".to_owned())]);
        assert_eq!(parts.host, [file.display().to_string()]);
        assert_eq!(parts.sandbox, ["/opt/flock/claude/claude"]);
    }
}

#[test]
fn claude_code_is_found_where_its_installer_did_not_run() {
    for place in [
        "a/node_modules/@anthropic-ai",
        "b/node_modules/@anthropic-ai/claude-code/node_modules/@anthropic-ai",
    ] {
        let install = Install::new();
        let folder = place.split("/@").next().unwrap();
        let command =
            install.put(&format!("{folder}/@anthropic-ai/claude-code/bin/claude.exe"), b"#!/bin/sh\n");
        let file = install.put(&format!("{place}/claude-code-linux-{}/claude", arch()), NATIVE);
        assert_eq!(parts("claude", &command).unwrap().mounts[0].0, file);
    }
}

#[test]
fn codex_comes_with_its_helpers_and_without_its_launcher() {
    let triple = format!("vendor/{}-unknown-linux-musl", std::env::consts::ARCH);
    let nested = "lib/node_modules/@openai/codex/node_modules/@openai";
    for place in [nested, "lib/node_modules/@openai"] {
        let install = Install::new();
        let command = install.put("lib/node_modules/@openai/codex/bin/codex.js", b"#!/usr/bin/env node\n");
        let folder = format!("{place}/codex-linux-{}/{triple}", arch());
        let file = install.put(&format!("{folder}/bin/codex"), NATIVE);
        install.put(&format!("{folder}/codex-resources/bwrap"), NATIVE);
        let parts = parts("codex", &command).unwrap();
        assert_eq!(parts.mounts, [(install.path(&folder), "/opt/flock/codex/native".to_owned())]);
        assert_eq!(parts.host, [file.display().to_string()]);
        assert_eq!(parts.sandbox, ["/opt/flock/codex/native/bin/codex"]);
    }
    let install = Install::new();
    let alone = install.put("usr/local/bin/codex", NATIVE);
    assert_eq!(parts("codex", &alone).unwrap().mounts, [(alone, "/opt/flock/codex/codex".to_owned())]);
}

#[test]
fn opencode_is_one_file() {
    let install = Install::new();
    let npm = install.put("lib/node_modules/opencode-ai/bin/opencode.exe", NATIVE);
    let own = install.put(".opencode/bin/opencode", NATIVE);
    for file in [npm, own] {
        assert_eq!(
            parts("opencode", &file).unwrap().mounts,
            [(file, "/opt/flock/opencode/opencode".to_owned())]
        );
    }
    let install = Install::new();
    let command = install.put("node_modules/opencode-ai/bin/opencode", b"#!/usr/bin/env node\n");
    let file = install.put(&format!("node_modules/opencode-linux-{}/bin/opencode", arch()), NATIVE);
    assert_eq!(parts("opencode", &command).unwrap().mounts[0].0, file);
}

#[test]
fn gemini_cli_is_its_folder_and_the_node_beside_it() {
    let install = Install::new();
    let package = "lib/node_modules/@google/gemini-cli";
    let command = install.put(&format!("{package}/bundle/gemini.js"), b"#!/usr/bin/env node\n");
    install.put(&format!("{package}/package.json"), b"{}");
    let node = install.put("bin/node", NATIVE);
    let node = fs_err::canonicalize(node).unwrap();
    let found = parts("gemini", &command).unwrap();
    assert_eq!(
        found.mounts,
        [
            (node.clone(), "/opt/flock/gemini/node".to_owned()),
            (install.path(package), "/opt/flock/gemini/gemini-cli".to_owned())
        ]
    );
    assert_eq!(found.host, [node.display().to_string(), command.display().to_string()]);
    assert_eq!(found.sandbox[1], "/opt/flock/gemini/gemini-cli/bundle/gemini.js");
    assert!(found.sandbox[1].starts_with("/opt/flock/gemini/"));

    let linked = [NATIVE, b"..libnode.so.127.."].concat();
    install.put("bin/node", &linked);
    // Another Node may be on this machine's PATH.
    match parts("gemini", &command) {
        Ok(found) => assert_ne!(found.mounts[0].0, node),
        Err(error) => assert!(error.contains("nodejs.org"), "{error}"),
    }
    assert!(parts("gemini", &install.put("bin/gemini", b"#!/bin/sh\n")).is_err());
}

#[test]
fn a_command_without_a_program_is_reported() {
    let install = Install::new();
    let command = install.put("@anthropic-ai/claude-code/cli.js", b"#!/usr/bin/env node\n");
    let error = parts("claude", &command).unwrap_err();
    // The surrounding message names the file and the command that installs it.
    assert_eq!(error, "it leads to no program for this machine");
    assert!(parts("claude", &install.path("nothing")).is_err());
}

#[test]
fn missing_options_are_found_in_help_text() {
    let options = RequiredOptions { help: &["--help"], names: &["--json", "--model"] };
    let help = "Usage: x [--json] [OPTIONS]\n  -m, --model-name <NAME>\n      --[no-]color";
    assert_eq!(options.missing_in(help), Some(vec!["--model"]));
    assert_eq!(options.missing_in("-m, --model=<NAME>  \u{1b}[1m--json\u{1b}[0m"), Some(vec![]));
    assert_eq!(options.missing_in("1.2.3 - no help"), None);
}
