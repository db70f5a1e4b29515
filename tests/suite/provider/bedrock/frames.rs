//! Event streams as AWS writes them.

use serde_json::Value;

/// An event of this name.
pub fn event(name: &str, payload: &Value) -> Vec<u8> {
    let headers = [(":event-type", name), (":content-type", "application/json"), (":message-type", "event")];
    frame(&headers, payload.to_string().as_bytes())
}

/// An exception of this name.
pub fn exception(name: &str, message: &str) -> Vec<u8> {
    let payload = serde_json::json!({"message": message});
    frame(&[(":exception-type", name), (":message-type", "exception")], payload.to_string().as_bytes())
}

fn frame(headers: &[(&str, &str)], payload: &[u8]) -> Vec<u8> {
    let mut packed = Vec::new();
    for (name, value) in headers {
        packed.push(u8::try_from(name.len()).unwrap());
        packed.extend_from_slice(name.as_bytes());
        packed.push(7);
        packed.extend_from_slice(&u16::try_from(value.len()).unwrap().to_be_bytes());
        packed.extend_from_slice(value.as_bytes());
    }
    let total = u32::try_from(12 + packed.len() + payload.len() + 4).unwrap();
    let mut bytes = total.to_be_bytes().to_vec();
    bytes.extend_from_slice(&u32::try_from(packed.len()).unwrap().to_be_bytes());
    bytes.extend_from_slice(&crc(&bytes).to_be_bytes());
    bytes.extend_from_slice(&packed);
    bytes.extend_from_slice(payload);
    bytes.extend_from_slice(&crc(&bytes).to_be_bytes());
    bytes
}

/// CRC-32 bit by bit.
fn crc(bytes: &[u8]) -> u32 {
    let step = |crc: u32| if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 };
    !bytes.iter().fold(u32::MAX, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc)))
}
