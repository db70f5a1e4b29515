//! Adapts pictures to the route: within the longest side and the provider's limit on bytes, and with the media type
//! that their data has. A picture that can't be shown is replaced by a text.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use sha2::{Digest as _, Sha256};

use super::applied_rules::{Rule, RuleLog};
use super::policy::HygienePolicy;
use super::target::Target;
use crate::agent::transcript::Entry;
use crate::picture::{self, FittedPicture, MAX_INPUT_BYTES, PictureLimits};
use crate::provider::Block;
use crate::sync::lock;

/// Above this number of pictures, Anthropic accepts none that is longer than [`MANY_SIDE`] pixels.
const MANY_PICTURES: usize = 20;
const MANY_SIDE: u32 = 2000;

/// The most bytes of scaled pictures that are cached, for all sessions together.
const MAX_CACHED_BYTES: usize = 32 * 1024 * 1024;

/// The most pictures whose outcome is cached.
const MAX_CACHED_PICTURES: usize = 4096;

/// Decodes Base64 with or without padding.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The cache of checked pictures: each picture is decoded and encoded once, not for every request.
#[derive(Debug, Default)]
pub struct PictureCache(Mutex<CacheState>);

#[derive(Debug, Default)]
struct CacheState {
    looked_at: HashMap<Key, Arc<PictureOutcome>>,
    /// Keys in the order in which they were added.
    order: VecDeque<Key>,
    bytes: usize,
}

/// The digest of a stored picture, and the limits it had to fit.
type Key = ([u8; 32], PictureLimits);

/// The outcome for a picture.
#[derive(Debug)]
enum PictureOutcome {
    /// Unchanged data. The media type is the one that the data has.
    Same(&'static str),
    /// Other data.
    Other { media_type: &'static str, data: String },
    /// Not shown, for this reason.
    Not(String),
}

impl PictureCache {
    /// Returns the outcome for a picture, from the cache if it is known.
    fn show(&self, data: &str, limits: PictureLimits) -> Arc<PictureOutcome> {
        let key = (Sha256::digest(data).into(), limits);
        // The lock is not held while a picture is decoded. Two turns may decode the same one, which only costs time.
        if let Some(shown) = lock(&self.0).looked_at.get(&key) {
            return shown.clone();
        }
        let shown = Arc::new(prepare_picture(data, limits));
        lock(&self.0).keep(key, shown.clone());
        shown
    }
}

impl CacheState {
    fn keep(&mut self, key: Key, shown: Arc<PictureOutcome>) {
        self.bytes += shown.bytes();
        // If another turn added the same picture meanwhile, its key is in the queue already.
        if let Some(before) = self.looked_at.insert(key, shown) {
            self.bytes -= before.bytes();
            return;
        }
        self.order.push_back(key);
        while (self.bytes > MAX_CACHED_BYTES || self.order.len() > MAX_CACHED_PICTURES)
            && let Some(oldest) = self.order.pop_front()
        {
            self.bytes -= self.looked_at.remove(&oldest).map_or(0, |shown| shown.bytes());
        }
    }
}

impl PictureOutcome {
    fn bytes(&self) -> usize {
        match self {
            Self::Same(_) => 0,
            Self::Other { data, .. } => data.len(),
            Self::Not(reason) => reason.len(),
        }
    }
}

fn prepare_picture(data: &str, limits: PictureLimits) -> PictureOutcome {
    // Three bytes become four characters of Base64. The rest of the allowance is for line breaks.
    if data.len() > MAX_INPUT_BYTES / 3 * 5 {
        return PictureOutcome::Not(format!("it has {} bytes of Base64", data.len()));
    }
    let is_loose = data.bytes().any(|byte| byte.is_ascii_whitespace());
    let decoded = if is_loose {
        LENIENT.decode(data.split_ascii_whitespace().collect::<String>())
    } else {
        LENIENT.decode(data)
    };
    // Damaged data is replaced by a text: a provider would reject the whole request for it.
    let Ok(bytes) = decoded else { return PictureOutcome::Not("its Base64 is damaged".to_owned()) };
    if bytes.is_empty() {
        return PictureOutcome::Not("it is empty".to_owned());
    }
    // The limit is for Base64, in which three bytes become four characters.
    let decoded = PictureLimits { bytes: limits.bytes / 4 * 3, ..limits };
    match picture::fit(&bytes, decoded) {
        Ok(FittedPicture::AsIs(picture)) if !is_loose && data.len().is_multiple_of(4) => {
            PictureOutcome::Same(picture.media_type)
        }
        Ok(FittedPicture::AsIs(picture)) => {
            PictureOutcome::Other { media_type: picture.media_type, data: STANDARD.encode(&bytes) }
        }
        Ok(FittedPicture::Jpeg { bytes, .. }) => {
            PictureOutcome::Other { media_type: "image/jpeg", data: STANDARD.encode(&bytes) }
        }
        Err(reason) => PictureOutcome::Not(reason.to_string()),
    }
}

/// Makes each picture fit, or replaces it by a text.
pub(super) fn fit(entries: &mut [Entry], target: &Target, policy: &HygienePolicy, notes: &mut RuleLog) {
    let count = entries.iter().flat_map(|entry| &entry.message.content).map(pictures_in).sum::<usize>();
    if count == 0 {
        return;
    }
    // All pictures of the request count, also those within tool results.
    let most = if count > MANY_PICTURES { MANY_SIDE } else { u32::MAX };
    let limits = PictureLimits { side: target.longest_side.clamp(1, most), bytes: policy.picture_bytes };
    let changed = |block: &Block| change(block, target, limits);
    for entry in entries.iter_mut().filter(|entry| entry.message.content.iter().any(|b| pictures_in(b) > 0)) {
        // The changes are computed first, so that a message without any is not copied.
        let changes: Vec<Option<Block>> = entry.message.content.iter().map(changed).collect();
        if changes.iter().all(Option::is_none) {
            continue;
        }
        let content = &mut Arc::make_mut(&mut entry.message).content;
        for (block, change) in content.iter_mut().zip(changes) {
            if let Some(change) = change {
                *block = change;
            }
        }
        notes.add(Rule::Picture, entry);
    }
}

pub(in crate::agent) fn pictures_in(block: &Block) -> usize {
    match block {
        Block::Image { .. } => 1,
        Block::ToolResult { content, .. } => content.iter().map(pictures_in).sum(),
        _ => 0,
    }
}

/// Returns the replacement of a block, or `None` if it stays.
fn change(block: &Block, target: &Target, limits: PictureLimits) -> Option<Block> {
    match block {
        Block::Image { media_type, .. } if !target.images => {
            let media_type = crate::tool::safe_text::start(media_type, 40);
            Some(Block::text(format!("[a picture ({media_type}); this model does not take pictures]")))
        }
        Block::Image { media_type, .. } if target.refused_pictures => {
            let media_type = crate::tool::safe_text::start(media_type, 40);
            Some(Block::text(format!(
                "[a picture ({media_type}) is left out: the provider refused it or one beside it]"
            )))
        }
        Block::Image { media_type, data } => match &*target.pictures.show(data, limits) {
            PictureOutcome::Same(kind) if kind == media_type => None,
            PictureOutcome::Same(kind) => {
                Some(Block::Image { media_type: (*kind).to_owned(), data: data.clone() })
            }
            PictureOutcome::Other { media_type, data } => {
                Some(Block::Image { media_type: (*media_type).to_owned(), data: data.clone() })
            }
            PictureOutcome::Not(reason) => Some(Block::text(format!("[picture omitted: {reason}]"))),
        },
        Block::ToolResult { call_id, name, content, is_error } => {
            let changes: Vec<Option<Block>> =
                content.iter().map(|part| change(part, target, limits)).collect();
            if changes.iter().all(Option::is_none) {
                return None;
            }
            // The unchanged parts keep their places.
            let parts = content.iter().zip(changes);
            let content = parts.map(|(part, change)| change.unwrap_or_else(|| part.clone())).collect();
            Some(Block::ToolResult {
                call_id: call_id.clone(),
                name: name.clone(),
                content,
                is_error: *is_error,
            })
        }
        _ => None,
    }
}

#[cfg(test)]
#[path = "pictures_tests.rs"]
mod tests;
