//! Makes a picture smaller until it fits. Its bytes are hostile: what it says of itself is believed only as far as it
//! costs nothing, and decoding is bounded in pixels and in memory.

use std::io::Cursor;
use std::sync::{Mutex, PoisonError};

use image::codecs::jpeg::JpegEncoder;
use image::imageops::FilterType;
use image::{DynamicImage, ImageDecoder, ImageReader, RgbImage};

use super::sniff::{self, Picture};

/// The most bytes of a picture that are looked at.
pub const MOST_INPUT: usize = 10 * 1024 * 1024;

/// The most pixels that are decoded: a few bytes can claim any number of them.
const MOST_PIXELS: u64 = 25_000_000;

/// The most bytes that a decoded picture may have: a picture can have up to sixteen for each pixel.
const MOST_DECODED: u64 = 100_000_000;

/// The most memory that decoding may take.
const MOST_MEMORY: u64 = 256 * 1024 * 1024;

/// Pictures of more decoded bytes than this are looked at one at a time, however many turns there are.
const LARGE: u64 = 16_000_000;

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Sides that are tried after the largest allowed one, in pixels.
const SIDES: [u32; 6] = [1800, 1600, 1400, 1200, 1000, 800];

/// Qualities of JPEG that are tried at each side.
const QUALITIES: [u8; 6] = [85, 75, 65, 55, 45, 35];

/// What a picture must fit in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limits {
    /// Its longest side, in pixels.
    pub side: u32,
    /// Its bytes.
    pub bytes: usize,
}

/// A picture that fits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fit {
    /// As it is.
    AsIs(Picture),
    /// Made anew, as JPEG.
    Jpeg {
        /// The new one's bytes.
        bytes: Vec<u8>,
        /// Width and height in pixels.
        size: (u32, u32),
    },
}

/// Why a picture can't be shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// It begins like none.
    #[error("it is no PNG, JPEG, GIF or WebP")]
    Unknown,
    /// Its head makes no sense.
    #[error("it begins like {0}, but is damaged or incomplete")]
    Damaged(&'static str),
    /// It is not even looked at.
    #[error("it has {0} bytes, and at most {MOST_INPUT} are looked at")]
    TooLarge(usize),
    /// It would take too much memory.
    #[error("it has {0}x{1} pixels, which is too many to look at")]
    TooManyPixels(u32, u32),
    /// Its bytes could not be decoded.
    #[error("it could not be decoded: {0}")]
    Undecodable(String),
    /// No size and no quality was enough.
    #[error("it does not get small enough")]
    NotSmallEnough,
}

/// Gives a picture that fits: the same one where it does, else one made smaller, never larger. It is decoded in either
/// case, so that no damaged one passes.
///
/// # Errors
///
/// [`Unfit`].
pub fn fit(bytes: &[u8], limits: Limits) -> Result<Fit, Unfit> {
    if bytes.len() > MOST_INPUT {
        return Err(Unfit::TooLarge(bytes.len()));
    }
    let picture = sniff::sniff(bytes).ok_or(Unfit::Unknown)?;
    let size = picture.size.filter(|(width, height)| *width > 0 && *height > 0);
    let (width, height) = size.ok_or(Unfit::Damaged(picture.media_type))?;
    if u64::from(width) * u64::from(height) > MOST_PIXELS {
        return Err(Unfit::TooManyPixels(width, height));
    }
    // A picture that is whole at its head and nowhere else is refused by whoever is shown it, with all that was said
    // beside it: so it is decoded, even if it fits.
    let fits = width.max(height) <= limits.side && bytes.len() <= limits.bytes;
    let decoder = decoder(bytes)?;
    let is_large = decoder.total_bytes() > LARGE;
    let _turn = is_large.then(|| ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner));
    if fits {
        DynamicImage::from_decoder(decoder).map_err(undecodable)?;
        return Ok(Fit::AsIs(picture));
    }
    shrink(&decode(decoder)?, limits)
}

#[expect(clippy::needless_pass_by_value, reason = "`map_err` gives it away")]
fn undecodable(error: image::ImageError) -> Unfit {
    Unfit::Undecodable(error.to_string())
}

/// What decodes a picture, within the limits.
fn decoder(bytes: &[u8]) -> Result<impl ImageDecoder + '_, Unfit> {
    let reader = ImageReader::new(Cursor::new(bytes)).with_guessed_format();
    let mut reader = reader.map_err(|error| Unfit::Undecodable(error.to_string()))?;
    let mut limits = image::Limits::default();
    limits.max_alloc = Some(MOST_MEMORY);
    reader.limits(limits);
    let decoder = reader.into_decoder().map_err(undecodable)?;
    // The head may have lied to the reader above.
    let (width, height) = decoder.dimensions();
    if u64::from(width) * u64::from(height) > MOST_PIXELS || decoder.total_bytes() > MOST_DECODED {
        return Err(Unfit::TooManyPixels(width, height));
    }
    Ok(decoder)
}

fn decode(mut decoder: impl ImageDecoder) -> Result<RgbImage, Unfit> {
    // What a camera says of how it was held is lost with the rest of what it says.
    let orientation = decoder.orientation().map_err(undecodable)?;
    let mut decoded = DynamicImage::from_decoder(decoder).map_err(undecodable)?;
    decoded.apply_orientation(orientation);
    Ok(on_white(decoded))
}

/// JPEG knows no transparency; what is behind a picture is white on most screens.
fn on_white(decoded: DynamicImage) -> RgbImage {
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

fn shrink(picture: &RgbImage, limits: Limits) -> Result<Fit, Unfit> {
    let own = picture.width().max(picture.height());
    let most = limits.side.min(own).max(1);
    let sides = std::iter::once(most).chain(SIDES.into_iter().filter(|side| *side < most));
    for side in sides {
        let scaled = if side == own { None } else { Some(scaled(picture, side)) };
        let scaled = scaled.as_ref().unwrap_or(picture);
        for quality in QUALITIES {
            let mut bytes = Vec::new();
            let encoder = JpegEncoder::new_with_quality(&mut bytes, quality);
            scaled.write_with_encoder(encoder).map_err(|error| Unfit::Undecodable(error.to_string()))?;
            if bytes.len() <= limits.bytes {
                return Ok(Fit::Jpeg { bytes, size: scaled.dimensions() });
            }
        }
    }
    Err(Unfit::NotSmallEnough)
}

fn scaled(picture: &RgbImage, side: u32) -> RgbImage {
    let (width, height) = picture.dimensions();
    let long = u64::from(width.max(height));
    let part = |own: u32| {
        let part = u64::from(own) * u64::from(side) / long;
        u32::try_from(part).unwrap_or(side).max(1)
    };
    image::imageops::resize(picture, part(width), part(height), FilterType::Triangle)
}

#[cfg(test)]
#[path = "fit_tests.rs"]
mod tests;
