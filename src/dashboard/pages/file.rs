//! A file of a message as a page shows it: as a picture, as a link that downloads it, or as one that is not there.

use serde::Deserialize;

use crate::clean;
use crate::dashboard::format;
use crate::swarm::attachment::MAX_FILE;

/// Longest name of a file, in characters.
const MAX_NAME: usize = 100;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct File {
    n: usize,
    name: String,
    bytes: Option<u64>,
    media_type: Option<String>,
}

pub(super) struct FileView {
    /// The address of the route that has the file.
    pub address: String,
    pub name: String,
    pub size: String,
    pub shape: FileShape,
}

/// The way in which a page shows a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileShape {
    Picture,
    Download,
    TooLarge,
    Gone,
}

impl FileView {
    /// Makes the view of a file. `message` is the route of the message that names it.
    pub(super) fn new(message: &str, file: File) -> Self {
        let shape = match (file.bytes, file.media_type) {
            (None, _) => FileShape::Gone,
            (Some(bytes), _) if bytes > MAX_FILE as u64 => FileShape::TooLarge,
            (_, Some(_)) => FileShape::Picture,
            (_, None) => FileShape::Download,
        };
        Self {
            address: format!("{message}/files/{}", file.n),
            name: clean::summary(&file.name, MAX_NAME),
            size: file.bytes.map(format::bytes).unwrap_or_default(),
            shape,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pictures_of_a_bearable_size_are_shown() {
        let view = |bytes: Option<u64>, media_type: Option<&str>| {
            let media_type = media_type.map(str::to_owned);
            FileView::new("/m", File { n: 2, name: "a\u{202e}\nb".to_owned(), bytes, media_type })
        };
        let most = MAX_FILE as u64;
        for (bytes, media_type, shape) in [
            (None, None, FileShape::Gone),
            (Some(most + 1), Some("image/png"), FileShape::TooLarge),
            (Some(most), Some("image/png"), FileShape::Picture),
            (Some(0), None, FileShape::Download),
        ] {
            let view = view(bytes, media_type);
            assert_eq!((view.shape, &*view.address, &*view.name), (shape, "/m/files/2", "a b"));
        }
    }
}
