//! Images: found by recipe, tagged for each home, made by one maker at a time.

use std::sync::Mutex;

use flock::home::Home;
use flock::sandbox::image::{self, Progress, Recipe, Step};

use crate::support::docker;

#[test]
fn a_second_home_takes_over_what_is_there_and_takes_only_its_own_tags_away() {
    let Some(engine) = docker::engine_with_images() else { return };
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path().to_owned(), None);
    let config = docker::config(Vec::new());
    let steps = Mutex::new(Vec::new());
    docker::block_on(async {
        let note = |progress: Progress| steps.lock().unwrap().push((progress.recipe, progress.step));
        image::ensure_images(&engine, &home, &config, &note).await.unwrap();
        let expected = Recipe::ALL.map(|recipe| (recipe, Step::Ready));
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
