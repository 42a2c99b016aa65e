//! What is known of this instance before any config is read.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// What is known of this instance before any config is read.
#[derive(Debug, Default)]
pub struct StartupInfo {
    /// What is wrong with the command line and the environment variables of its options.
    pub errors: Vec<String>,
    /// The log file, once it is known that it can be written.
    pub log_file: Arc<OnceLock<PathBuf>>,
    /// Where results are stored that are too large for memory; `None`: nowhere.
    pub results_dir: Option<PathBuf>,
}

/// The line that ends an error, with a line break before it: where the log is. Empty if there is no log file.
pub fn log_line(log_file: Option<&Path>) -> String {
    log_file.map(|path| format!("\nLog: {}", path.display())).unwrap_or_default()
}
