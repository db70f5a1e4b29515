//! What comes for a session while its turn runs, for tests.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use flock::agent::{Delivery, Inbox, Provenance};
use flock::provider::BoxFuture;

type Hook = Box<dyn Fn(usize) + Send + Sync>;

/// Gives what it was given, one group before each model call but the first.
#[derive(Default)]
pub struct Feed {
    groups: Mutex<VecDeque<VecDeque<Delivery>>>,
    pub rooms: Mutex<Vec<u64>>,
    pub committed: Mutex<Vec<Provenance>>,
    takes: AtomicUsize,
    pub on_take: Option<Hook>,
    pub on_committed: Option<Hook>,
}

impl Feed {
    pub fn of<const N: usize>(groups: [Vec<Delivery>; N]) -> Self {
        let groups = groups.into_iter().map(VecDeque::from).collect();
        Self { groups: Mutex::new(groups), ..Self::default() }
    }

    pub fn committed(&self) -> Vec<Provenance> {
        self.committed.lock().unwrap().clone()
    }

    pub fn takes(&self) -> usize {
        self.takes.load(Ordering::SeqCst)
    }
}

impl Inbox for Feed {
    fn take(&self, room: u64) -> BoxFuture<'_, Option<Delivery>> {
        Box::pin(async move {
            let number = self.takes.fetch_add(1, Ordering::SeqCst);
            if let Some(hook) = &self.on_take {
                hook(number);
            }
            self.rooms.lock().unwrap().push(room);
            let mut groups = self.groups.lock().unwrap();
            let delivery = groups.front_mut()?.pop_front();
            if delivery.is_none() {
                groups.pop_front();
            }
            delivery
        })
    }

    fn committed<'a>(&'a self, provenance: &'a Provenance) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let number = {
                let mut committed = self.committed.lock().unwrap();
                committed.push(provenance.clone());
                committed.len() - 1
            };
            if let Some(hook) = &self.on_committed {
                hook(number);
            }
        })
    }
}

/// Messages `from` to `to` of the channel `dev`.
pub fn channel(from: i64, to: i64) -> Provenance {
    Provenance::Channel { channel: "dev".parse().unwrap(), from, to }
}

pub fn delivery(seq: i64, text: &str) -> Delivery {
    Delivery { text: text.to_owned(), provenance: channel(seq, seq) }
}
