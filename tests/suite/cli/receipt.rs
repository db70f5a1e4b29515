//! `flock receipt` and `flock verify` without an engine.

use std::process::{Command, Stdio};

use crate::support::home::TempHome;
use crate::support::receipt::receipt;

#[tokio::test]
async fn a_receipt_is_listed_shown_exported_and_verified_elsewhere() {
    let home = TempHome::new().init();
    let none = home.flock(["receipt", "list"]).ok();
    assert!(none.stderr.contains("there are no receipts"), "{none:#?}");
    let id = receipt(&home).await;
    let list = home.flock(["receipt", "list", "--project", "web", "--json"]).ok().json();
    assert_eq!(
        (&list["receipts"][0]["id"], &list["receipts"][0]["result"]),
        (&id.as_str().into(), &"accepted".into())
    );
    assert!(home.flock(["receipt", "list"]).ok().stdout.contains("accepted"));
    assert_eq!(
        home.flock(["receipt", "list", "--agent", "other", "--json"]).ok().json()["receipts"]
            .as_array()
            .unwrap()
            .len(),
        0
    );
    let shown = home.flock(["receipt", "show", &id[..10], "--output"]).ok().stdout;
    assert!(shown.contains("pytest: 3 run") && shown.contains("3 passed in 0.10s"), "{shown}");
    let shown = home.flock(["receipt", "show", &id, "--json"]).ok().json();
    assert_eq!(shown["receipt"]["delivered"]["tree"], list["receipts"][0]["tree"]);
    for wrong in ["ffff", "../x", "*"] {
        let told = home.flock(["receipt", "show", wrong]).fails(1);
        assert!(told.stderr.contains("hint: run `flock receipt list`"), "{told:#?}");
    }

    let bundle = home.file("fix.receipt");
    let bundle = bundle.to_str().unwrap();
    home.flock(["receipt", "export", &id, "--to", bundle]).ok();
    let signer = home.flock(["receipt", "key"]).ok().stdout;
    std::fs::write(home.file("signers"), &signer).unwrap();
    std::fs::write(
        home.file("key.pub"),
        signer.split_once("ssh-ed25519").map(|(_, key)| format!("ssh-ed25519{key}")).unwrap(),
    )
    .unwrap();
    let other = TempHome::new().init();
    let verified = other.flock(["verify", bundle, "--no-rerun"]).ok().stdout;
    assert!(verified.contains("not verified signature"), "{verified}");
    for (option, file) in [("--allowed-signers", "signers"), ("--key", "key.pub")] {
        let file = home.file(file);
        let told = other
            .flock(["verify", bundle, "--no-rerun", option, file.to_str().unwrap(), "--json"])
            .ok()
            .json();
        assert_eq!((&told["valid"], &told["rerun"]), (&true.into(), &false.into()), "{told}");
        assert!(
            told["findings"].as_array().unwrap().iter().all(|finding| finding["outcome"] == "verified"),
            "{told}"
        );
    }
    let own = other.flock(["receipt", "key"]).ok().stdout;
    std::fs::write(home.file("other"), own).unwrap();
    let file = home.file("other");
    let told =
        other.flock(["verify", bundle, "--no-rerun", "--allowed-signers", file.to_str().unwrap()]).fails(1);
    assert!(told.stdout.contains("another key than expected"), "{told:#?}");
    home.flock(["verify", &id, "--no-rerun"]).ok();

    let mut bytes = std::fs::read(bundle).unwrap();
    bytes[600] ^= 1;
    std::fs::write(bundle, bytes).unwrap();
    assert!(other.flock(["verify", bundle, "--no-rerun"]).fails(1).stderr.contains("signature"));
    std::fs::write(bundle, "hello").unwrap();
    assert!(
        other.flock(["verify", bundle, "--no-rerun"]).fails(1).stderr.contains("the bundle can't be used")
    );
}

#[tokio::test]
async fn a_stored_receipt_that_was_changed_is_named_and_not_exported() {
    let home = TempHome::new().init();
    let id = receipt(&home).await;
    let change = "UPDATE receipt SET document = replace(document, '\"passed\":3', '\"passed\":9')";
    assert_eq!(home.database().execute(change), 1);
    let list = home.flock(["receipt", "list", "--json"]).ok().json();
    assert_eq!(list["receipts"][0]["result"], "invalid");
    for verb in [&["receipt", "show", &id][..], &["receipt", "export", &id], &["verify", &id, "--no-rerun"]] {
        let told = home.flock(verb.iter().copied()).fails(1);
        assert!(told.stderr.contains("is not the one that was made"), "{told:#?}");
    }
}

/// Somebody without flock: the document out of the bundle, by tar, and the signature by ssh-keygen.
#[tokio::test]
async fn an_outsider_checks_a_bundle_with_tar_and_ssh_keygen() {
    if Command::new("ssh-keygen").arg("-?").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err() {
        assert!(
            std::env::var("FLOCK_TEST_REQUIRE_DOCKER").is_err(),
            "ssh-keygen (openssh-client) is missing"
        );
        eprintln!("not run, no ssh-keygen");
        return;
    }
    let home = TempHome::new().init();
    let id = receipt(&home).await;
    home.flock(["receipt", "export", &id, "--to", home.file("fix.receipt").to_str().unwrap()]).ok();
    std::fs::write(home.file("signers"), home.flock(["receipt", "key"]).ok().stdout).unwrap();
    let script = "set -e; mkdir out; tar -xf fix.receipt -C out; cd out
        ssh-keygen -Y verify -f ../signers -I flock -n flock-receipt -s receipt.sig < receipt.json
        sha256sum receipt.json | cut -c1-64
        git init -q repo; for object in objects/*; do name=${object#objects/}; for kind in blob tree commit; do
          [ \"$(git -C repo hash-object -t $kind --literally -w ../$object 2>/dev/null)\" = $name ] && break; done; done
        git -C repo cat-file -p \"$(python3 -c 'import json; print(json.load(open(\"receipt.json\"))[\"delivered\"][\"tree\"])')\"";
    let out = Command::new("bash").args(["-c", script]).current_dir(home.path()).output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(out.status.success(), "{text}{}", String::from_utf8_lossy(&out.stderr));
    assert!(text.contains("Good \"flock-receipt\" signature for flock") && text.contains(&id), "{text}");
    assert!(text.contains("lib.py"), "{text}");
}
