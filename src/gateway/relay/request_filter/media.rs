//! Recognises pictures, documents and sounds in a request. In the places where a wire format has such data, it is no
//! text to the model and is not charged as text. In any other place the data counts as text. Pure.

use super::ContentSize;

/// The role of an entry in a piece of media.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MediaField {
    /// The form of the data: Anthropic's `"type": "base64"`.
    Type,
    /// The media type of the data: `image/png`.
    Kind,
    /// The encoded data itself.
    Data,
    /// The data after its media type: `data:image/png;base64,…`.
    Address,
}

/// The entry that holds an object, and what the object has said about media so far.
#[derive(Default)]
pub(super) struct Media {
    holder: Holder,
    /// Number of times that each entry was given. If one is given twice, nobody knows which of them counts.
    types: u32,
    kinds: u32,
    datas: u32,
    is_base64: bool,
    is_picture: bool,
    bytes: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Holder {
    /// An entry without media.
    #[default]
    Other,
    /// Anthropic's `source`.
    Source,
    /// Google's `inlineData`.
    Inline,
    /// The `image_url` of OpenAI's completions.
    ImageUrl,
    /// The `input_audio` of OpenAI's completions.
    Audio,
}

impl Media {
    /// Creates the state for an object in the entry of this name. The name is empty for an object that is in no entry.
    pub(super) fn within(name: &str) -> Self {
        let holder = match name {
            "source" => Holder::Source,
            "inlineData" | "inline_data" => Holder::Inline,
            "image_url" => Holder::ImageUrl,
            "input_audio" => Holder::Audio,
            _ => Holder::Other,
        };
        Self { holder, ..Self::default() }
    }

    /// Returns the role of an entry of this name in this object, if it has one, and counts the entry.
    pub(super) fn named(&mut self, name: &str) -> Option<MediaField> {
        let place = match (self.holder, name) {
            (Holder::Source, "type") => MediaField::Type,
            (Holder::Source, "media_type") | (Holder::Inline, "mimeType" | "mime_type") => MediaField::Kind,
            (Holder::Source | Holder::Inline | Holder::Audio, "data") | (Holder::Other, "file_data") => {
                MediaField::Data
            }
            (Holder::ImageUrl, "url") | (Holder::Other, "image_url") => MediaField::Address,
            _ => return None,
        };
        match place {
            MediaField::Type => self.types += 1,
            MediaField::Kind => self.kinds += 1,
            MediaField::Data | MediaField::Address => self.datas += 1,
        }
        Some(place)
    }

    /// Takes the beginning of such an entry's text, and the number of bytes of the whole text.
    pub(super) fn told(&mut self, place: MediaField, word: &str, bytes: usize) {
        match place {
            MediaField::Type => self.is_base64 = word == "base64",
            MediaField::Kind => self.is_picture = word.starts_with("image/"),
            MediaField::Data => self.bytes = bytes as u64,
            MediaField::Address => {
                // Schemes and media types ignore case.
                const PICTURE: &str = "data:image/";
                let head = word.get(..PICTURE.len());
                self.is_picture = head.is_some_and(|head| head.eq_ignore_ascii_case(PICTURE));
                self.bytes = bytes as u64;
            }
        }
    }

    /// Counts the object at its end if it was a piece of media.
    pub(super) fn count(&self, seen: &mut ContentSize) {
        // An object that does not match its wire format exactly is charged as text.
        let is_media = self.datas == 1
            && match self.holder {
                Holder::Source => self.types == 1 && self.is_base64 && self.kinds == 1,
                Holder::Inline => self.kinds == 1,
                Holder::ImageUrl => self.is_picture,
                Holder::Audio | Holder::Other => true,
            };
        if !is_media || self.bytes == 0 {
            return;
        }
        if self.is_picture {
            seen.pictures += 1;
            seen.picture_bytes += self.bytes;
        } else {
            seen.document_bytes += self.bytes;
        }
    }
}
