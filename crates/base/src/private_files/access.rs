//! How a file of ours is opened.

use std::fs::{File, OpenOptions};

/// What a file is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// To read it.
    Read,
    /// To write or lock it. It is made if it does not exist.
    Write,
    /// To append to it. It is made if it does not exist.
    Append,
    /// To write it. It must not exist.
    CreateNew,
}

impl Access {
    /// Returns the options for opening a file. With `creates`, they also make it.
    pub(super) fn options(self, creates: bool) -> OpenOptions {
        let mut options = File::options();
        match self {
            Self::Read => options.read(true),
            Self::Write => options.create(creates).truncate(false).write(true),
            Self::Append => options.create(creates).append(true),
            Self::CreateNew => options.create_new(creates).write(true),
        };
        options
    }
}
