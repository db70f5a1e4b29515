//! Reads a received pack once before libgit2 does, and refuses one that would cost too much. A few bytes of a pack can
//! stand for gigabytes: an object is compressed, and a delta says how large its result is.

use std::collections::HashMap;
use std::io::{BufRead, Read};

use flate2::bufread::ZlibDecoder;
use git2::Oid;

use super::{PushLimits, Rejected};

/// Returns the number of objects in a pack.
///
/// `has` returns `true` for an object that the repository has. A delta may only build on such an object or on an earlier
/// one of the pack. git does the same, because flock offers `ofs-delta`.
///
/// # Errors
///
/// Returns the reason for which the pack is not accepted.
pub(super) fn scan(
    pack: &mut dyn BufRead,
    limits: &PushLimits,
    has: &dyn Fn(Oid) -> bool,
) -> Result<u32, Rejected> {
    let mut scan = Scan { pack, at: 0, limits, has, depths: HashMap::new(), total: 0 };
    let head: [u8; 12] = scan.bytes()?;
    if !head.starts_with(b"PACK\0\0\0\x02") {
        return Err(Rejected::new("it is no pack of version 2"));
    }
    let count = u32::from_be_bytes([head[8], head[9], head[10], head[11]]);
    if count > limits.objects {
        return Err(Rejected::new(format!(
            "it has {count} objects, and at most {} are taken",
            limits.objects
        )));
    }
    for _ in 0..count {
        limits.check_time()?;
        scan.object()?;
    }
    let _checksum: [u8; 20] = scan.bytes()?;
    if scan.pack.read(&mut [0; 1]).map_err(|error| broken(&error))? != 0 {
        return Err(Rejected::new("something follows the pack"));
    }
    Ok(count)
}

struct Scan<'a> {
    pack: &'a mut dyn BufRead,
    /// Number of bytes read so far.
    at: u64,
    limits: &'a PushLimits,
    has: &'a dyn Fn(Oid) -> bool,
    /// The length of the chain of deltas of each object, by the object's place in the pack.
    depths: HashMap<u64, u32>,
    /// Bytes of all objects, unpacked.
    total: u64,
}

impl Scan<'_> {
    fn object(&mut self) -> Result<(), Rejected> {
        let start = self.at;
        let (kind, size) = self.head()?;
        let depth = match kind {
            // Commit, tree, blob. Tags are refused here, because only branches are pushed.
            1..=3 => 0,
            6 => {
                let back = self.offset()?;
                let base = start.checked_sub(back).and_then(|base| self.depths.get(&base));
                base.ok_or_else(|| Rejected::new("a delta builds on nothing"))? + 1
            }
            7 => {
                let base: [u8; 20] = self.bytes()?;
                let base = Oid::from_bytes(&base).map_err(|_| Rejected::new("a delta builds on nothing"))?;
                if !(self.has)(base) {
                    return Err(Rejected::new(format!("a delta builds on {base}, which is not there")));
                }
                1
            }
            4 => return Err(Rejected::new("it has a tag, and only branches can be pushed")),
            _ => return Err(Rejected::new("it has an object of an unknown kind")),
        };
        if depth > self.limits.depth {
            return Err(Rejected::new("its deltas build on each other too often"));
        }
        self.depths.insert(start, depth);
        self.count(size)?;
        let beginning = self.inflate(size)?;
        if depth > 0 {
            let mut rest = beginning.as_slice();
            let (base, result) = (varint(&mut rest)?, varint(&mut rest)?);
            if base > self.limits.object {
                return Err(self.too_large(base));
            }
            self.count(result)?;
        }
        Ok(())
    }

    /// Counts the bytes of an object before they are unpacked.
    fn count(&mut self, size: u64) -> Result<(), Rejected> {
        if size > self.limits.object {
            return Err(self.too_large(size));
        }
        self.total = self.total.saturating_add(size);
        if self.total > self.limits.unpacked {
            return Err(Rejected::new(format!(
                "unpacked, it has more than {} MB",
                self.limits.unpacked / 1_000_000
            )));
        }
        Ok(())
    }

    fn too_large(&self, size: u64) -> Rejected {
        let (size, most) = (size / 1_000_000, self.limits.object / 1_000_000);
        Rejected::new(format!("it has a file of {size} MB, and at most {most} MB are taken"))
    }

    /// Reads the kind and the size of an object.
    fn head(&mut self) -> Result<(u8, u64), Rejected> {
        let [first] = self.bytes()?;
        let mut size = u64::from(first & 0x0f);
        let mut shift = 4;
        let mut more = first & 0x80 != 0;
        while more {
            let [byte] = self.bytes()?;
            if shift > 53 {
                return Err(Rejected::new("an object's size is not usable"));
            }
            size |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            more = byte & 0x80 != 0;
        }
        Ok(((first >> 4) & 7, size))
    }

    /// Reads how far before a delta its base begins.
    fn offset(&mut self) -> Result<u64, Rejected> {
        let mut value = 0u64;
        for n in 0..9 {
            let [byte] = self.bytes()?;
            value = (value + u64::from(n > 0)) << 7 | u64::from(byte & 0x7f);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Rejected::new("a delta builds on nothing"))
    }

    /// Unpacks an object that has to have exactly `size` bytes, and returns its beginning.
    fn inflate(&mut self, size: u64) -> Result<Vec<u8>, Rejected> {
        let mut decoder = ZlibDecoder::new(&mut *self.pack);
        let mut beginning = Vec::new();
        let mut buffer = [0; 16 << 10];
        let mut unpacked = 0u64;
        loop {
            let count = decoder.read(&mut buffer).map_err(|error| broken(&error))?;
            if count == 0 {
                break;
            }
            if beginning.len() < 32 {
                beginning.extend_from_slice(&buffer[..count.min(32)]);
            }
            unpacked += count as u64;
            if unpacked > size {
                break;
            }
        }
        if unpacked != size {
            return Err(Rejected::new("an object does not have its size"));
        }
        self.at += decoder.total_in();
        Ok(beginning)
    }

    fn bytes<const N: usize>(&mut self) -> Result<[u8; N], Rejected> {
        let mut bytes = [0; N];
        self.pack.read_exact(&mut bytes).map_err(|error| broken(&error))?;
        self.at += N as u64;
        Ok(bytes)
    }
}

/// Reads a size from the beginning of a delta.
fn varint(bytes: &mut &[u8]) -> Result<u64, Rejected> {
    let mut value = 0u64;
    for shift in (0..56).step_by(7) {
        let Some((byte, rest)) = bytes.split_first() else { break };
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(Rejected::new("a delta has no size"))
}

fn broken(error: &std::io::Error) -> Rejected {
    match error.kind() {
        std::io::ErrorKind::UnexpectedEof => Rejected::new("it breaks off"),
        _ => Rejected::new("an object can't be unpacked"),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::io::Write as _;

    use super::*;

    /// Makes a pack of these objects: kind, what stands before the content, and the content.
    pub fn pack(objects: &[(u8, &[u8], &[u8])]) -> Vec<u8> {
        let mut bytes = b"PACK\0\0\0\x02".to_vec();
        bytes.extend_from_slice(&u32::try_from(objects.len()).unwrap().to_be_bytes());
        for (kind, before, content) in objects {
            push_object(&mut bytes, *kind, content.len() as u64, before, content);
        }
        with_checksum(bytes)
    }

    pub fn push_object(bytes: &mut Vec<u8>, kind: u8, size: u64, before: &[u8], content: &[u8]) {
        let mut rest = size >> 4;
        bytes.push(kind << 4 | u8::try_from(size & 15).unwrap() | if rest > 0 { 0x80 } else { 0 });
        while rest > 0 {
            let byte = u8::try_from(rest & 0x7f).unwrap();
            rest >>= 7;
            bytes.push(byte | if rest > 0 { 0x80 } else { 0 });
        }
        bytes.extend_from_slice(before);
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(content).unwrap();
        bytes.extend_from_slice(&encoder.finish().unwrap());
    }

    pub fn with_checksum(mut bytes: Vec<u8>) -> Vec<u8> {
        let digest = ring::digest::digest(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY, &bytes);
        bytes.extend_from_slice(digest.as_ref());
        bytes
    }

    fn scanned(pack: &[u8], limits: PushLimits) -> Result<u32, String> {
        let limits = limits.started();
        scan(&mut &pack[..], &limits, &|_| false).map_err(|error| error.to_string())
    }

    #[test]
    fn a_pack_is_measured_before_it_is_unpacked() {
        let limits =
            PushLimits { object: 1000, unpacked: 3000, objects: 5, depth: 2, ..PushLimits::default() };
        let blob = [b'x'; 900];
        let good = pack(&[(3, b"", &blob), (3, b"", &blob)]);
        assert_eq!(scanned(&good, limits), Ok(2));
        let refused = |pack: &[u8]| scanned(pack, limits).unwrap_err();
        assert!(refused(&pack(&[(3, b"", &[b'x'; 1001])])).contains("a file of 0 MB"));
        assert!(refused(&pack(&[(3, &b""[..], &blob[..]); 4])).contains("unpacked, it has more"));
        assert!(refused(&pack(&[(3, &b""[..], &b"x"[..]); 6])).contains("6 objects"));
        assert!(refused(&pack(&[(4, b"", b"x")])).contains("a tag"));
        assert!(refused(&pack(&[(5, b"", b"x")])).contains("unknown kind"));
        assert!(refused(&pack(&[(7, &[1; 20], b"\x01\x01x")])).contains("is not there"));
        assert!(refused(&pack(&[(6, b"\x05", b"\x01\x01x")])).contains("builds on nothing"));
        assert!(refused(&[&good[..], b"x"].concat()).contains("follows"));
        assert!(refused(b"PACK\0\0\0\x03\0\0\0\0").contains("version 2"));
        assert!(refused(b"PACK").contains("breaks off"));
    }

    #[test]
    fn a_delta_that_grows_is_refused_by_the_size_that_it_promises() {
        let limits = PushLimits { object: 1000, depth: 2, ..PushLimits::default() };
        // A blob of 16 bytes, and a delta of a few bytes that promises 2^40.
        let bomb: &[u8] = b"\x10\x80\x80\x80\x80\x80\x20\x90\x10";
        let mut bytes = b"PACK\0\0\0\x02\0\0\0\x02".to_vec();
        push_object(&mut bytes, 3, 16, b"", &[b'x'; 16]);
        let back = u8::try_from(bytes.len() - 12).unwrap();
        push_object(&mut bytes, 6, bomb.len() as u64, &[back], bomb);
        assert!(scanned(&with_checksum(bytes), limits).unwrap_err().contains("1099511 MB"));
        // An object that is larger than it says.
        let mut bytes = b"PACK\0\0\0\x02\0\0\0\x01".to_vec();
        push_object(&mut bytes, 3, 5, b"", &[b'x'; 900]);
        assert!(scanned(&with_checksum(bytes), limits).unwrap_err().contains("its size"));
        // A chain of deltas, each of which builds on the one before.
        let copy: &[u8] = b"\x10\x10\x90\x10";
        let mut bytes = b"PACK\0\0\0\x02\0\0\0\x04".to_vec();
        push_object(&mut bytes, 3, 16, b"", &[b'x'; 16]);
        let mut before = 12;
        for _ in 0..3 {
            let here = bytes.len();
            push_object(&mut bytes, 6, copy.len() as u64, &[u8::try_from(here - before).unwrap()], copy);
            before = here;
        }
        assert!(scanned(&with_checksum(bytes), limits).unwrap_err().contains("each other"));
    }
}
