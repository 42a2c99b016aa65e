//! How severe log messages are (MCP, logging; RFC 5424 section 6.2.1).

/// The severity of a log message. The least severe is the smallest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogSeverity(usize);

impl LogSeverity {
    /// The names, the least severe first.
    pub const NAMES: [&str; 8] =
        ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

    /// Returns the severity of this name; `None` if there is none.
    pub fn parse(name: &str) -> Option<Self> {
        Self::NAMES.iter().position(|known| *known == name).map(Self)
    }

    /// Returns its name.
    pub fn name(self) -> &'static str {
        Self::NAMES[self.0]
    }
}
