//! A picture as an address that holds it.

use std::fmt;

use serde::{Serialize, Serializer};

/// `data:image/png;base64,…`, written without a copy of the picture.
#[derive(Clone, Copy, Debug)]
pub struct DataUrl<'a> {
    /// As in `image/png`.
    pub media_type: &'a str,
    /// Base64.
    pub data: &'a str,
}

impl fmt::Display for DataUrl<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "data:{};base64,{}", self.media_type, self.data)
    }
}

impl Serialize for DataUrl<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
