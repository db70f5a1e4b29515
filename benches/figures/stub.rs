//! A model that answers at once: OpenAI's streamed chat completions, the same bytes each time.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// When the stub is slow, it waits this long between the first piece and the second.
pub const PAUSE: Duration = Duration::from_millis(30);

/// Whether it waits in the middle of its answer.
pub static SLOW: AtomicBool = AtomicBool::new(false);

/// When the first piece of the last slow answer was written, in nanoseconds since the epoch.
pub static WRITTEN: AtomicU64 = AtomicU64::new(0);

/// How many calls of [`TOOL`] it makes, one after the other, before it answers in words.
pub static CALLS: AtomicUsize = AtomicUsize::new(0);

/// The tool that it calls: an MCP server's that gives its text back.
pub const TOOL: &str = "mcp_tools_echo";

/// Serves on a port of its own until the process ends.
pub fn start() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || serve(stream));
        }
    });
    port
}

pub fn now() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos()).unwrap()
}

/// Reads a request into `body`, without its head. Returns `None` if there is none any more.
pub fn read_request(stream: &mut BufReader<TcpStream>, body: &mut Vec<u8>) -> Option<()> {
    let (mut line, mut length) = (String::new(), 0);
    loop {
        line.clear();
        if stream.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let lower = line.trim().to_ascii_lowercase();
        if lower.is_empty() {
            break;
        }
        if let Some(value) = lower.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    body.resize(length, 0);
    stream.read_exact(body).ok()
}

fn serve(stream: TcpStream) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut stream = BufReader::new(stream);
    let mut body = Vec::new();
    loop {
        read_request(&mut stream, &mut body)?;
        let chunk = |data: &str| format!("{:x}\r\n{data}\r\n", data.len());
        let event = |delta: &str, end: &str| {
            format!(
                "data: {{\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"instant\",\"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":{end}}}]}}\n\n"
            )
        };
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
        let first = chunk(&event(r#"{"role":"assistant","content":"All"}"#, "null"));
        let rest = [
            event(r#"{"content":" is well."}"#, "null"),
            event("{}", r#""stop""#),
            "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"instant\",\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":4,\"total_tokens\":13}}\n\n".to_owned(),
            "data: [DONE]\n\n".to_owned(),
        ]
        .concat();
        let rest = format!("{}0\r\n\r\n", chunk(&rest));
        let done = occurrences(&body, br#""role":"tool""#);
        if done < CALLS.load(Ordering::Relaxed) {
            let call = format!(
                r#"{{"role":"assistant","tool_calls":[{{"index":0,"id":"call_{done}","type":"function","function":{{"name":"{TOOL}","arguments":"{{\"text\":\"{done}\"}}"}}}}]}}"#
            );
            let call = [event(&call, "null"), event("{}", r#""tool_calls""#), "data: [DONE]\n\n".to_owned()]
                .concat();
            stream.get_mut().write_all(format!("{head}{}0\r\n\r\n", chunk(&call)).as_bytes()).ok()?;
            continue;
        }
        if SLOW.load(Ordering::Relaxed) {
            WRITTEN.store(now(), Ordering::SeqCst);
            stream.get_mut().write_all(format!("{head}{first}").as_bytes()).ok()?;
            let end = Instant::now() + PAUSE;
            std::thread::sleep(end.saturating_duration_since(Instant::now()));
            stream.get_mut().write_all(rest.as_bytes()).ok()?;
        } else {
            stream.get_mut().write_all(format!("{head}{first}{rest}").as_bytes()).ok()?;
        }
    }
}

fn occurrences(text: &[u8], word: &[u8]) -> usize {
    text.windows(word.len()).filter(|window| *window == word).count()
}
