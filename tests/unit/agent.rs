//! An engine for the tests of turns.

use std::path::Path;
use std::sync::Arc;

use super::{Engine, EngineParts, NoOversight, TurnLimits};
use crate::config::agents::{self, NewAgent};
use crate::config::{Live, Role, starter};
use crate::home::Home;
use crate::provider::Catalog;
use crate::store::Store;
use crate::tool::catalog;

/// Makes a home with the worker `coder`, and its engine. The tools are described and fail when they are called.
pub(super) fn engine(folder: &Path) -> Engine {
    let home = Home::new(folder.join("home"), None);
    home.make_folders().unwrap();
    let mut document = starter::document(&home, None, "token", 3779);
    agents::add(&mut document, &home, &NewAgent::new("coder".parse().unwrap(), Role::Worker)).unwrap();
    std::fs::write(home.config(), document.to_string()).unwrap();
    Engine::new(EngineParts {
        config: Arc::new(Live::open(home.clone()).unwrap()),
        store: Arc::new(Store::open(&home).unwrap()),
        registry: catalog::described(),
        catalog: Catalog::new(home),
        limits: TurnLimits::default(),
        oversight: Arc::new(NoOversight),
    })
}
