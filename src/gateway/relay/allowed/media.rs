//! Pictures, documents and sounds in a request: what stands in their place by the wire is not text to the model, and is
//! not charged as text. A place that no wire has is none. Pure.

use super::Seen;

/// What an entry is to a piece of media.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Says how the data comes: Anthropic's `"type": "base64"`.
    Type,
    /// Says what the data is: `image/png`.
    Kind,
    /// The data.
    Data,
    /// The data with its kind before it: `data:image/png;base64,…`.
    Address,
}

/// The entry that an object stands in, and what it has told of media.
#[derive(Default)]
pub(super) struct Media {
    holder: Holder,
    /// How often each was told: of what is told twice nobody knows which one counts.
    types: u32,
    kinds: u32,
    datas: u32,
    is_base64: bool,
    is_picture: bool,
    bytes: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Holder {
    /// Anything else.
    #[default]
    Other,
    /// Anthropic's `source`.
    Source,
    /// Google's `inlineData`.
    Inline,
    /// The `image_url` of completions.
    ImageUrl,
    /// Their `input_audio`.
    Audio,
}

impl Media {
    /// Of an object in the entry of this name; of one that is in no entry the name is empty.
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

    /// What an entry of this name is here, if it is anything.
    pub(super) fn named(&mut self, name: &str) -> Option<Place> {
        let place = match (self.holder, name) {
            (Holder::Source, "type") => Place::Type,
            (Holder::Source, "media_type") | (Holder::Inline, "mimeType" | "mime_type") => Place::Kind,
            (Holder::Source | Holder::Inline | Holder::Audio, "data") | (Holder::Other, "file_data") => {
                Place::Data
            }
            (Holder::ImageUrl, "url") | (Holder::Other, "image_url") => Place::Address,
            _ => return None,
        };
        match place {
            Place::Type => self.types += 1,
            Place::Kind => self.kinds += 1,
            Place::Data | Place::Address => self.datas += 1,
        }
        Some(place)
    }

    /// The beginning of that entry's text, and the bytes of the whole.
    pub(super) fn told(&mut self, place: Place, word: &str, bytes: usize) {
        match place {
            Place::Type => self.is_base64 = word == "base64",
            Place::Kind => self.is_picture = word.starts_with("image/"),
            Place::Data => self.bytes = bytes as u64,
            Place::Address => {
                const PICTURE: &str = "data:image/";
                let head = word.get(..PICTURE.len());
                self.is_picture = head.is_some_and(|head| head.eq_ignore_ascii_case(PICTURE));
                self.bytes = bytes as u64;
            }
        }
    }

    /// It is over: what it was is counted.
    pub(super) fn count(&self, seen: &mut Seen) {
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
