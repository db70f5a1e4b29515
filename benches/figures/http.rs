//! As little HTTP as measuring needs: one kept connection, so that the client costs next to nothing.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// A kept connection to 127.0.0.1.
pub struct Connection {
    stream: BufReader<TcpStream>,
    authorization: String,
}

impl Connection {
    pub fn open(port: u16, token: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        let authorization =
            if token.is_empty() { String::new() } else { format!("authorization: Bearer {token}\r\n") };
        Ok(Self { stream: BufReader::new(stream), authorization })
    }

    pub fn get(&mut self, path: &str) -> io::Result<Vec<u8>> {
        self.send("GET", path, "", b"")?;
        self.answer(|_| ())
    }

    /// Posts JSON, and returns the answer's body.
    pub fn post(&mut self, path: &str, body: &str) -> io::Result<Vec<u8>> {
        self.send("POST", path, "", body.as_bytes())?;
        self.answer(|_| ())
    }

    /// One chat completion; the time it took.
    pub fn chat(&mut self, agent: &str, session: Option<&str>) -> io::Result<Duration> {
        let began = Instant::now();
        let body = format!(r#"{{"model":"{agent}","messages":[{{"role":"user","content":"hello"}}]}}"#);
        let key = session.map(|key| format!("x-openclaw-session-key: {key}\r\n")).unwrap_or_default();
        self.send("POST", "/v1/chat/completions", &key, body.as_bytes())?;
        self.answer(|_| ())?;
        Ok(began.elapsed())
    }

    /// One streamed chat completion; calls `seen` at each piece of the body as it arrives.
    pub fn stream(&mut self, agent: &str, seen: impl FnMut(&[u8])) -> io::Result<()> {
        let body = format!(
            r#"{{"model":"{agent}","stream":true,"messages":[{{"role":"user","content":"hello"}}]}}"#
        );
        self.send("POST", "/v1/chat/completions", "", body.as_bytes())?;
        self.answer(seen).map(drop)
    }

    /// A request to the model's stub itself, as the gateway makes it: what a turn can't be faster than.
    pub fn ask_stub(&mut self) -> io::Result<Duration> {
        let began = Instant::now();
        self.send("POST", "/v1/chat/completions", "", b"{}")?;
        self.answer(|_| ())?;
        Ok(began.elapsed())
    }

    fn send(&mut self, method: &str, path: &str, headers: &str, body: &[u8]) -> io::Result<()> {
        let mut request = format!(
            "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n{}{headers}content-length: {}\r\n\r\n",
            self.authorization,
            body.len()
        )
        .into_bytes();
        request.extend_from_slice(body);
        self.stream.get_mut().write_all(&request)
    }

    fn answer(&mut self, mut seen: impl FnMut(&[u8])) -> io::Result<Vec<u8>> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        let ok = line.starts_with("HTTP/1.1 200") || line.starts_with("HTTP/1.1 201");
        let status = line.trim().to_owned();
        let (mut length, mut chunked) = (0usize, false);
        loop {
            line.clear();
            if self.stream.read_line(&mut line)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let lower = line.trim().to_ascii_lowercase();
            if lower.is_empty() {
                break;
            }
            if let Some(value) = lower.strip_prefix("content-length:") {
                length = value.trim().parse().map_err(io::Error::other)?;
            }
            chunked |= lower == "transfer-encoding: chunked";
        }
        let mut body = Vec::new();
        if chunked {
            loop {
                line.clear();
                self.stream.read_line(&mut line)?;
                let size = usize::from_str_radix(line.trim(), 16).map_err(io::Error::other)?;
                let mut piece = vec![0; size + 2];
                self.stream.read_exact(&mut piece)?;
                if size == 0 {
                    break;
                }
                seen(&piece[..size]);
                body.extend_from_slice(&piece[..size]);
            }
        } else {
            body.resize(length, 0);
            self.stream.read_exact(&mut body)?;
            seen(&body);
        }
        if ok {
            Ok(body)
        } else {
            Err(io::Error::other(format!("{status}: {}", String::from_utf8_lossy(&body))))
        }
    }
}
