//! Images: found by recipe, tagged for each home, made by one maker at a time.

use std::sync::Mutex;

use flock::home::Home;
use flock::sandbox::image::{self, ImageProgress, ImageStage, Recipe};

use crate::support::docker;

#[test]
fn a_second_home_takes_over_what_is_there_and_takes_only_its_own_tags_away() {
    let Some(engine) = docker::engine_with_images() else { return };
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path().to_owned(), None);
    let config = docker::config(Vec::new());
    let steps = Mutex::new(Vec::new());
    docker::block_on(async {
        let note = |progress: ImageProgress| steps.lock().unwrap().push((progress.recipe, progress.step));
        image::ensure_images(&engine, &home, &config, &note).await.unwrap();
        let expected = Recipe::ALL.map(|recipe| (recipe, ImageStage::Ready));
        assert_eq!(*steps.lock().unwrap(), expected);
        for recipe in Recipe::ALL {
            let own = image::id(&engine, &recipe.reference(&home)).await.unwrap();
            assert!(own.is_some());
        }
        image::untag(&engine, &home).await.unwrap();
        image::untag(&engine, &home).await.unwrap();
        for recipe in Recipe::ALL {
            assert_eq!(image::id(&engine, &recipe.reference(&home)).await.unwrap(), None);
        }
        image::ensure_images(&engine, &home, &config, &note).await.unwrap();
        image::untag(&engine, &home).await.unwrap();
    });
}

/// What is built on one of flock's images inherits its labels; it is still not one of flock's.
#[test]
fn an_image_that_was_built_on_one_of_flocks_is_never_taken_for_it() {
    let Some(engine) = docker::engine_with_images() else { return };
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path().to_owned(), None);
    let config = docker::config(Vec::new());
    docker::block_on(async {
        image::ensure_images(&engine, &home, &config, &|_| {}).await.unwrap();
        let reference = Recipe::Sandbox.reference(&home);
        let before = image::id(&engine, &reference).await.unwrap().unwrap();
        let derived = format!("flock-test-derived{}", home.suffix());
        let run = |args: &[&str]| {
            let output = std::process::Command::new("docker").args(args).output().unwrap();
            assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        };
        run(&["create", "--name", &derived, &reference, "true"]);
        run(&["commit", &derived, &derived]);
        run(&["rm", &derived]);
        image::untag(&engine, &home).await.unwrap();
        image::ensure_images(&engine, &home, &config, &|_| {}).await.unwrap();
        let after = image::id(&engine, &reference).await.unwrap().unwrap();
        run(&["rmi", &derived]);
        image::untag(&engine, &home).await.unwrap();
        assert_eq!(after, before);
    });
}

#[test]
fn an_image_of_ones_own_that_is_nowhere_is_an_error_that_names_it() {
    let Some(engine) = docker::engine() else { return };
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path().to_owned(), None);
    let mut config = docker::config(Vec::new());
    config.sandbox_image = Some("127.0.0.1:1/flock-test/nowhere:1".to_owned());
    docker::block_on(async {
        let error = image::ensure_images(&engine, &home, &config, &|_| {}).await.unwrap_err();
        assert!(error.to_string().contains("127.0.0.1:1/flock-test/nowhere:1"), "{error}");
        let hint = flock::error::Explain::hint(&error).unwrap();
        assert_eq!(hint, "docker pull 127.0.0.1:1/flock-test/nowhere:1");
    });
}
