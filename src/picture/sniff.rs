//! Detects the format and the size of a picture from its first bytes. The file's name is not used.

/// The media types of the formats that [`sniff`] knows, which models and browsers show.
pub(crate) const MEDIA_TYPES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// Returns `true` if a picture of another program's can be passed on in base64: it is not empty and has no other letters.
#[must_use]
pub(crate) fn is_base64(data: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=');
    !data.is_empty() && data.bytes().all(is_letter)
}

/// The format and the size that a picture's header claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PictureHeader {
    /// Media type, such as `image/png`.
    pub media_type: &'static str,
    /// Width and height in pixels; `None` if the header is damaged.
    pub size: Option<(u32, u32)>,
}

/// Returns the format and the size of a picture, or `None` if the bytes begin like no PNG, JPEG, GIF or WebP.
#[must_use]
pub(crate) fn sniff(bytes: &[u8]) -> Option<PictureHeader> {
    let (media_type, size) = if bytes.starts_with(b"\x89PNG\r\n\x1a\n") {
        ("image/png", png(bytes))
    } else if bytes.starts_with(b"\xff\xd8\xff") {
        ("image/jpeg", jpeg(bytes))
    } else if bytes.starts_with(b"GIF87a") || bytes.starts_with(b"GIF89a") {
        ("image/gif", read_le(bytes, 6).zip(read_le(bytes, 8)))
    } else if bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP") {
        ("image/webp", webp(bytes))
    } else {
        return None;
    };
    Some(PictureHeader { media_type, size })
}

fn png(bytes: &[u8]) -> Option<(u32, u32)> {
    if bytes.get(12..16)? != b"IHDR" {
        return None;
    }
    let side = |at: usize| Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    side(16).zip(side(20))
}

/// Walks from marker to marker up to a start-of-frame marker, which holds the size.
fn jpeg(bytes: &[u8]) -> Option<(u32, u32)> {
    let mut at = 2;
    loop {
        if *bytes.get(at)? != 0xff {
            return None;
        }
        match *bytes.get(at + 1)? {
            // Fill bytes may stand before a marker.
            0xff => at += 1,
            // TEM and the restart markers have no body.
            0x01 | 0xd0..=0xd7 => at += 2,
            // All start-of-frame markers. 0xc4, 0xc8 and 0xcc lie among them and mean something else.
            0xc0..=0xc3 | 0xc5..=0xc7 | 0xc9..=0xcb | 0xcd..=0xcf => {
                return read_be(bytes, at + 7).zip(read_be(bytes, at + 5));
            }
            // The image data or the end of the file comes before any frame header.
            0xd8..=0xda => return None,
            _ => {
                // The length counts its own two bytes, so less would not advance.
                let length = read_be(bytes, at + 2).filter(|length| *length >= 2)?;
                at += 2 + length as usize;
            }
        }
    }
}

fn webp(bytes: &[u8]) -> Option<(u32, u32)> {
    match bytes.get(12..16)? {
        b"VP8 " => {
            if bytes.get(23..26)? != b"\x9d\x01\x2a" {
                return None;
            }
            // The two high bits of each side are a scaling hint.
            Some((read_le(bytes, 26)? & 0x3fff, read_le(bytes, 28)? & 0x3fff))
        }
        b"VP8L" => {
            if *bytes.get(20)? != 0x2f {
                return None;
            }
            let bits = u32::from_le_bytes(bytes.get(21..25)?.try_into().ok()?);
            // Lossless and extended files store each side less one.
            Some(((bits & 0x3fff) + 1, (bits >> 14 & 0x3fff) + 1))
        }
        b"VP8X" => {
            let side = |at: usize| Some((read_le(bytes, at)? | u32::from(*bytes.get(at + 2)?) << 16) + 1);
            side(24).zip(side(27))
        }
        _ => None,
    }
}

fn read_be(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?)))
}

fn read_le(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn four_formats_are_detected_by_their_first_bytes() {
        let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x02\0\0\0\x03";
        let jpeg = b"\xff\xd8\xff\xe0\0\x04ab\xff\xc0\0\x0b\x08\0\x03\0\x02";
        let gif = b"GIF89a\x02\0\x03\0";
        let webp = b"RIFF\0\0\0\0WEBPVP8X\0\0\0\0\0\0\0\0\x01\0\0\x02\0\0";
        for (bytes, media_type) in [
            (&png[..], "image/png"),
            (&jpeg[..], "image/jpeg"),
            (&gif[..], "image/gif"),
            (&webp[..], "image/webp"),
        ] {
            assert_eq!(sniff(bytes), Some(PictureHeader { media_type, size: Some((2, 3)) }), "{media_type}");
            let short = &bytes[..bytes.len() - 1];
            assert_eq!(sniff(short).unwrap().size, None, "{media_type} cut short");
        }
        for bytes in [&b""[..], b"hello", b"<svg/>", b"\x89PNG", b"RIFF\0\0\0\0WAVE"] {
            assert_eq!(sniff(bytes), None);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_sniffed_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), kind in 0usize..5) {
            let mut picture = [&b"\x89PNG\r\n\x1a\n"[..], b"\xff\xd8\xff", b"GIF89a", b"RIFF\0\0\0\0WEBPVP8L", b""][kind].to_vec();
            picture.extend(bytes);
            let _ = sniff(&picture);
        }
    }
}
