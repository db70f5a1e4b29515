//! Decides what a rollback changes, and whether it is possible. Pure.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::ValueEnum;

use crate::clean;
use crate::generation::pending_rollback::{ImageSwitch, PackageSwitch, VersionSwitch};
use crate::generation::{Generation, HomeState, difference};
use crate::id::AgentId;
use crate::install::kept::Kept;

/// A part of the home that a rollback can be limited to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// The configuration, with agents and policy.
    Config,
    /// The packages of agents.
    Packages,
    /// The images of sandboxes and of the package store.
    Images,
    /// The version of OpenClaw.
    Openclaw,
    /// flock's own program, with the database that it reads.
    Program,
}

/// The changes that a rollback makes.
#[derive(Debug, Default)]
pub(crate) struct RollbackPlan {
    /// Differences of the configuration, in words. Empty if it stays.
    pub config: Vec<String>,
    pub packages: Vec<PackageSwitch>,
    pub images: Vec<ImageSwitch>,
    pub openclaw: Option<VersionSwitch>,
    pub program: Option<VersionSwitch>,
    /// The backup that replaces the database.
    pub backup: Option<PathBuf>,
    /// Agents that only the generation has.
    pub returning: Vec<AgentId>,
    /// Agents that only the present configuration has.
    pub leaving: Vec<AgentId>,
    /// Things that a person has to know before.
    pub notes: Vec<String>,
    /// The reason why it is impossible, and the command that helps.
    pub refusal: Option<(String, String)>,
}

/// The wish of a person.
#[derive(Clone, Debug, Default)]
pub(crate) struct Request {
    /// The parts to change; all of them if it is empty.
    pub only: Vec<Part>,
    /// Set if the database may be replaced by its backup.
    pub restore_backup: bool,
}

impl RollbackPlan {
    /// Makes the plan for going from the present generation to an earlier or a later one. `renames` are the renames of
    /// agents in between.
    pub(crate) fn new(
        now: &Generation,
        then: &Generation,
        renames: &[(AgentId, AgentId)],
        kept: &Kept,
        asked: &Request,
    ) -> Self {
        let has = |part| asked.only.is_empty() || asked.only.contains(&part);
        let mut plan = Self::default();
        if has(Part::Config) {
            plan.add_config(&now.state, &then.state, renames);
        }
        if has(Part::Packages) {
            plan.add_packages(&now.state, &then.state);
        }
        if has(Part::Images) {
            plan.images = images(&now.state, &then.state);
        }
        if has(Part::Openclaw) {
            plan.add_openclaw(&now.state, &then.state, then.number, kept);
        }
        if has(Part::Program) {
            plan.add_program(&then.state, then.number, kept, asked.restore_backup);
        }
        plan
    }

    /// Returns `true` if nothing would change.
    pub(crate) const fn is_empty(&self) -> bool {
        self.config.is_empty()
            && self.packages.is_empty()
            && self.images.is_empty()
            && self.openclaw.is_none()
            && self.program.is_none()
    }

    /// Returns the changes in words.
    pub(crate) fn changes(&self) -> Vec<String> {
        let mut found = Vec::new();
        if let Some(VersionSwitch { from, to }) = &self.program {
            found.push(format!("flock {from} -> {to}"));
        }
        if let Some(backup) = &self.backup {
            found.push(format!("the database is replaced by {}", backup.display()));
        }
        if let Some(VersionSwitch { from, to }) = &self.openclaw {
            found.push(format!("OpenClaw {from} -> {to}"));
        }
        for PackageSwitch { agent, from, to } in &self.packages {
            found.push(format!("packages of {agent}: profile {from} -> {to}"));
        }
        for ImageSwitch { name, to, .. } in &self.images {
            found.push(format!("image {name} -> {to}"));
        }
        found.extend(self.config.iter().cloned());
        found
    }

    fn add_config(&mut self, now: &HomeState, then: &HomeState, renames: &[(AgentId, AgentId)]) {
        let (old, new) = (agents(now), agents(then));
        self.returning = new.iter().filter(|id| !old.contains(id)).cloned().collect();
        self.leaving = old.iter().filter(|id| !new.contains(id)).cloned().collect();
        // The files, sessions and channels of a renamed agent have its new id, so the old configuration would not find
        // them.
        let hidden =
            renames.iter().find(|(from, to)| self.returning.contains(from) && self.leaving.contains(to));
        if let Some((from, to)) = hidden {
            let text = format!("agent {from} was renamed to {to} since, and its files have the new id");
            self.refuse(text, format!("flock rename {to} {from}, and then flock rollback"));
        }
        self.config = difference::config(&now.config, &then.config);
    }

    fn add_packages(&mut self, now: &HomeState, then: &HomeState) {
        for (agent, to) in &then.packages {
            // An agent without a known profile now had its packages removed together with it.
            match now.packages.get(agent) {
                Some(from) if from != to => {
                    let (agent, from, to) = (agent.clone(), *from, *to);
                    self.packages.push(PackageSwitch { agent, from, to });
                }
                Some(_) => {}
                None if *to > 0 => self.notes.push(format!("the packages of {agent} are not kept any more")),
                None => {}
            }
        }
    }

    fn add_openclaw(&mut self, now: &HomeState, then: &HomeState, number: u64, kept: &Kept) {
        match (&now.openclaw, &then.openclaw) {
            (Some(from), Some(to)) if from != to => {
                if !kept.builds.contains(to) {
                    let text = format!("the build of OpenClaw {to} is removed");
                    self.refuse(text, format!("flock rollback {number} --only config,packages"));
                }
                self.openclaw = Some(VersionSwitch { from: from.clone(), to: to.clone() });
            }
            (Some(from), None) => {
                self.notes.push(format!("OpenClaw {from} was installed since and stays installed"));
            }
            (None, Some(_)) => self.notes.push("OpenClaw is not installed any more".to_owned()),
            _ => {}
        }
    }

    fn add_program(&mut self, then: &HomeState, number: u64, kept: &Kept, restore_backup: bool) {
        if then.program == kept.program {
            return;
        }
        let others = format!("flock rollback {number} --only config,packages,openclaw");
        if kept.previous.as_ref() != Some(&then.program) {
            self.refuse(format!("the program of flock {} is removed", clean::inline(&then.program)), others);
        } else if kept.is_older(then) {
            match (kept.backup(then), restore_backup) {
                (None, _) => {
                    let text = format!(
                        "flock {} can't read today's database, and there is no backup of its time",
                        then.program
                    );
                    self.refuse(text, others);
                }
                (Some(_), false) => {
                    let text = format!(
                        "flock {} can't read today's database; it needs the backup of its time, which has nothing \
                         that was written since",
                        then.program
                    );
                    self.refuse(text, format!("flock rollback {number} --restore-backup --dry-run"));
                }
                (backup, true) => self.backup = backup,
            }
        }
        self.program = Some(VersionSwitch { from: kept.program.clone(), to: then.program.clone() });
    }

    /// Sets the reason why it is impossible. The first one counts.
    fn refuse(&mut self, text: String, hint: String) {
        self.refusal.get_or_insert((text, hint));
    }
}

/// Returns the images that have the same name in both states and another id.
fn images(now: &HomeState, then: &HomeState) -> Vec<ImageSwitch> {
    let changed = |(name, to): (&String, &String)| {
        let from = now.images.get(name).filter(|from| *from != to)?;
        Some(ImageSwitch { name: name.clone(), from: from.clone(), to: to.clone() })
    };
    then.images.iter().filter_map(changed).collect()
}

/// Returns the ids of the agents in the configuration of a state.
pub(crate) fn agents(state: &HomeState) -> Vec<AgentId> {
    let list = state.config.pointer("/agents/list").and_then(serde_json::Value::as_array);
    let id = |entry: &serde_json::Value| entry.get("id")?.as_str()?.parse().ok();
    list.into_iter().flatten().filter_map(id).collect()
}

/// Returns the renames between two generations, as pairs of the id in the older and in the newer one. Agents that were
/// renamed back in between are left out.
pub(crate) fn renames(between: &[Generation]) -> Vec<(AgentId, AgentId)> {
    let mut ids: BTreeMap<AgentId, AgentId> = BTreeMap::new();
    for (old, new) in between.iter().filter_map(|generation| generation.renamed.clone()) {
        let first = ids.iter().find(|(_, now)| **now == old).map(|(first, _)| first.clone());
        ids.insert(first.unwrap_or(old), new);
    }
    ids.into_iter().filter(|(old, new)| old != new).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::generation::record::FORMAT;

    fn generation(number: u64, state: HomeState) -> Generation {
        Generation {
            format: FORMAT,
            number,
            at: 0,
            by: "human:ann".into(),
            why: "x".into(),
            home: "/h".into(),
            what: Vec::new(),
            operation: None,
            renamed: None,
            back_to: None,
            state,
        }
    }

    fn state(agents: &[&str]) -> HomeState {
        let list: Vec<_> = agents.iter().map(|id| json!({"id": id})).collect();
        HomeState { config: json!({"agents": {"list": list}}), program: "2".into(), ..HomeState::default() }
    }

    fn id(id: &str) -> AgentId {
        id.parse().unwrap()
    }

    #[test]
    fn only_what_differs_and_is_asked_for_is_changed() {
        let mut then = state(&["ada"]);
        then.openclaw = Some("1-a".into());
        then.packages = [(id("ada"), 1), (id("bob"), 2), (id("eve"), 4)].into();
        let mut now = state(&["ada", "bob"]);
        now.openclaw = Some("2-b".into());
        now.packages = [(id("ada"), 3), (id("bob"), 2)].into();
        let kept = Kept::for_test("2", &["1-a", "2-b"]);
        let (now, then) = (generation(2, now), generation(1, then));
        let plan = RollbackPlan::new(&now, &then, &[], &kept, &Request::default());
        let expected = ["OpenClaw 2-b -> 1-a", "packages of ada: profile 3 -> 1", "agents.list[bob] removed"];
        assert_eq!(plan.changes(), expected);
        assert_eq!(
            (plan.leaving.as_slice(), plan.returning.as_slice()),
            ([id("bob")].as_slice(), [].as_slice())
        );
        assert_eq!(plan.notes, ["the packages of eve are not kept any more"]);
        let asked = Request { only: vec![Part::Packages], ..Request::default() };
        assert_eq!(RollbackPlan::new(&now, &then, &[], &kept, &asked).changes(), expected[1..2]);
        assert!(RollbackPlan::new(&now, &now, &[], &kept, &Request::default()).is_empty());
    }

    #[test]
    fn what_is_not_kept_any_more_refuses_the_rollback() {
        let kept = Kept::for_test("2", &["2-b"]);
        let now = generation(2, HomeState { openclaw: Some("2-b".into()), ..state(&["ada"]) });
        let gone = generation(1, HomeState { openclaw: Some("1-a".into()), ..state(&["ada"]) });
        let plan = RollbackPlan::new(&now, &gone, &[], &kept, &Request::default());
        assert!(plan.refusal.unwrap().0.contains("build of OpenClaw 1-a is removed"));
        let older = generation(1, HomeState { program: "1".into(), ..state(&["ada"]) });
        let plan = RollbackPlan::new(&now, &older, &[], &kept, &Request::default());
        assert!(plan.refusal.unwrap().0.contains("program of flock 1 is removed"));
    }

    #[test]
    fn an_older_program_needs_the_backup_of_its_time() {
        let now = generation(2, HomeState { schema: Some(22), ..state(&["ada"]) });
        let then = generation(1, HomeState { program: "1".into(), schema: Some(21), ..state(&["ada"]) });
        let mut kept = Kept::for_test("2", &[]);
        kept.previous = Some("1".into());
        kept.schema = Some(22);
        let plan = |kept: &Kept, restore_backup| {
            RollbackPlan::new(&now, &then, &[], kept, &Request { restore_backup, ..Request::default() })
        };
        assert!(plan(&kept, true).refusal.unwrap().0.contains("there is no backup"));
        kept.add_backup_for_test(21);
        assert!(plan(&kept, false).refusal.unwrap().1.contains("--restore-backup"));
        let allowed = plan(&kept, true);
        assert!(allowed.refusal.is_none() && allowed.backup.is_some() && allowed.program.is_some());
        kept.schema = Some(21);
        assert!(plan(&kept, false).refusal.is_none(), "it reads the same schema");
    }

    #[test]
    fn a_rename_since_refuses_unless_it_was_taken_back() {
        let renamed = |number, old: &str, new: &str| Generation {
            renamed: Some((id(old), id(new))),
            ..generation(number, state(&[new]))
        };
        let found = renames(&[renamed(2, "ada", "bob"), renamed(3, "bob", "eve")]);
        assert_eq!(found, [(id("ada"), id("eve"))]);
        let kept = Kept::for_test("2", &[]);
        let (now, then) = (generation(3, state(&["eve"])), generation(1, state(&["ada"])));
        let plan = RollbackPlan::new(&now, &then, &found, &kept, &Request::default());
        assert!(plan.refusal.unwrap().1.contains("flock rename eve ada"));
        assert!(renames(&[renamed(2, "ada", "bob"), renamed(3, "bob", "ada")]).is_empty());
    }
}
