//! Questions to the person at the terminal.

use std::io::{self, IsTerminal};
use std::path::Path;
use std::time::Duration;

use super::clients::apps::short_path;
use super::files::write::is_read_only;
use base::blocking;
use config::env::Env;

/// How long the person may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3600);

/// Whether a file is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Replacement {
    /// It is.
    Done,
    /// The person said no.
    Declined,
    /// It cannot be replaced, and the reason was said.
    Failed,
}

/// Who answers questions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answers {
    /// The person at the terminal.
    Terminal,
    /// `--yes`: every proposal is accepted.
    Yes,
    /// Nobody: there is no terminal.
    Nobody,
}

impl Answers {
    /// Who answers, with or without `--yes`.
    pub fn new(yes: bool) -> Self {
        match (yes, io::stdin().is_terminal()) {
            (true, _) => Self::Yes,
            (false, true) => Self::Terminal,
            (false, false) => Self::Nobody,
        }
    }

    /// Asks a question that Enter answers with no. `--yes` answers yes; without a terminal, the answer is no.
    ///
    /// # Errors
    ///
    /// Fails if the terminal cannot be read or written, is closed, or gives no answer within `ANSWER_TIMEOUT`.
    pub async fn confirm(self, question: &str) -> io::Result<bool> {
        match self {
            Self::Yes => Ok(true),
            Self::Nobody => Ok(false),
            Self::Terminal => {
                let answer = ask(&format!("{question} [y/N] ")).await?;
                Ok(matches!(answer.to_lowercase().as_str(), "y" | "yes"))
            }
        }
    }

    /// Asks whether a file is replaced. `--yes` does not answer for one that is read-only: the user or a program made
    /// it so on purpose. That it is left then is said here.
    ///
    /// # Errors
    ///
    /// As [`confirm`](Self::confirm).
    pub(crate) async fn confirm_replacement(
        self,
        file: &Path,
        env: &Env,
        question: &str,
    ) -> io::Result<Replacement> {
        let is_read_only = is_read_only(file);
        if is_read_only && self == Self::Yes {
            let path = short_path(file, env);
            terminal::message(format_args!(
                "{path} is read-only, so it is left as it is; make it writable, or answer without --yes"
            ));
            return Ok(Replacement::Failed);
        }
        let question = match question.strip_suffix('?').filter(|_| is_read_only) {
            Some(question) => format!("{question}, although the file is read-only?"),
            None => question.to_owned(),
        };
        Ok(match self.confirm(&question).await? {
            true => Replacement::Done,
            false => Replacement::Declined,
        })
    }

    /// Asks which of several to take, until the answer is one of them. Returns its index. Enter takes the first, and so
    /// do `--yes` and a missing terminal.
    ///
    /// # Errors
    ///
    /// As [`confirm`](Self::confirm).
    pub(crate) async fn choose(self, question: &str, options: &[&str]) -> io::Result<usize> {
        if self != Self::Terminal {
            return Ok(0);
        }
        let numbered: Vec<_> =
            options.iter().enumerate().map(|(index, option)| format!("{}) {option}", index + 1)).collect();
        terminal::line("")?;
        loop {
            let answer = ask(&format!("{question} {} [1] ", numbered.join("  "))).await?;
            match answer.parse::<usize>() {
                _ if answer.is_empty() => return Ok(0),
                Ok(number) if (1..=options.len()).contains(&number) => return Ok(number - 1),
                _ => {}
            }
        }
    }
}

/// Reads a line on a thread of its own, so that a signal can end the command meanwhile.
///
/// # Errors
///
/// Fails if the terminal cannot be read or written, is closed, or gives no answer within `ANSWER_TIMEOUT`.
async fn ask(question: &str) -> io::Result<String> {
    terminal::question(question)?;
    let read = || {
        let mut answer = String::new();
        io::stdin().read_line(&mut answer).map(|length| (length, answer))
    };
    let (length, answer) = blocking::run(ANSWER_TIMEOUT, read).await.map_err(io::Error::other)??;
    if length == 0 {
        terminal::line("")?;
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the terminal was closed"));
    }
    Ok(answer.trim().to_owned())
}
