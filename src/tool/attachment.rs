//! Parts of a result that only a program which speaks MCP can be given: sounds, files and links.

use serde::{Deserialize, Serialize};

/// A part of a result for a program that speaks MCP. It takes the place of a block. Models, transcripts and all other
/// records have that block, and nothing of the part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attachment {
    /// Position of the block.
    pub block: usize,
    /// A text that names the part. It stands before it, because some programs leave out the kinds that they don't know.
    pub label: String,
    pub content: AttachedContent,
}

/// The content of an [`Attachment`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum AttachedContent {
    /// A sound in base64.
    Sound { media_type: String, data: String },
    /// An embedded resource.
    Resource { uri: String, media_type: Option<String>, body: ResourceBody },
    /// A link to a resource.
    Link(ResourceLink),
}

/// The content of an embedded resource.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ResourceBody {
    Text(String),
    /// Bytes in base64.
    Blob(String),
}

/// A link to a resource that the result does not contain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResourceLink {
    pub uri: String,
    pub name: String,
    pub title: Option<String>,
    pub description: Option<String>,
    pub media_type: Option<String>,
    /// Bytes of the resource, as its server says.
    pub size: Option<u64>,
}

impl AttachedContent {
    /// Returns the bytes of its base64, or `None` if it has none.
    #[must_use]
    pub(crate) const fn data_len(&self) -> Option<usize> {
        match self {
            Self::Sound { data, .. } | Self::Resource { body: ResourceBody::Blob(data), .. } => {
                Some(data.len())
            }
            Self::Resource { .. } | Self::Link(_) => None,
        }
    }
}
