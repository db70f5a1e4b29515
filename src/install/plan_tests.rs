use super::*;

fn programs(names: &[PackageManager], corepack: bool) -> BuildTools {
    BuildTools {
        managers: names.iter().map(|name| (*name, format!("/bin/{}", name.as_str()).into())).collect(),
        yarn: None,
        corepack: corepack.then(|| "/bin/corepack".into()),
    }
}

fn checkout(manager: Option<&str>, locks: &[&'static str], scripts: &[(&str, &str)]) -> Checkout {
    Checkout {
        package: Package {
            version: "2026.2.9".to_owned(),
            package_manager: manager.map(str::to_owned),
            scripts: scripts.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect(),
            ..Package::default()
        },
        locks: locks.to_vec(),
        sources: true,
        ..Checkout::default()
    }
}

const BOTH: [(&str, &str); 2] = [("build", "tsc"), ("ui:build", "vite")];

/// Returns the commands of a plan, as they are started.
fn lines(checkout: &Checkout, programs: &BuildTools) -> Vec<String> {
    let plan = plan(checkout, programs).unwrap();
    plan.iter().map(|step| format!("{} {}", step.program.display(), step.args.join(" "))).collect()
}

#[test]
fn the_manager_comes_from_package_json_then_the_lock_file() {
    use PackageManager::{Bun, Npm, Pnpm, Yarn};
    for (named, locks, expected) in [
        (Some("pnpm@10.23.0+sha512.abc"), vec![], (Pnpm, Some("10.23.0"))),
        (Some("yarn@4.1.0"), vec!["pnpm-lock.yaml"], (Yarn, Some("4.1.0"))),
        (Some("bun"), vec![], (Bun, None)),
        (Some("cnpm@1"), vec!["yarn.lock"], (Yarn, None)),
        (Some("pnpm@1; rm -rf /"), vec![], (Pnpm, None)),
        (None, vec!["pnpm-lock.yaml", "package-lock.json"], (Pnpm, None)),
        (None, vec!["bun.lockb"], (Bun, None)),
        (None, vec!["package-lock.json"], (Npm, None)),
        (None, vec![], (Npm, None)),
    ] {
        let found = checkout(named, &locks, &[]);
        let (chosen, version) = manager(&found.package, &found.locks);
        assert_eq!((chosen, version.as_deref()), expected, "{named:?} {locks:?}");
    }
}

#[test]
fn pnpm_is_run_directly_then_by_corepack_then_by_npm() {
    let source = checkout(Some("pnpm@10.23.0"), &["pnpm-lock.yaml"], &BOTH);
    assert_eq!(
        lines(&source, &programs(&[PackageManager::Npm, PackageManager::Pnpm], true)),
        ["/bin/pnpm install --frozen-lockfile", "/bin/pnpm run build", "/bin/pnpm run ui:build"]
    );
    assert_eq!(
        lines(&source, &programs(&[PackageManager::Npm], true))[0],
        "/bin/corepack pnpm install --frozen-lockfile"
    );
    assert_eq!(
        lines(&source, &programs(&[PackageManager::Npm], false))[1],
        "/bin/npm exec --yes -- pnpm@10.23.0 run build"
    );
    let tried =
        |programs: &BuildTools| trial(&plan(&source, programs).unwrap(), programs).map(|step| step.title);
    let told = tried(&programs(&[PackageManager::Npm], true));
    assert_eq!(told.as_deref(), Some("corepack pnpm --version"), "it may fail where npm does not");
    assert_eq!(tried(&programs(&[], true)), None, "there is nothing else");
    assert_eq!(tried(&programs(&[PackageManager::Npm, PackageManager::Pnpm], true)), None);
    let told = plan(&source, &programs(&[], false)).unwrap_err().to_string();
    assert!(told.contains("pnpm"), "{told}");
}

#[test]
fn yarn_of_another_major_version_is_not_used() {
    let there = |version: &str, names: &[PackageManager], corepack| BuildTools {
        yarn: Some(version.to_owned()),
        ..programs(names, corepack)
    };
    let both = [PackageManager::Npm, PackageManager::Yarn];
    for (wanted, found, expected) in [
        ("yarn@4.18.1", there("4.0.2", &both, true), "/bin/yarn install"),
        ("yarn@4.18.1", there("1.22.22", &both, true), "/bin/corepack yarn install"),
        (
            "yarn@4.18.1",
            there("1.22.22", &both, false),
            "/bin/npm exec --yes -- @yarnpkg/cli-dist@4.18.1 install",
        ),
        ("yarn@1.22.0", there("4.0.2", &both, false), "/bin/npm exec --yes -- yarn@1.22.0 install"),
        ("yarn", there("1.22.22", &both, false), "/bin/yarn install"),
    ] {
        assert_eq!(lines(&checkout(Some(wanted), &[], &[]), &found), [expected], "{wanted} {:?}", found.yarn);
    }
}

#[test]
fn a_lock_file_is_respected() {
    let all = programs(&[PackageManager::Npm, PackageManager::Yarn, PackageManager::Bun], false);
    for (named, locks, expected) in [
        ("npm@11", vec!["package-lock.json"], "/bin/npm ci --no-audit --no-fund"),
        ("npm@11", vec![], "/bin/npm install --no-audit --no-fund"),
        ("yarn@1.22.0", vec!["yarn.lock"], "/bin/yarn install --frozen-lockfile"),
        ("yarn@4.0.0", vec!["yarn.lock"], "/bin/yarn install --immutable"),
        ("bun@1.2.0", vec!["bun.lock"], "/bin/bun install --frozen-lockfile"),
        ("bun@1.2.0", vec![], "/bin/bun install"),
    ] {
        assert_eq!(lines(&checkout(Some(named), &locks, &[]), &all), [expected], "{named} {locks:?}");
    }
}

#[test]
fn the_control_page_is_not_built_twice() {
    let own = checkout(None, &[], &[("build", "tsc && npm run ui:build"), ("ui:build", "vite")]);
    let found = lines(&own, &programs(&[PackageManager::Npm], false));
    assert_eq!(found[1..], ["/bin/npm run build".to_owned()]);
}

#[test]
fn a_built_package_is_not_built_again() {
    let npm = programs(&[PackageManager::Npm], true);
    let mut published = checkout(Some("pnpm@10.23.0"), &[], &BOTH);
    published.built = true;
    published.sources = false;
    assert!(is_package(&published));
    assert!(lines(&published, &npm).is_empty(), "nothing to install either");
    published.package.dependencies.insert("ws".to_owned(), "8".into());
    let install = "/bin/npm install --omit=dev --no-audit --no-fund";
    assert_eq!(lines(&published, &npm), [install]);
    published.package.dev_dependencies.insert("vitest".to_owned(), "4".into());
    assert_eq!(lines(&published, &npm), ["/bin/npm pkg delete devDependencies", install]);
    published.installed = true;
    assert!(lines(&published, &npm).is_empty());
    // A source tree with an old build in it is built again.
    published.sources = true;
    assert!(!is_package(&published) && lines(&published, &npm).len() == 3);
}

#[test]
fn only_a_workspace_to_be_built_needs_a_large_machine() {
    let small = MachineResources { memory: 4_000_000_000, disk: 50_000_000_000 };
    let told = check_machine(&small).unwrap_err().to_string();
    assert!(told.contains("8 GB of memory") && told.contains("4.0 GB"), "{told}");
    let full = MachineResources { memory: 16_000_000_000, disk: 3_000_000_000 };
    assert!(check_machine(&full).unwrap_err().to_string().contains("free disk"));
    assert!(check_machine(&MachineResources { memory: 8_200_000_000, disk: 20_000_000_000 }).is_ok());
    let mut source = checkout(None, &[], &BOTH);
    let needs = |checkout: &Checkout, reached| needs_large_machine(checkout, reached);
    assert!(!needs(&source, Stage::Fetched), "a single package is small");
    source.workspace = true;
    assert!(needs(&source, Stage::Fetched) && needs(&source, Stage::Installed));
    assert!(!needs(&source, Stage::Built), "only the trial is left");
    source.built = true;
    assert!(needs(&source, Stage::Fetched), "an old build in a source tree is made again");
    source.sources = false;
    assert!(!needs(&source, Stage::Fetched), "what is published is not built");
    assert!(is_large_source(DEFAULT_REPOSITORY) && !is_large_source("https://example.org/openclaw.git"));
}
