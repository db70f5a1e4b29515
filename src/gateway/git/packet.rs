//! The packets of git's protocol: four hex digits with the length, and the content. A length of zero ends a list.

use std::io::{self, Read};

/// A packet of the protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Packet {
    Data(Vec<u8>),
    /// The end of a list.
    Flush,
}

/// Most bytes of a packet's content.
pub(super) const MAX_CONTENT: usize = 65_516;
/// Most bytes of a band's content: one byte of the packet is the number of the band.
const MAX_BAND: usize = MAX_CONTENT - 1;

/// Reads a packet. Returns `None` at the end of the stream.
///
/// # Errors
///
/// Returns an error if the stream breaks off in a packet, or if it has no usable length.
pub(super) fn read(stream: &mut dyn Read) -> io::Result<Option<Packet>> {
    let mut head = [0; 4];
    let mut filled = 0;
    while filled < head.len() {
        match stream.read(&mut head[filled..]) {
            Ok(0) if filled == 0 => return Ok(None),
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let is_hex = head.iter().all(u8::is_ascii_hexdigit);
    let text = std::str::from_utf8(&head).unwrap_or_default();
    let length = usize::from_str_radix(text, 16).ok().filter(|_| is_hex);
    match length {
        Some(0) => Ok(Some(Packet::Flush)),
        Some(length @ 4..) if length <= MAX_CONTENT + 4 => {
            let mut content = vec![0; length - 4];
            stream.read_exact(&mut content)?;
            Ok(Some(Packet::Data(content)))
        }
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "a packet has no usable length")),
    }
}

/// Appends a packet. The content must not be longer than [`MAX_CONTENT`].
pub(super) fn push(to: &mut Vec<u8>, content: &[u8]) {
    to.extend_from_slice(format!("{:04x}", content.len() + 4).as_bytes());
    to.extend_from_slice(content);
}

/// Appends a line of text as a packet.
pub(super) fn push_line(to: &mut Vec<u8>, text: &str) {
    push(to, format!("{text}\n").as_bytes());
}

/// Appends the end of a list.
pub(super) fn flush(to: &mut Vec<u8>) {
    to.extend_from_slice(b"0000");
}

/// A channel within the stream.
#[derive(Clone, Copy, Debug)]
pub(super) enum Band {
    /// The pack, or the report.
    Data = 1,
    /// Text that git shows after `remote:`.
    Progress = 2,
    /// Text that git shows before it fails.
    Error = 3,
}

/// Appends content on a band, in as many packets as needed.
pub(super) fn push_band(to: &mut Vec<u8>, band: Band, content: &[u8]) {
    for piece in content.chunks(MAX_BAND) {
        to.extend_from_slice(format!("{:04x}", piece.len() + 5).as_bytes());
        to.push(band as u8);
        to.extend_from_slice(piece);
    }
}

/// Returns a packet's content as a line without its end.
pub(super) fn line(content: &[u8]) -> &[u8] {
    content.strip_suffix(b"\n").unwrap_or(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_read_as_they_were_written() {
        let mut bytes = Vec::new();
        push_line(&mut bytes, "want it");
        push(&mut bytes, b"");
        flush(&mut bytes);
        push_band(&mut bytes, Band::Data, &vec![7; MAX_BAND + 1]);
        let mut stream = &bytes[..];
        let mut next = || read(&mut stream).unwrap();
        assert_eq!(next(), Some(Packet::Data(b"want it\n".to_vec())));
        assert_eq!((next(), next()), (Some(Packet::Data(Vec::new())), Some(Packet::Flush)));
        let Some(Packet::Data(long)) = next() else { panic!() };
        assert_eq!((long.len(), long[0], long[1]), (MAX_CONTENT, 1, 7));
        assert_eq!(next(), Some(Packet::Data(vec![1, 7])));
        assert_eq!(next(), None);
        for bad in ["0001", "0003", "fff5", "+004", "-001", "xyz1", "00", "0009abc"] {
            assert!(read(&mut bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
