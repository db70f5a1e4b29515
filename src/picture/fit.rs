//! Shrinks a picture until it fits given limits.
//!
//! The bytes are hostile. The size in the header can be a lie, so decoding is bounded in pixels and in memory all the
//! same.

use std::io::Cursor;
use std::sync::{Mutex, PoisonError};

use image::codecs::jpeg::JpegEncoder;
use image::imageops::FilterType;
use image::{DynamicImage, ImageDecoder, ImageReader, RgbImage};

use super::sniff::{self, PictureHeader};

/// Number of bytes above which a picture is refused unread.
pub(crate) const MAX_INPUT_BYTES: usize = 10 * 1024 * 1024;

/// Number of pixels above which a picture is not decoded. A file of a few bytes can claim any number of them.
const MAX_PIXELS: u64 = 25_000_000;

/// Maximum size of a decoded picture in bytes. A format can use up to sixteen bytes for each pixel.
const MAX_DECODED_BYTES: u64 = 100_000_000;

/// Maximum memory in bytes that the decoder may allocate.
const MAX_DECODER_MEMORY: u64 = 256 * 1024 * 1024;

/// Size of a decoded picture in bytes above which pictures are decoded one at a time, whatever the number of turns.
const LARGE_DECODED_BYTES: u64 = 16_000_000;

/// Held while a picture above [`LARGE_DECODED_BYTES`] is decoded, so that several turns together cannot exhaust the memory.
static LARGE_DECODE_LOCK: Mutex<()> = Mutex::new(());

/// Longest sides in pixels that are tried after the largest allowed one.
const FALLBACK_SIDES: [u32; 6] = [1800, 1600, 1400, 1200, 1000, 800];

/// JPEG qualities that are tried for each side, best first.
const QUALITIES: [u8; 6] = [85, 75, 65, 55, 45, 35];

/// The limits that a picture must fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PictureLimits {
    /// Longest side in pixels.
    pub side: u32,
    /// Size of the file in bytes.
    pub bytes: usize,
}

/// The result of fitting a picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FittedPicture {
    /// The picture fitted already and is unchanged.
    AsIs(PictureHeader),
    /// The picture was scaled or compressed anew, as JPEG.
    Jpeg {
        bytes: Vec<u8>,
        /// Width and height in pixels.
        size: (u32, u32),
    },
}

/// The reason why a picture cannot be shown to a model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PictureError {
    /// The first bytes belong to no known format.
    #[error("it is no PNG, JPEG, GIF or WebP")]
    Unknown,
    /// The header has no usable size.
    #[error("it begins like {0}, but is damaged or incomplete")]
    Damaged(&'static str),
    /// The file has more than [`MAX_INPUT_BYTES`] bytes and was not read. Holds the number of bytes.
    #[error("it has {0} bytes, and at most {MAX_INPUT_BYTES} are looked at")]
    TooLarge(usize),
    /// Decoding would take too much memory. Holds width and height.
    #[error("it has {0}x{1} pixels, which is too many to look at")]
    TooManyPixels(u32, u32),
    /// The decoder failed.
    #[error("it could not be decoded: {0}")]
    Undecodable(String),
    /// Even the smallest side with the lowest quality has too many bytes.
    #[error("it does not get small enough")]
    NotSmallEnough,
}

/// Returns the picture unchanged if it fits the limits, else a smaller JPEG of it. It is never enlarged. A picture
/// whose header can be read in two ways becomes a JPEG, too.
///
/// A picture that fits is decoded too, so that no damaged one passes.
///
/// # Errors
///
/// Returns [`PictureError`] if the bytes are no complete picture of a known format, if it has too many bytes or pixels, or if
/// no side and quality meets the limits.
pub(crate) fn fit(bytes: &[u8], limits: PictureLimits) -> Result<FittedPicture, PictureError> {
    if bytes.len() > MAX_INPUT_BYTES {
        return Err(PictureError::TooLarge(bytes.len()));
    }
    let picture = sniff::sniff(bytes).ok_or(PictureError::Unknown)?;
    let size = picture.size.filter(|(width, height)| *width > 0 && *height > 0);
    let (width, height) = size.ok_or(PictureError::Damaged(picture.media_type))?;
    if u64::from(width) * u64::from(height) > MAX_PIXELS {
        return Err(PictureError::TooManyPixels(width, height));
    }
    // A provider refuses a request with a damaged picture together with everything else in it. A valid header is no
    // proof that the rest is there, so a picture that fits is decoded too.
    let decoder = decoder(bytes)?;
    // If the decoder finds another size than the sniffer, nobody knows which one a provider would find. Such a picture
    // is encoded anew, so that all find the same.
    let is_clear = decoder.dimensions() == (width, height);
    let fits = is_clear && width.max(height) <= limits.side && bytes.len() <= limits.bytes;
    let is_large = decoder.total_bytes() > LARGE_DECODED_BYTES;
    // A poisoned lock is taken as it is: it guards no data.
    let _turn = is_large.then(|| LARGE_DECODE_LOCK.lock().unwrap_or_else(PoisonError::into_inner));
    if fits {
        DynamicImage::from_decoder(decoder).map_err(undecodable)?;
        return Ok(FittedPicture::AsIs(picture));
    }
    shrink(&decode(decoder)?, limits)
}

#[expect(clippy::needless_pass_by_value, reason = "`map_err` gives it away")]
fn undecodable(error: image::ImageError) -> PictureError {
    PictureError::Undecodable(error.to_string())
}

/// Returns a decoder for the picture, limited in memory and in pixels.
fn decoder(bytes: &[u8]) -> Result<impl ImageDecoder + '_, PictureError> {
    let reader = ImageReader::new(Cursor::new(bytes)).with_guessed_format();
    let mut reader = reader.map_err(|error| PictureError::Undecodable(error.to_string()))?;
    let mut limits = image::Limits::default();
    limits.max_alloc = Some(MAX_DECODER_MEMORY);
    reader.limits(limits);
    let decoder = reader.into_decoder().map_err(undecodable)?;
    // The decoder's own size counts: the header may have told the sniffer another one.
    let (width, height) = decoder.dimensions();
    if u64::from(width) * u64::from(height) > MAX_PIXELS || decoder.total_bytes() > MAX_DECODED_BYTES {
        return Err(PictureError::TooManyPixels(width, height));
    }
    Ok(decoder)
}

fn decode(mut decoder: impl ImageDecoder) -> Result<RgbImage, PictureError> {
    // The new JPEG carries no metadata, so the orientation that the camera recorded has to be applied to the pixels.
    let orientation = decoder.orientation().map_err(undecodable)?;
    let mut decoded = DynamicImage::from_decoder(decoder).map_err(undecodable)?;
    decoded.apply_orientation(orientation);
    Ok(flatten_on_white(decoded))
}

/// Lays a transparent picture on white, because JPEG has no transparency and most screens show a white background.
fn flatten_on_white(decoded: DynamicImage) -> RgbImage {
    if !decoded.color().has_alpha() {
        return decoded.into_rgb8();
    }
    let layered = decoded.into_rgba8();
    RgbImage::from_fn(layered.width(), layered.height(), |x, y| {
        let [red, green, blue, alpha] = layered.get_pixel(x, y).0;
        let over = |part: u8| {
            let sum = u32::from(part) * u32::from(alpha) + 255 * (255 - u32::from(alpha));
            u8::try_from(sum / 255).unwrap_or(u8::MAX)
        };
        image::Rgb([over(red), over(green), over(blue)])
    })
}

fn shrink(picture: &RgbImage, limits: PictureLimits) -> Result<FittedPicture, PictureError> {
    let own = picture.width().max(picture.height());
    // Every quality is tried before the next smaller side, so quality is lost before size.
    let most = limits.side.min(own).max(1);
    let sides = std::iter::once(most).chain(FALLBACK_SIDES.into_iter().filter(|side| *side < most));
    for side in sides {
        let scaled = if side == own { None } else { Some(scaled(picture, side)) };
        let scaled = scaled.as_ref().unwrap_or(picture);
        for quality in QUALITIES {
            let mut bytes = Vec::new();
            let encoder = JpegEncoder::new_with_quality(&mut bytes, quality);
            scaled
                .write_with_encoder(encoder)
                .map_err(|error| PictureError::Undecodable(error.to_string()))?;
            if bytes.len() <= limits.bytes {
                return Ok(FittedPicture::Jpeg { bytes, size: scaled.dimensions() });
            }
        }
    }
    Err(PictureError::NotSmallEnough)
}

fn scaled(picture: &RgbImage, side: u32) -> RgbImage {
    let (width, height) = picture.dimensions();
    let long = u64::from(width.max(height));
    let part = |own: u32| {
        // Multiplied in 64 bits before the division, so that rounding keeps the ratio. A very narrow picture keeps one
        // pixel.
        let part = u64::from(own) * u64::from(side) / long;
        u32::try_from(part).unwrap_or(side).max(1)
    };
    image::imageops::resize(picture, part(width), part(height), FilterType::Triangle)
}

#[cfg(test)]
#[path = "fit_tests.rs"]
mod tests;
