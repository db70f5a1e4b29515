//! A shared program that a runtime's name means, whether it is on this machine or not.

use std::ops::Deref;
use std::sync::Arc;

use super::interface::Program;

/// A program: one of the list, or one that its command describes. Nothing is left of the latter with its last handle, so a
/// request can name any number of commands.
#[derive(Clone)]
pub enum ProgramHandle {
    /// One of [`super::PROGRAMS`].
    Listed(&'static dyn Program),
    /// One that its command describes.
    Described(Arc<dyn Program>),
}

impl Deref for ProgramHandle {
    type Target = dyn Program;

    fn deref(&self) -> &(dyn Program + 'static) {
        match self {
            Self::Listed(program) => *program,
            Self::Described(program) => &**program,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::named;
    use super::*;

    #[test]
    fn a_name_means_a_program_of_the_list_or_describes_one() {
        let listed = named("claude").unwrap();
        assert!(matches!(listed, ProgramHandle::Listed(_)));
        assert_eq!((listed.name(), listed.title()), ("claude", "Claude Code"));
        let described = named("acp:/opt/bin/qwen --acp").unwrap();
        assert!(matches!(described, ProgramHandle::Described(_)));
        assert_eq!((described.name(), described.title()), ("acp:/opt/bin/qwen --acp", "qwen (by ACP)"));
        assert!(named("acp:./qwen").is_none());
    }

    #[test]
    fn a_described_program_is_freed_with_its_last_handle() {
        let handle = named("acp:qwen --acp").unwrap();
        let ProgramHandle::Described(program) = &handle else { panic!("it is in no list") };
        let kept = Arc::downgrade(program);
        let other = handle.clone();
        drop(handle);
        assert!(kept.upgrade().is_some());
        drop(other);
        assert!(kept.upgrade().is_none());
    }
}
