//! The section about pictures and other media in messages.

use crate::agent::prompt::{PromptContext, PromptSection, SectionError};

pub(super) struct ChannelMedia;

impl PromptSection for ChannelMedia {
    fn name(&self) -> &'static str {
        "channel_media"
    }

    fn build(&self, _: &PromptContext<'_>) -> Result<String, SectionError> {
        Ok(include_str!("../text/channel_media.md").to_owned())
    }
}
