//! Streams: connections of programs in the sandbox to a port on its loopback, carried to flock. The programs are not
//! trusted. Each stream has a window, and one that does not read does not delay the others.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::fd::AsRawFd;

use crate::message::{MAX_DATA, MAX_STREAMS, Step, WINDOW};
use crate::sys::{POLLIN, POLLOUT, PollFd, is_transient};

/// A step of a stream to send to flock.
pub type Tell = (u32, Step);

#[derive(Default)]
pub struct Streams {
    listener: Option<(u16, TcpListener)>,
    open: BTreeMap<u32, Stream>,
    last: u32,
}

struct Stream {
    socket: TcpStream,
    /// Bytes from flock that the program has not read yet.
    unsent: VecDeque<u8>,
    /// Bytes that the program has read and for which flock has no credit yet.
    taken: usize,
    /// Bytes that flock still accepts.
    credit: usize,
    /// `true` after the program has sent everything.
    read_ended: bool,
    /// `true` after flock has sent everything.
    write_ended: bool,
    /// `true` after the program was told that flock has sent everything.
    shut: bool,
}

impl Streams {
    /// Ends all streams and listens on `port` from now on, or nowhere if it is 0. Returns `true` if it listens. A port
    /// that is bound already stays bound, so that no program can take it in between.
    pub fn listen(&mut self, port: u16) -> bool {
        self.open.clear();
        if self.listener.as_ref().is_none_or(|(bound, _)| *bound != port) {
            self.listener = if port == 0 { None } else { bind(port).ok().map(|listener| (port, listener)) };
        }
        self.listener.is_some()
    }

    /// Returns the `poll` entries of the listener and of every stream in order. Without `room` for more output, only
    /// streams that can deliver data to a program are waited for.
    pub fn entries(&self, room: bool) -> Vec<PollFd> {
        let entry = |fd: Option<i32>, events| PollFd { fd: fd.unwrap_or(-1), events, revents: 0 };
        let accepts = room && self.open.len() < MAX_STREAMS;
        let listener = self.listener.as_ref().filter(|_| accepts).map(|(_, listener)| listener.as_raw_fd());
        let mut entries = vec![entry(listener, POLLIN)];
        for stream in self.open.values() {
            let reads = room && stream.credit > 0 && !stream.read_ended;
            let writes = !stream.unsent.is_empty();
            let events = if reads { POLLIN } else { 0 } | if writes { POLLOUT } else { 0 };
            // `poll` reports a hang-up even if no event is asked for. A stream that waits for nothing must not wake the
            // loop again and again.
            entries.push(entry((events != 0).then(|| stream.socket.as_raw_fd()), events));
        }
        entries
    }

    /// Handles the events that `poll` filled into [`Streams::entries`].
    pub fn ready(&mut self, entries: &[PollFd], buffer: &mut [u8], tell: &mut Vec<Tell>) {
        let Some((listener, entries)) = entries.split_first() else { return };
        let woken: Vec<u32> = self
            .open
            .keys()
            .zip(entries)
            .filter(|(_, entry)| entry.revents != 0)
            .map(|(id, _)| *id)
            .collect();
        for ((id, stream), entry) in self.open.iter_mut().zip(entries) {
            if entry.revents != 0 && entry.events & POLLIN != 0 {
                stream.read(*id, buffer, tell);
            }
            if entry.revents != 0 && entry.events & POLLOUT != 0 {
                stream.feed(*id, tell);
            }
        }
        for id in woken {
            self.forget_if_over(id, tell);
        }
        if listener.revents != 0 {
            self.accept(tell);
        }
    }

    /// Handles a step sent by flock. A step of an unknown stream is ignored.
    pub fn take(&mut self, id: u32, step: Step, tell: &mut Vec<Tell>) {
        let Some(stream) = self.open.get_mut(&id) else { return };
        match step {
            Step::Open => {}
            Step::Data(data) => {
                // Bytes that were read but not credited still count for the window.
                if stream.write_ended || stream.unsent.len() + stream.taken + data.len() > WINDOW {
                    tell.push((id, Step::Reset));
                } else {
                    stream.unsent.extend(data);
                    stream.feed(id, tell);
                }
            }
            Step::Credit(more) => stream.credit = (stream.credit + more as usize).min(WINDOW),
            Step::End => {
                stream.write_ended = true;
                stream.feed(id, tell);
            }
            // The program may still read what flock sent before the end.
            Step::Reset if stream.write_ended => stream.read_ended = true,
            Step::Reset => drop(self.open.remove(&id)),
        }
        self.forget_if_over(id, tell);
    }

    fn accept(&mut self, tell: &mut Vec<Tell>) {
        while self.open.len() < MAX_STREAMS {
            let Some((_, listener)) = &self.listener else { return };
            let Ok((socket, _)) = listener.accept() else { return };
            if socket.set_nonblocking(true).is_err() {
                continue;
            }
            let _ = socket.set_nodelay(true);
            self.last = self.last.wrapping_add(1);
            self.open.insert(
                self.last,
                Stream {
                    socket,
                    unsent: VecDeque::new(),
                    taken: 0,
                    credit: WINDOW,
                    read_ended: false,
                    write_ended: false,
                    shut: false,
                },
            );
            tell.push((self.last, Step::Open));
        }
    }

    fn forget_if_over(&mut self, id: u32, tell: &[Tell]) {
        let reset = tell.iter().any(|(told, step)| *told == id && *step == Step::Reset);
        if reset || self.open.get(&id).is_some_and(|stream| stream.read_ended && stream.shut) {
            self.open.remove(&id);
        }
    }
}

impl Stream {
    fn read(&mut self, id: u32, buffer: &mut [u8], tell: &mut Vec<Tell>) {
        let most = self.credit.min(MAX_DATA).min(buffer.len());
        match self.socket.read(&mut buffer[..most]) {
            Ok(0) => {
                self.read_ended = true;
                tell.push((id, Step::End));
            }
            Ok(count) => {
                self.credit -= count;
                tell.push((id, Step::Data(buffer[..count].to_vec())));
            }
            Err(error) if is_transient(&error) => {}
            Err(_) => tell.push((id, Step::Reset)),
        }
    }

    fn feed(&mut self, id: u32, tell: &mut Vec<Tell>) {
        while !self.unsent.is_empty() {
            match self.socket.write(self.unsent.as_slices().0) {
                Ok(count) => {
                    self.unsent.drain(..count);
                    self.taken += count;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => return tell.push((id, Step::Reset)),
            }
        }
        if self.taken >= WINDOW / 2 && !self.write_ended {
            tell.push((id, Step::Credit(self.taken as u32)));
            self.taken = 0;
        }
        if self.write_ended && self.unsent.is_empty() && !self.shut {
            self.shut = true;
            let _ = self.socket.shutdown(Shutdown::Write);
        }
    }
}

fn bind(port: u16) -> io::Result<TcpListener> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}
