//! The main loop: it reads frames, runs jobs and writes frames. There is one thread, and it waits only in `poll`.

use std::collections::{HashSet, VecDeque};
use std::fs::File;
use std::io::{self, Read, Write};
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, FromRawFd};
use std::time::{Duration, Instant};

use crate::delivery::{Arrival, Received, Sent};
use crate::files::Drafts;
use crate::frame::{self, Decoder, Nonce, Number};
use crate::guest::Guests;
use crate::job::{Job, NotStarted, Phase};
use crate::message::{
    Ended, JobRequest, HELLO, CommandExit, Output, MAX_BACKGROUND, MAX_FOREGROUND, Refusal, Reply, Request, Start, VERSION,
};
use crate::streams::{self, Streams};
use crate::sweep::{Living, Sweep, Swept};
use crate::sys::{self, Child, POLLIN, POLLOUT, PollFd, is_transient};

/// Limit on queued answers in bytes. Above it no more requests are read.
const MAX_QUEUED: usize = 4 << 20;
/// Limit on queued answers in bytes above which nothing is read from streams, so that answers to requests do not wait
/// behind much stream data.
const MAX_QUEUED_FOR_STREAMS: usize = 256 << 10;
/// Limit on requests that wait for the end of one background job.
const MAX_WAITERS: usize = 16;

/// Time for which a command waits for room in the sandbox.
const ROOM_LIMIT: Duration = Duration::from_secs(2);
/// Pause between two looks for it.
const ROOM_PAUSE: Duration = Duration::from_millis(5);

pub struct Server {
    /// The standard streams must not be closed, because the kernel would give their descriptors 0 and 1 to the next
    /// file.
    input: ManuallyDrop<File>,
    output: ManuallyDrop<File>,
    signals: File,
    null: File,
    decoder: Decoder,
    nonce: Option<Nonce>,
    /// The frames that were sent and received, if the connection can be resumed.
    delivery: Option<(Sent, Received)>,
    queue: VecDeque<u8>,
    jobs: Vec<Job>,
    /// Commands for whose processes the sandbox had no room, each with the time until which it waits for some. Processes that
    /// were killed count until they are reaped, so the room comes a moment after the end of a command that had it all.
    waiting: Vec<(Start, Instant)>,
    guests: Guests,
    drafts: Drafts,
    streams: Streams,
    last_id: u32,
    next_mark: u64,
    /// All marks are below this value.
    unmarked: u64,
    sweep: Option<Sweep>,
    /// Set when flock or the engine wants this process to end.
    ending: bool,
    buffer: Vec<u8>,
}

impl Server {
    pub fn new() -> io::Result<Self> {
        sys::set_nonblocking(1);
        // SAFETY: 0 and 1 are open for the life of the process, and are never closed.
        let standard = |fd| ManuallyDrop::new(unsafe { File::from_raw_fd(fd) });
        // "No limit" is the largest number and must differ from every mark.
        let unmarked = sys::mark().min(u64::MAX >> 2);
        Ok(Self {
            input: standard(0),
            output: standard(1),
            signals: sys::signals()?,
            null: File::open("/dev/null")?,
            decoder: Decoder::new(HELLO),
            nonce: None,
            delivery: None,
            queue: VecDeque::new(),
            jobs: Vec::new(),
            waiting: Vec::new(),
            guests: Guests::default(),
            drafts: Drafts::default(),
            streams: Streams::default(),
            last_id: 0,
            next_mark: unmarked,
            unmarked,
            sweep: None,
            ending: false,
            buffer: vec![0; 128 * 1024],
        })
    }

    /// Runs until the process is told to end and every process that it started is gone.
    pub fn run(&mut self) {
        while !(self.ending
            && self.sweep.is_none()
            && self.jobs.iter().all(is_over)
            && self.guests.are_gone())
        {
            self.wait();
            self.reap();
            self.expire();
            self.start_waiting();
            self.guests.step(Instant::now());
            self.sweep();
            let admitted = self.guests.admit(&mut self.next_mark);
            self.reply_all(admitted);
            self.answer_ends();
            self.flush();
        }
    }

    fn wait(&mut self) {
        // A negative descriptor is ignored by `poll`. Requests are not read while too many answers are queued.
        let listen = !self.ending && self.queue.len() < MAX_QUEUED;
        let entry = |fd, events| PollFd { fd, events, revents: 0 };
        let mut fds = vec![
            entry(self.signals.as_raw_fd(), POLLIN),
            entry(if listen { 0 } else { -1 }, POLLIN),
            entry(if self.queue.is_empty() { -1 } else { 1 }, POLLOUT),
        ];
        for job in &self.jobs {
            fds.push(entry(job.pipe_fd().unwrap_or(-1), POLLIN));
            fds.push(entry(job.input_fd().unwrap_or(-1), POLLOUT));
        }
        let streams = fds.len();
        fds.extend(self.streams.entries(!self.ending && self.queue.len() < MAX_QUEUED_FOR_STREAMS));
        sys::wait_for(&mut fds, self.patience());

        if fds[0].revents != 0 {
            self.read_signals();
        }
        for (job, ready) in self.jobs.iter_mut().zip(fds[3..streams].chunks_exact(2)) {
            if ready[0].revents != 0 {
                job.read(&mut self.buffer);
            }
            if ready[1].revents != 0 {
                job.feed();
            }
        }
        let mut tell = Vec::new();
        self.streams.ready(&fds[streams..], &mut self.buffer, &mut tell);
        self.tell(tell);
        // Requests come last, because they change the lists of jobs and streams to which the entries belong.
        if fds[1].revents != 0 {
            self.read_requests();
        }
    }

    /// Returns the milliseconds until the next timer, rounded up, or -1 if there is none.
    fn patience(&self) -> i32 {
        let deadlines = self.jobs.iter().filter(|job| job.phase == Phase::Running).filter_map(|j| j.deadline);
        let room = (!self.waiting.is_empty()).then(|| Instant::now() + ROOM_PAUSE);
        let due = deadlines.chain(self.sweep.as_ref().map(Sweep::next)).chain(self.guests.next()).chain(room).min();
        due.map_or(-1, |due| {
            let left = due.saturating_duration_since(Instant::now()) + Duration::from_micros(999);
            i32::try_from(left.as_millis()).unwrap_or(i32::MAX)
        })
    }

    fn read_signals(&mut self) {
        let mut records = [0; 128 * 8];
        while let Ok(count @ 1..) = self.signals.read(&mut records) {
            if records[..count].chunks_exact(128).any(sys::asks_to_end) {
                self.end();
            }
        }
    }

    fn read_requests(&mut self) {
        match self.input.read(&mut self.buffer) {
            // The end of the input means that the engine has closed it.
            Ok(0) => self.end(),
            Ok(count) => {
                self.decoder.push(&self.buffer[..count]);
                while let Some(frame) = self.decoder.next_frame() {
                    self.take(&frame);
                }
            }
            Err(error) if is_transient(&error) => {}
            Err(_) => self.end(),
        }
    }

    /// Handles one frame. An unknown frame, or one of an earlier connection, is ignored.
    fn take(&mut self, frame: &frame::Frame) {
        match Request::decode(frame.kind, &frame.payload) {
            Some(Request::Hello { port, .. }) => self.begin(frame.nonce, port),
            Some(Request::Resume { received, .. }) => self.resume(frame.nonce, received),
            Some(request) if self.nonce == Some(frame.nonce) && self.is_next(frame) => match request {
                Request::Hello { .. } | Request::Resume { .. } => {}
                Request::Keep => self.delivery = Some((Sent::default(), Received::default())),
                Request::Confirm { received, again } => self.confirmed(received, again),
                Request::Start(start) => self.start(start),
                Request::Cancel { request } => self.cancel(request),
                Request::Jobs { request, ask } => self.ask(request, ask),
                Request::Stream { stream, step } => {
                    let mut tell = Vec::new();
                    self.streams.take(stream, step, &mut tell);
                    self.tell(tell);
                }
                Request::Admit { request } => {
                    let reply = self.guests.ask(request);
                    self.reply_all(reply);
                }
                Request::Dismiss { request, mark, end } => {
                    let reply = self.guests.dismiss(request, mark, end);
                    self.reply_all(reply);
                }
                Request::File { request, file } => {
                    let reply = self.drafts.answer(&file);
                    self.reply(&Reply::File { request, reply });
                }
            },
            _ => {}
        }
        if let Some((_, arrived)) = &mut self.delivery
            && let Some(received) = arrived.due()
        {
            self.reply_unnumbered(frame.nonce, &Reply::Confirm { received, again: false });
        }
    }

    /// Returns `true` if the frame is to be handled: it is not one that was there before, and none before it is missing.
    fn is_next(&mut self, frame: &frame::Frame) -> bool {
        let Some((_, arrived)) = &mut self.delivery else { return true };
        match arrived.note(frame) {
            Arrival::Take => true,
            Arrival::Drop => false,
            Arrival::AskAgain => {
                let received = arrived.told();
                self.reply_unnumbered(frame.nonce, &Reply::Confirm { received, again: true });
                false
            }
        }
    }

    fn confirmed(&mut self, received: Number, again: bool) {
        let Some((sent, _)) = &mut self.delivery else { return };
        sent.confirm(received);
        if again {
            sent.kept().for_each(|bytes| self.queue.extend(bytes));
        }
    }

    /// Goes on with a connection over new streams. What was queued is among the frames that are sent again. A connection that is
    /// not known any more is left alone: its client begins a new one.
    fn resume(&mut self, nonce: Nonce, received: Number) {
        let version = VERSION;
        let known = self.delivery.as_mut().filter(|(sent, _)| self.nonce == Some(nonce) && sent.has_after(received));
        let Some((sent, arrived)) = known else {
            return self.reply_unnumbered(nonce, &Reply::Resumed { version, received: None });
        };
        sent.confirm(received);
        let again: Vec<u8> = sent.kept().flatten().copied().collect();
        let arrived = arrived.resumed();
        self.queue = VecDeque::new();
        self.reply_unnumbered(nonce, &Reply::Resumed { version, received: Some(arrived) });
        self.queue.extend(again);
    }

    /// Begins a new connection. The old one's commands are killed and its answers dropped, because nobody waits for
    /// them any more.
    fn begin(&mut self, nonce: Nonce, port: u16) {
        self.nonce = Some(nonce);
        self.delivery = None;
        self.queue = VecDeque::new();
        for job in &mut self.jobs {
            job.waiters.clear();
            if !job.background {
                job.kill(CommandExit::Cancelled);
            }
        }
        self.waiting.clear();
        self.guests.end_all();
        self.drafts.discard();
        let listens = self.streams.listen(port);
        self.reply(&Reply::Welcome { version: VERSION, listens });
    }

    fn start(&mut self, start: Start) {
        let most = if start.background { MAX_BACKGROUND } else { MAX_FOREGROUND };
        let running = self.jobs.iter().filter(|job| job.background == start.background && !is_over(job));
        let waiting = self.waiting.iter().filter(|(other, _)| other.background == start.background);
        if running.count() + waiting.count() >= most {
            let what = if start.background { "background jobs" } else { "commands" };
            return self.refuse(start.request, Refusal::Failed, &format!("{most} {what} run already"));
        }
        self.start_until(start, Instant::now() + ROOM_LIMIT);
    }

    /// Starts a command, now or when there is room for it.
    fn start_until(&mut self, start: Start, until: Instant) {
        // Marks only go down, because an unprivileged process can lower this limit but not raise it.
        self.next_mark -= 1;
        match Job::start(self.last_id + 1, &start, self.next_mark, &self.null) {
            Ok(job) => {
                self.last_id += 1;
                // A background job is answered now, a foreground one when it ends.
                if start.background {
                    self.reply(&Reply::Started { request: start.request, job: job.state() });
                }
                self.jobs.push(job);
            }
            Err(NotStarted::Full(_)) if Instant::now() < until => self.waiting.push((start, until)),
            Err(NotStarted::Full(text) | NotStarted::Failed(text)) => {
                self.refuse(start.request, Refusal::Failed, &text);
            }
        }
    }

    fn start_waiting(&mut self) {
        for (start, until) in std::mem::take(&mut self.waiting) {
            self.start_until(start, until);
        }
    }

    fn cancel(&mut self, request: u32) {
        if let Some(index) = self.waiting.iter().position(|(start, _)| !start.background && start.request == request) {
            self.waiting.remove(index);
            let ended = Ended { end: CommandExit::Cancelled, took_us: 0, survivors: 0 };
            return self.reply(&Reply::Ended { request, ended, output: Output::default() });
        }
        let mut asked = self.jobs.iter_mut().filter(|job| !job.background && job.waiters.contains(&request));
        if let Some(job) = asked.next() {
            job.kill(CommandExit::Cancelled);
        }
    }

    fn ask(&mut self, request: u32, ask: JobRequest) {
        let id = match &ask {
            JobRequest::List => {
                let jobs = self.jobs.iter().filter(|job| job.background).map(Job::state).collect();
                return self.reply(&Reply::Jobs { request, jobs, output: Output::default() });
            }
            JobRequest::Poll(id) | JobRequest::Log(id) | JobRequest::Write(id, _) | JobRequest::Kill(id) => *id,
        };
        let Some(job) = self.jobs.iter_mut().find(|job| job.background && job.id == id) else {
            return self.refuse(request, Refusal::NoJob, "");
        };
        let mut output = Output::default();
        match ask {
            JobRequest::List => {}
            JobRequest::Poll(_) => {
                output = job.output.since(job.polled);
                job.polled = job.output.total;
            }
            JobRequest::Log(_) => output = job.output.all(),
            JobRequest::Write(_, data) => {
                if let Err(text) = job.write(&data) {
                    return self.refuse(request, Refusal::Failed, &text);
                }
            }
            JobRequest::Kill(_) if is_over(job) => {}
            JobRequest::Kill(_) if job.waiters.len() >= MAX_WAITERS => {
                return self.refuse(request, Refusal::Failed, "too many wait for its end");
            }
            JobRequest::Kill(_) => {
                job.kill(CommandExit::Cancelled);
                return job.waiters.push(request);
            }
        }
        let jobs = vec![job.state()];
        self.reply(&Reply::Jobs { request, jobs, output });
    }

    fn reap(&mut self) {
        let mut left = true;
        loop {
            let pid = match sys::ended_child() {
                Child::Ended(pid) => pid,
                Child::Running => break,
                Child::None => {
                    left = false;
                    break;
                }
            };
            match self.jobs.iter_mut().find(|job| job.pid == pid && !matches!(job.phase, Phase::Ended(_))) {
                Some(job) => {
                    // The group is killed before the reaping, after which its id could belong to another process.
                    job.main_ended();
                    job.main_reaped(sys::reap(pid));
                }
                None => drop(sys::reap(pid)),
            }
        }
        // Without any child left, no process of a dying job can be left either.
        if !left && !self.guests.are_dying() {
            self.finish_dying(0);
        }
    }

    fn expire(&mut self) {
        let now = Instant::now();
        for job in &mut self.jobs {
            if job.deadline.is_some_and(|deadline| deadline <= now) {
                job.kill(CommandExit::TimedOut);
            }
        }
    }

    fn sweep(&mut self) {
        let dying = |job: &&Job| matches!(job.phase, Phase::Dying { .. });
        let guests_go = self.guests.are_dying();
        if !guests_go && !self.jobs.iter().any(|job| dying(&job)) {
            self.sweep = None;
            return;
        }
        let marks = self.guests.living().collect();
        let mut living = Living { mains: HashSet::new(), marks, unmarked: self.unmarked, guests_go };
        for job in self.jobs.iter().filter(|job| job.phase == Phase::Running) {
            living.mains.insert(job.pid);
            living.marks.insert(job.mark);
        }
        let now = Instant::now();
        match self.sweep.get_or_insert_with(|| Sweep::new(now)).round(&living, now) {
            Swept::Clean => self.finish_dying(0),
            Swept::Stuck(count) => self.finish_dying(count),
            Swept::Again | Swept::KilledAll => {}
        }
    }

    fn finish_dying(&mut self, survivors: u32) {
        self.sweep = None;
        for job in &mut self.jobs {
            job.finish(survivors);
        }
        let gone = self.guests.finish(survivors);
        self.reply_all(gone);
    }

    /// Answers the waiting requests of ended jobs and forgets the jobs that nobody can ask about any more.
    fn answer_ends(&mut self) {
        for index in 0..self.jobs.len() {
            let Phase::Ended(ended) = self.jobs[index].phase else { continue };
            // Answers contain the kept output and may be large, so they wait while the queue is full.
            while self.queue.len() < MAX_QUEUED
                && let Some(request) = self.jobs[index].waiters.pop()
            {
                let job = &self.jobs[index];
                let reply = if job.background {
                    Reply::Jobs { request, jobs: vec![job.state()], output: Output::default() }
                } else {
                    Reply::Ended { request, ended, output: job.output.all() }
                };
                self.reply(&reply);
            }
        }
        self.jobs.retain(|job| job.background || !is_over(job) || !job.waiters.is_empty());
        let ended = self.jobs.iter().filter(|job| job.background && is_over(job)).count();
        // Of the ended background jobs the newest [`MAX_BACKGROUND`] are remembered.
        let mut forget = ended.saturating_sub(MAX_BACKGROUND);
        self.jobs.retain(|job| {
            let goes = forget > 0 && job.background && is_over(job);
            forget -= usize::from(goes);
            !goes
        });
    }

    fn tell(&mut self, tell: Vec<streams::Tell>) {
        for (stream, step) in tell {
            self.reply(&Reply::Stream { stream, step });
        }
    }

    fn refuse(&mut self, request: u32, why: Refusal, text: &str) {
        self.reply(&Reply::Refused { request, why, text: text.as_bytes().to_vec() });
    }

    fn reply_all(&mut self, replies: impl IntoIterator<Item = Reply>) {
        replies.into_iter().for_each(|reply| self.reply(&reply));
    }

    fn reply(&mut self, reply: &Reply) {
        let Some(nonce) = self.nonce else { return };
        let (kind, payload) = reply.encode();
        let mut bytes = Vec::new();
        if frame::encode(kind, &nonce, &payload, &mut bytes).is_ok() {
            if let Some((sent, _)) = &mut self.delivery {
                sent.add(&mut bytes);
            }
            self.queue.extend(bytes);
        }
    }

    /// Answers with a frame that is not sent again.
    fn reply_unnumbered(&mut self, nonce: Nonce, reply: &Reply) {
        let (kind, payload) = reply.encode();
        let mut bytes = Vec::new();
        if frame::encode(kind, &nonce, &payload, &mut bytes).is_ok() {
            self.queue.extend(bytes);
        }
    }

    fn flush(&mut self) {
        while !self.queue.is_empty() {
            match self.output.write(self.queue.as_slices().0) {
                Ok(count) => drop(self.queue.drain(..count)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // Nobody reads the output. The next hello may come over a stream that is read again.
                Err(_) => self.queue.clear(),
            }
        }
        // Release the memory of large answers.
        if self.queue.capacity() > 256 * 1024 {
            self.queue = VecDeque::new();
        }
    }

    fn end(&mut self) {
        self.ending = true;
        self.waiting.clear();
        for job in &mut self.jobs {
            job.kill(CommandExit::Cancelled);
        }
        self.guests.end_all();
    }
}

fn is_over(job: &Job) -> bool {
    matches!(job.phase, Phase::Ended(_))
}
