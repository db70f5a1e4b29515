//! A `data:` URL that embeds a picture.

use std::fmt;

use serde::{Serialize, Serializer};

/// Formats as `data:image/png;base64,…` without copying the picture.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DataUrl<'a> {
    /// Media type, such as `image/png`.
    pub media_type: &'a str,
    /// The picture in Base64.
    pub data: &'a str,
}

impl fmt::Display for DataUrl<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "data:{};base64,{}", self.media_type, self.data)
    }
}

impl Serialize for DataUrl<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // Streams the text into the output, so that a picture of megabytes is not put together in memory first.
        serializer.collect_str(self)
    }
}
