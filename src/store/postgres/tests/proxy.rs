//! A server in between that loses answers, and one that refuses everybody.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// A proxy in front of a server.
pub(in crate::store) struct Proxy {
    pub(in crate::store) port: u16,
    faults: Arc<Faults>,
}

#[derive(Default)]
struct Faults {
    /// The next commit reaches the server, and its answer reaches nobody.
    loses_commit: AtomicBool,
    /// Nobody is let through any more.
    is_closed: AtomicBool,
    /// Set once an answer was lost.
    has_lost: AtomicBool,
    closes_after_loss: AtomicBool,
    open: Mutex<Vec<TcpStream>>,
}

impl Proxy {
    /// Starts a proxy in front of the server at `address`, as in `127.0.0.1:5432`.
    pub(in crate::store) fn start(address: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let faults = Arc::new(Faults::default());
        let (shared, address) = (Arc::clone(&faults), address.to_owned());
        thread::spawn(move || {
            for client in listener.incoming() {
                let Ok(client) = client else { return };
                if shared.is_closed.load(Ordering::SeqCst) {
                    continue;
                }
                let server = TcpStream::connect(&address).unwrap();
                for stream in [&client, &server] {
                    stream.set_nodelay(true).unwrap();
                    shared.open.lock().unwrap().push(stream.try_clone().unwrap());
                }
                pass(client, server, &shared);
            }
        });
        Self { port, faults }
    }

    /// Lets the next commit through, and loses its answer together with the connection.
    pub(super) fn lose_next_commit(&self, then_close: bool) {
        self.faults.has_lost.store(false, Ordering::SeqCst);
        self.faults.closes_after_loss.store(then_close, Ordering::SeqCst);
        self.faults.loses_commit.store(true, Ordering::SeqCst);
    }

    pub(super) fn has_lost(&self) -> bool {
        self.faults.has_lost.load(Ordering::SeqCst)
    }

    /// Breaks all connections.
    pub(in crate::store) fn break_all(&self) {
        self.faults.break_all();
    }

    pub(super) fn open_again(&self) {
        self.faults.is_closed.store(false, Ordering::SeqCst);
    }
}

impl Faults {
    fn break_all(&self) {
        for stream in self.open.lock().unwrap().drain(..) {
            // It may be closed already.
            drop(stream.shutdown(Shutdown::Both));
        }
    }
}

/// The message of a commit: its kind, its length, its text.
const COMMIT: &[u8] = b"Q\0\0\0\x0bCOMMIT\0";

fn pass(client: TcpStream, server: TcpStream, faults: &Arc<Faults>) {
    let is_lost = Arc::new(AtomicBool::new(false));
    let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    let (shared, lost) = (Arc::clone(faults), Arc::clone(&is_lost));
    thread::spawn(move || {
        let mut bytes = [0; 64 << 10];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            // A query of the simple protocol with this text alone: that of a sync ends with it too.
            let is_commit = bytes[..count].windows(COMMIT.len()).any(|part| part == COMMIT);
            if is_commit && shared.loses_commit.swap(false, Ordering::SeqCst) {
                lost.store(true, Ordering::SeqCst);
            }
            if to.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        drop(to.shutdown(Shutdown::Write));
    });
    let (mut from, mut to, shared) = (server, client, Arc::clone(faults));
    thread::spawn(move || {
        let mut bytes = [0; 64 << 10];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            if is_lost.load(Ordering::SeqCst) {
                if shared.closes_after_loss.load(Ordering::SeqCst) {
                    shared.is_closed.store(true, Ordering::SeqCst);
                }
                shared.has_lost.store(true, Ordering::SeqCst);
                break;
            }
            if to.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        drop(to.shutdown(Shutdown::Both));
    });
}

/// Starts a server that asks for a password and refuses it. Returns its port, and where the password is then.
pub(super) fn refusing() -> (u16, Arc<Mutex<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let given = Arc::new(Mutex::new(String::new()));
    let kept = Arc::clone(&given);
    thread::spawn(move || {
        for client in listener.incoming() {
            let Ok(mut client) = client else { return };
            let mut length = [0; 4];
            client.read_exact(&mut length).unwrap();
            let mut startup = vec![0; u32::from_be_bytes(length) as usize - 4];
            client.read_exact(&mut startup).unwrap();
            // The password in clear, please.
            client.write_all(&[b'R', 0, 0, 0, 8, 0, 0, 0, 3]).unwrap();
            let mut head = [0; 5];
            if client.read_exact(&mut head).is_err() {
                continue;
            }
            let mut password = vec![0; u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize - 4];
            client.read_exact(&mut password).unwrap();
            password.pop();
            *kept.lock().unwrap() = String::from_utf8(password).unwrap();
            let fields = b"SFATAL\0VFATAL\0C28P01\0Mpassword authentication failed for user \"flock\"\0\0";
            let mut answer = vec![b'E'];
            answer.extend(u32::try_from(fields.len() + 4).unwrap().to_be_bytes());
            answer.extend(fields);
            client.write_all(&answer).unwrap();
        }
    });
    (port, given)
}
