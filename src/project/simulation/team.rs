//! Agents, merge train and reviewers over time. Pure: the same work and the same pace give the same outcome.

use std::collections::{BTreeMap, VecDeque};

use super::history::Work;
use super::script::{self, Call, Manner, Spent};
use crate::config::Review;

/// The times that things take, and the party that reviews. Times are in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pace {
    /// A model call.
    pub call: u64,
    /// The checks of one joined tree, and those that an agent runs itself.
    pub checks: u64,
    /// The time until a person has reviewed.
    pub person: u64,
    pub review: Review,
    pub manner: Manner,
    /// Tokens of each agent's prompt and tools. There are as many agents as numbers.
    pub prompts: Vec<u64>,
}

/// A wait of submitted work, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wait {
    pub total: u64,
    /// The longest single one.
    pub longest: u64,
}

impl Wait {
    fn add(&mut self, time: u64) {
        self.total += time;
        self.longest = self.longest.max(time);
    }
}

/// The outcome of a simulation. Times are in milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Time until everything is merged.
    pub took: u64,
    /// Each agent's calls and tokens, and the time for which it is busy.
    pub agents: Vec<(Spent, u64)>,
    /// Time in the queue while work of others is checked.
    pub queue: Wait,
    /// Time until the reviewer has answered.
    pub reviewer: Wait,
    /// Time from a conflict until the work is submitted again.
    pub conflict: Wait,
    /// Number of conflicts at each path.
    pub conflicts: BTreeMap<String, u64>,
    /// Number of submissions that could not be joined.
    pub came_back: u64,
    /// Number of times that a joined tree was checked.
    pub checked: u64,
    /// Time for which the merge train ran checks.
    pub train: u64,
}

impl Outcome {
    /// Returns what all agents spend together.
    #[must_use]
    pub fn spent(&self) -> Spent {
        let mut all = Spent::default();
        self.agents.iter().for_each(|(spent, _)| all += *spent);
        all
    }
}

/// A thing that an agent does.
#[derive(Clone, Debug)]
enum Errand {
    Work(usize),
    /// Work that came back, with the paths that conflict.
    Rework(usize, Vec<String>),
    Review(usize),
}

#[derive(Clone, Debug)]
enum Event {
    Free(usize, Errand),
    Checked(usize),
    /// A person has reviewed.
    Reviewed(usize),
}

/// A piece of work on its way.
#[derive(Clone, Debug, Default)]
struct Piece {
    author: usize,
    /// Number of merged pieces that the author's tree has.
    base: usize,
    /// Number of merged pieces that the checked tree has.
    checked_on: usize,
    is_reviewed: bool,
    /// The time since which it waits for what it waits for now.
    since: u64,
}

struct Play<'a> {
    work: &'a [Work],
    pace: &'a Pace,
    now: u64,
    /// The events by their time, with a number that keeps the order of those at the same time.
    events: BTreeMap<(u64, u64), Event>,
    number: u64,
    pieces: Vec<Piece>,
    next: usize,
    merged: Vec<usize>,
    errands: Vec<VecDeque<Errand>>,
    is_busy: Vec<bool>,
    queue: VecDeque<usize>,
    is_checking: bool,
    outcome: Outcome,
}

/// Plays the work by a team.
#[must_use]
pub fn play(work: &[Work], pace: &Pace) -> Outcome {
    let agents = pace.prompts.len();
    let mut play = Play {
        work,
        pace,
        now: 0,
        events: BTreeMap::new(),
        number: 0,
        pieces: vec![Piece::default(); work.len()],
        next: 0,
        merged: Vec::new(),
        errands: vec![VecDeque::new(); agents],
        is_busy: vec![false; agents],
        queue: VecDeque::new(),
        is_checking: false,
        outcome: Outcome { agents: vec![(Spent::default(), 0); agents], ..Outcome::default() },
    };
    (0..agents).for_each(|agent| play.take(agent));
    while let Some(((at, _), event)) = play.events.pop_first() {
        play.now = at;
        play.happen(event);
    }
    play.outcome
}

impl Play<'_> {
    fn after(&mut self, time: u64, event: Event) {
        self.number += 1;
        self.events.insert((self.now.saturating_add(time), self.number), event);
    }

    /// Gives a free agent its next errand. What others wait for comes before new work.
    fn take(&mut self, agent: usize) {
        if self.is_busy[agent] {
            return;
        }
        let errand = self.errands[agent].pop_front().or_else(|| {
            let piece = self.next;
            (piece < self.work.len()).then(|| {
                self.next += 1;
                Errand::Work(piece)
            })
        });
        let Some(errand) = errand else { return };
        let manner = self.pace.manner;
        let calls = match &errand {
            Errand::Work(piece) => {
                self.pieces[*piece] = Piece { author: agent, base: self.merged.len(), ..Piece::default() };
                script::work(&self.work[*piece], manner)
            }
            Errand::Rework(piece, paths) => {
                self.pieces[*piece].base = self.merged.len();
                script::rework(&self.work[*piece], paths, manner)
            }
            Errand::Review(piece) => script::review(&self.work[*piece], manner),
        };
        let time = self.time(&calls);
        let spent = script::spend(self.pace.prompts[agent], &calls, manner);
        let (sum, busy) = &mut self.outcome.agents[agent];
        *sum += spent;
        *busy += time;
        self.is_busy[agent] = true;
        self.after(time, Event::Free(agent, errand));
    }

    fn time(&self, calls: &[Call]) -> u64 {
        let checks = calls.iter().filter(|call| call.runs_checks).count() as u64;
        calls.len() as u64 * self.pace.call + checks * self.pace.checks
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Free(agent, errand) => {
                self.is_busy[agent] = false;
                match errand {
                    Errand::Work(piece) => self.submit(piece),
                    Errand::Rework(piece, _) => {
                        let waited = self.now - self.pieces[piece].since;
                        self.outcome.conflict.add(waited);
                        self.submit(piece);
                    }
                    Errand::Review(piece) => self.reviewed(piece),
                }
                self.take(agent);
            }
            Event::Checked(piece) => {
                self.is_checking = false;
                self.checked(piece);
                self.advance();
            }
            Event::Reviewed(piece) => self.reviewed(piece),
        }
    }

    fn submit(&mut self, piece: usize) {
        self.pieces[piece].since = self.now;
        self.queue.push_back(piece);
        self.advance();
    }

    /// Lets the train take the next submission that can be joined.
    fn advance(&mut self) {
        while !self.is_checking
            && let Some(piece) = self.queue.pop_front()
        {
            let waited = self.now - self.pieces[piece].since;
            self.outcome.queue.add(waited);
            let own = &self.pieces[piece];
            if own.is_reviewed && own.checked_on == self.merged.len() {
                // What was reviewed is what was checked.
                self.merge(piece);
                continue;
            }
            let mut paths: Vec<String> = self.merged[own.base..]
                .iter()
                // An agent goes on from its own work.
                .filter(|other| self.pieces[**other].author != own.author)
                .flat_map(|other| self.work[piece].conflicts(&self.work[*other]))
                .map(str::to_owned)
                .collect();
            paths.sort();
            paths.dedup();
            if paths.is_empty() {
                self.pieces[piece].checked_on = self.merged.len();
                self.is_checking = true;
                self.outcome.checked += 1;
                self.outcome.train += self.pace.checks;
                self.after(self.pace.checks, Event::Checked(piece));
                return;
            }
            self.outcome.came_back += 1;
            for path in &paths {
                *self.outcome.conflicts.entry(path.clone()).or_default() += 1;
            }
            let found = &mut self.pieces[piece];
            (found.since, found.is_reviewed) = (self.now, false);
            let author = found.author;
            self.errands[author].push_back(Errand::Rework(piece, paths));
            self.take(author);
        }
    }

    fn checked(&mut self, piece: usize) {
        let found = &mut self.pieces[piece];
        if found.is_reviewed || self.pace.review == Review::None {
            self.merge(piece);
            return;
        }
        found.since = self.now;
        // As in flock, it is always the same other agent. Where there is none, a person has to look.
        let reviewer = (self.pace.review == Review::Agent)
            .then(|| (0..self.is_busy.len()).find(|agent| *agent != found.author))
            .flatten();
        match reviewer {
            Some(reviewer) => {
                self.errands[reviewer].push_back(Errand::Review(piece));
                self.take(reviewer);
            }
            None => self.after(self.pace.person, Event::Reviewed(piece)),
        }
    }

    fn reviewed(&mut self, piece: usize) {
        let found = &mut self.pieces[piece];
        found.is_reviewed = true;
        self.outcome.reviewer.add(self.now - found.since);
        self.submit(piece);
    }

    fn merge(&mut self, piece: usize) {
        self.merged.push(piece);
        self.outcome.took = self.now;
    }
}

#[cfg(test)]
mod tests {
    use super::super::history::WorkFile;
    use super::*;

    fn piece(path: &str, line: u32) -> Work {
        let file = WorkFile { path: path.into(), bytes: 400, lines: 4, spans: vec![(line, line)] };
        Work { commit: path.to_owned(), files: vec![file] }
    }

    fn pace(agents: usize, review: Review) -> Pace {
        Pace {
            call: 1_000,
            checks: 10_000,
            person: 600_000,
            review,
            manner: Manner::Sure,
            prompts: vec![5_000; agents],
        }
    }

    /// Calls of one piece with one file, and of a review.
    const CALLS: u64 = 7;
    const REVIEW: u64 = 3;

    #[test]
    fn one_agent_does_one_thing_after_the_other_and_nothing_conflicts() {
        let work: Vec<Work> = (0..3).map(|_| piece("a", 1)).collect();
        let done = play(&work, &pace(1, Review::None));
        assert_eq!((done.spent().calls, done.came_back, done.checked), (3 * CALLS, 0, 3));
        assert_eq!(done.agents[0].1, 3 * (CALLS * 1_000 + 10_000));
        assert_eq!(done.took, 3 * (CALLS * 1_000 + 10_000) + 10_000);
    }

    #[test]
    fn several_agents_wait_for_the_one_train() {
        let work: Vec<Work> = (0..4).map(|at| piece(&format!("f{at}"), 1)).collect();
        let done = play(&work, &pace(4, Review::None));
        let own = CALLS * 1_000 + 10_000;
        assert_eq!(done.took, own + 4 * 10_000, "all submit at once, and one is checked after the other");
        assert_eq!(done.queue, Wait { total: 10_000 + 20_000 + 30_000, longest: 30_000 });
        assert_eq!((done.train, done.came_back), (40_000, 0));
    }

    #[test]
    fn who_changes_the_same_lines_does_the_later_work_again() {
        let work = [piece("a", 5), piece("a", 6)];
        let done = play(&work, &pace(2, Review::None));
        assert_eq!((done.came_back, done.conflicts["a"], done.checked), (1, 1, 2));
        assert_eq!(done.spent().calls, 3 * CALLS);
        assert!(done.conflict.total >= CALLS * 1_000, "{done:?}");
        let apart = play(&[piece("a", 5), piece("a", 50)], &pace(2, Review::None));
        assert_eq!(apart.came_back, 0);
    }

    #[test]
    fn a_reviewer_is_another_agent_or_a_person() {
        let work = [piece("a", 1)];
        let by_agent = play(&work, &pace(2, Review::Agent));
        assert_eq!(by_agent.agents[1].0.calls, REVIEW);
        assert_eq!(by_agent.reviewer.total, REVIEW * 1_000);
        for pace in [pace(2, Review::Person), pace(1, Review::Agent)] {
            assert_eq!(play(&work, &pace).reviewer.total, 600_000);
        }
    }

    #[test]
    fn everything_is_merged_in_the_end_however_it_conflicts() {
        let work: Vec<Work> = (0..40).map(|at| piece(["a", "b"][at % 2], (at as u32 % 5) * 2)).collect();
        for review in [Review::None, Review::Agent, Review::Person] {
            for agents in 1..7 {
                let mut way = pace(agents, review);
                way.manner = [Manner::Sure, Manner::Laborious][agents % 2];
                let done = play(&work, &way);
                assert_eq!(done, play(&work, &way), "the same again");
                assert!(done.took > 0 && done.checked >= 40, "{review:?} {agents}: {done:?}");
                let calls = done.spent().calls;
                assert!(calls >= 40 * CALLS, "{calls}");
            }
        }
    }
}
