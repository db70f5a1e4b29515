//! Connections that break, come again, or carry what is no message, seen from both sides.

use std::fs::File;
use std::io::{Read, Write};
use std::sync::Arc;

use flock::sandbox::helper::frame::{self, Decoder, MAX_PAYLOAD, Nonce};
use flock::sandbox::helper::message::{
    CommandExit, Ended, JobRequest, MAX_DATA, Output, Refusal, Reply, Request, Start, Step, VERSION, WELCOME,
};
use flock::sandbox::helper::{HelperError, PortForward};
use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

pub const NONCE: Nonce = *b"0123456789abcdef";

pub fn bytes(nonce: Nonce, request: &Request) -> Vec<u8> {
    let (kind, payload) = request.encode();
    let mut out = Vec::new();
    frame::encode(kind, &nonce, &payload, &mut out).unwrap();
    out
}

fn hello(nonce: Nonce) -> Vec<u8> {
    bytes(nonce, &Request::Hello { version: VERSION, port: 0 })
}

fn start(request: u32, command: &str) -> Request {
    Request::Start(Start {
        request,
        keep: 1000,
        command: command.as_bytes().to_vec(),
        workdir: b"/".to_vec(),
        env: vec![b"PATH=/usr/bin:/bin".to_vec()],
        ..Start::default()
    })
}

/// A client that sends any bytes and reads replies.
pub struct Raw {
    input: File,
    output: File,
    decoder: Decoder,
}

impl Raw {
    pub fn of(helper: &Helper) -> Self {
        let input = helper.input.as_ref().unwrap().try_clone().unwrap().into();
        let output = helper.output.try_clone().unwrap().into();
        Self { input, output, decoder: Decoder::new(WELCOME) }
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.input.write_all(bytes).unwrap();
    }

    pub fn reply(&mut self, nonce: Nonce) -> Reply {
        let mut buffer = [0; 4096];
        loop {
            while let Some(frame) = self.decoder.next_frame() {
                if frame.nonce == nonce {
                    return Reply::decode(frame.kind, &frame.payload).unwrap();
                }
            }
            let count = self.output.read(&mut buffer).unwrap();
            assert!(count > 0, "the helper is gone");
            self.decoder.push(&buffer[..count]);
        }
    }

    pub fn greet(&mut self, nonce: Nonce) {
        self.send(&hello(nonce));
        while !matches!(self.reply(nonce), Reply::Welcome { version: VERSION, .. }) {}
    }

    pub fn runs(&mut self, nonce: Nonce) {
        self.send(&bytes(nonce, &start(77, "echo fine")));
        loop {
            if let Reply::Ended { request: 77, output, .. } = self.reply(nonce) {
                return assert_eq!(output.head, b"fine\n");
            }
        }
    }
}

#[test]
fn a_hello_is_heard_after_any_part_of_a_frame() {
    let helper = Helper::start();
    let mut raw = Raw::of(&helper);
    raw.greet(NONCE);
    let whole = bytes(NONCE, &start(1, &"echo x;".repeat(10_000)));
    for cut in [1, 3, 4, 5, 12, 31, 32, 33, 40, 4096, 65_536, whole.len() - 1] {
        raw.send(&whole[..cut]);
        let nonce = [cut as u8; 16];
        raw.greet(nonce);
        raw.runs(nonce);
    }
}

#[test]
fn what_is_no_frame_of_the_connection_counts_for_nothing() {
    let helper = Helper::start();
    let mut raw = Raw::of(&helper);
    raw.send(&bytes(NONCE, &start(1, "touch before-hello")));
    raw.greet(NONCE);
    raw.send(&bytes([7; 16], &start(2, "touch wrong-nonce")));
    let mut unknown = Vec::new();
    for kind in [0, 5, 64, 65, 255] {
        frame::encode(kind, &NONCE, b"whatever", &mut unknown).unwrap();
    }
    for kind in 1..5 {
        frame::encode(kind, &NONCE, &[0xff; 40], &mut unknown).unwrap();
    }
    raw.send(&unknown);
    let mut torn = bytes(NONCE, &start(3, "touch torn"));
    *torn.last_mut().unwrap() ^= 1;
    raw.send(&torn);
    let mut huge = bytes(NONCE, &start(4, "true"));
    huge[8..12].copy_from_slice(&(MAX_PAYLOAD as u32 + 1).to_le_bytes());
    raw.send(&huge);
    raw.send(&[0xF1; 5000]);
    raw.send(&(0..100_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect::<Vec<u8>>());
    raw.runs(NONCE);
    assert!(processes().iter().any(|(pid, ..)| *pid == helper.pid()));
}

#[test]
fn a_reader_that_does_not_read_does_not_stop_the_next_one() {
    let helper = Helper::start();
    let mut raw = Raw::of(&helper);
    raw.greet(NONCE);
    // More answers than a pipe and the helper's own queue hold, so that the last is cut in the middle.
    let big = Start {
        request: 1,
        background: true,
        keep: 700_000,
        command: b"yes | head -c 700000".to_vec(),
        workdir: b"/".to_vec(),
        env: vec![b"PATH=/usr/bin:/bin".to_vec()],
        ..Start::default()
    };
    raw.send(&bytes(NONCE, &Request::Start(big)));
    let Reply::Started { job, .. } = raw.reply(NONCE) else { panic!("it is started") };
    let total = |raw: &mut Raw| {
        raw.send(&bytes(NONCE, &Request::Jobs { request: 2, ask: JobRequest::List }));
        match raw.reply(NONCE) {
            Reply::Jobs { jobs, .. } => jobs[0].total,
            other => panic!("{other:?}"),
        }
    };
    wait_until("the output", LIMIT, || match total(&mut raw) {
        700_000 => Ok(()),
        total => Err(total.to_string()),
    });
    for request in 10..20 {
        raw.send(&bytes(NONCE, &Request::Jobs { request, ask: JobRequest::Log(job.id) }));
    }
    raw.greet([9; 16]);
    raw.runs([9; 16]);
}

#[test]
fn a_new_connection_ends_the_old_ones_commands_and_keeps_its_jobs() {
    let helper = Helper::start();
    let mut raw = Raw::of(&helper);
    raw.greet(NONCE);
    let Request::Start(job) = start(1, "echo kept; setsid sleep 1000 & sleep 1000") else { panic!() };
    raw.send(&bytes(NONCE, &Request::Start(Start { background: true, ..job })));
    let Reply::Started { job, .. } = raw.reply(NONCE) else { panic!("it is started") };
    raw.send(&bytes(NONCE, &start(2, "setsid sleep 1000 & sleep 1000")));
    let grows_to = |count| {
        wait_until("the processes", LIMIT, || match helper.descendants().len() {
            found if found == count => Ok(()),
            found => Err(found.to_string()),
        });
    };
    grows_to(6);
    raw.greet([9; 16]);
    grows_to(3);
    raw.send(&bytes([9; 16], &Request::Jobs { request: 3, ask: JobRequest::Log(job.id) }));
    match raw.reply([9; 16]) {
        Reply::Jobs { request: 3, jobs, output } => {
            assert_eq!((output.head.as_slice(), jobs[0].end), (b"kept\n".as_slice(), None));
        }
        other => panic!("{other:?}"),
    }
    raw.runs([9; 16]);
}

/// Takes streams and sends back what they say.
pub fn echo() -> PortForward {
    PortForward {
        port: 1,
        accept: Arc::new(|stream| {
            tokio::spawn(async move {
                let (mut reader, mut writer) = tokio::io::split(stream);
                let _ = tokio::io::copy(&mut reader, &mut writer).await;
                let _ = writer.shutdown().await;
            });
        }),
    }
}

/// A helper that is not one: reads the hello, and answers with what `answer` makes of its nonce.
pub async fn faked(
    answer: impl FnOnce(Nonce) -> Vec<u8> + Send + 'static,
) -> Result<HelperClient, HelperError> {
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    tokio::spawn(async move {
        let (mut reader, mut writer) = tokio::io::split(theirs);
        let mut hello = [0; 40];
        reader.read_exact(&mut hello).await.unwrap();
        let nonce: Nonce = hello[12..28].try_into().unwrap();
        let _ = writer.write_all(&answer(nonce)).await;
        let mut rest = Vec::new();
        let _ = reader.read_to_end(&mut rest).await;
    });
    let (reader, writer) = tokio::io::split(ours);
    HelperClient::attach(reader, writer, Some(echo())).await
}

pub fn replies(nonce: Nonce, replies: &[Reply]) -> Vec<u8> {
    let mut out = Vec::new();
    for reply in replies {
        let (kind, payload) = reply.encode();
        frame::encode(kind, &nonce, &payload, &mut out).unwrap();
    }
    out
}

#[tokio::test]
async fn a_client_skips_what_an_earlier_connection_left_and_checks_the_version() {
    let client = faked(|nonce| {
        let stale = replies([3; 16], &[Reply::Welcome { version: 99, listens: false }]);
        let welcome = replies(nonce, &[Reply::Welcome { version: VERSION, listens: false }]);
        // An unfinished frame of the old connection just before.
        [stale.as_slice(), &replies([3; 16], &[Reply::Welcome { version: 1, listens: true }])[..34], &welcome]
            .concat()
    });
    assert!(client.await.unwrap().is_alive());
    let other =
        faked(|nonce| replies(nonce, &[Reply::Welcome { version: VERSION + 1, listens: false }])).await;
    assert!(matches!(other, Err(HelperError::Version(found)) if found == VERSION + 1));
    let (ours, theirs) = tokio::io::duplex(64);
    drop(theirs);
    let (reader, writer) = tokio::io::split(ours);
    assert!(matches!(HelperClient::attach(reader, writer, None).await, Err(HelperError::Lost(_))));
}

#[tokio::test]
async fn answers_that_nobody_asked_for_or_that_do_not_fit_do_no_harm() {
    let client = faked(|nonce| {
        let mut out = replies(nonce, &[Reply::Welcome { version: VERSION, listens: false }]);
        out.extend([0xF1, 0x0C, b'k', 1, 200, 0, 0, 0]);
        for request in (0..200).filter(|request| *request != 1) {
            out.extend(replies(nonce, &[Reply::Jobs { request, jobs: vec![], output: Default::default() }]));
        }
        out
    })
    .await
    .unwrap();
    // Whether or not the reply to request 1 is read before it is asked for, it is no end of a command.
    let cancel = CancellationToken::new();
    let command = sh("true");
    tokio::select! {
        result = client.run(&command, &cancel) => assert!(result.is_err()),
        () = tokio::time::sleep(Duration::from_millis(50)) => {}
    }
    assert!(client.is_alive());
}

#[tokio::test]
async fn a_stream_of_broken_frames_is_given_up() {
    let client = faked(|nonce| {
        let mut out = replies(nonce, &[Reply::Welcome { version: VERSION, listens: false }]);
        let mut broken =
            replies(nonce, &[Reply::Jobs { request: 1, jobs: vec![], output: Default::default() }]);
        broken[28] ^= 1;
        (0..100).for_each(|_| out.extend(&broken));
        out
    })
    .await
    .unwrap();
    let error = client.run(&sh("true"), &CancellationToken::new()).await.unwrap_err();
    assert!(matches!(error, HelperError::Lost(_)), "{error}");
    assert!(!client.is_alive());
}

/// Any step of a stream.
fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        Just(Step::Open),
        proptest::collection::vec(any::<u8>(), 0..MAX_DATA).prop_map(Step::Data),
        any::<u32>().prop_map(Step::Credit),
        Just(Step::End),
        Just(Step::Reset),
    ]
}

/// What a container could send: true replies, whole or cut or with a byte changed, and noise.
fn hostile() -> impl Strategy<Value = Vec<(Reply, u8, prop::sample::Index, u8)>> {
    let request = 0..4_u32;
    let reply = prop_oneof![
        Just(Reply::Welcome { version: VERSION, listens: false }),
        (request.clone(), any::<Vec<u8>>()).prop_map(|(request, text)| Reply::Refused {
            request,
            why: Refusal::NoJob,
            text
        }),
        (request.clone(), any::<u64>(), any::<Vec<u8>>()).prop_map(|(request, took_us, head)| {
            let ended = Ended { end: CommandExit::Exited(-1), took_us, survivors: u32::MAX };
            let output = Output { total: u64::MAX, tail: head.clone(), head };
            Reply::Ended { request, ended, output }
        }),
        request.clone().prop_map(|request| Reply::Jobs {
            request,
            jobs: Vec::new(),
            output: Output::default()
        }),
        (request.clone(), any::<u64>()).prop_map(|(request, mark)| Reply::Admitted { request, mark }),
        (request, any::<u32>()).prop_map(|(request, survivors)| Reply::Dismissed { request, survivors }),
        (0..4_u32, step()).prop_map(|(stream, step)| Reply::Stream { stream, step }),
    ];
    proptest::collection::vec((reply, 0..4_u8, any::<prop::sample::Index>(), any::<u8>()), 0..20)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_client_survives_whatever_a_container_sends(sent in hostile(), closes: bool) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let client = faked(move |nonce| {
                let mut out = replies(nonce, &[Reply::Welcome { version: VERSION, listens: false }]);
                for (reply, how, at, byte) in sent {
                    let mut bytes = replies(nonce, &[reply]);
                    let at = at.index(bytes.len());
                    match how {
                        0 => {}
                        1 => bytes.truncate(at),
                        2 => bytes[at] ^= byte,
                        _ => bytes = vec![byte; at],
                    }
                    out.extend(bytes);
                }
                out
            })
            .await
            .unwrap();
            let cancel = CancellationToken::new();
            let command = sh("true");
            let run = client.run(&command, &cancel);
            if closes {
                let _ = tokio::time::timeout(Duration::from_millis(5), run).await;
            } else {
                let list = client.jobs(flock::sandbox::JobRequest::List);
                let _ = tokio::time::timeout(Duration::from_millis(5), async { tokio::join!(run, list) }).await;
            }
        });
    }
}
