//! What is known of this instance before any config is read.

use crate::telemetry::LogFilePath;

/// What is known of this instance before any config is read.
#[derive(Debug, Default)]
pub struct Startup {
    /// What is wrong with the command line and the environment variables of its options.
    pub errors: Vec<String>,
    /// The log file.
    pub log_file: LogFilePath,
}
