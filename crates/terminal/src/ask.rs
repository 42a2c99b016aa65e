//! Questions to the person at the terminal.

use std::io::{self, IsTerminal, Read};
use std::time::Duration;

use auth::Secret;
use base::blocking;
use instance::signals::EndSignals;

use crate::VisibleText;
use crate::hidden_input::HiddenInput;

/// How long the person may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3600);
/// How long the person may take to type a secret.
const SECRET_TIMEOUT: Duration = Duration::from_secs(600);
/// The largest secret, in bytes. Some keyrings store less.
const MAX_SECRET_BYTES: u64 = 64 << 10;

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

    /// Asks for a yes like [`confirm`](Self::confirm), and prints the details as often as the person asks for them.
    ///
    /// # Errors
    ///
    /// As [`confirm`](Self::confirm), and if stdout cannot be written.
    pub async fn confirm_with_details(self, question: &str, details: &VisibleText) -> io::Result<bool> {
        if self != Self::Terminal {
            return Ok(self == Self::Yes);
        }
        loop {
            match ask(&format!("{question} [y/N/d, where d shows the details] "))
                .await?
                .to_lowercase()
                .as_str()
            {
                "d" | "details" => crate::print(details)?,
                answer => return Ok(matches!(answer, "y" | "yes")),
            }
        }
    }
}

/// Asks a question, and returns the line that the person types, without spaces around it. It is read on a thread of its
/// own, so that a signal can end the command meanwhile.
///
/// # Errors
///
/// Fails if the terminal cannot be read or written, is closed, or gives no answer within `ANSWER_TIMEOUT`.
pub async fn ask(question: &str) -> io::Result<String> {
    crate::question(question)?;
    let read = || {
        let mut answer = String::new();
        io::stdin().read_line(&mut answer).map(|length| (length, answer))
    };
    let (length, answer) = blocking::run(ANSWER_TIMEOUT, read).await.map_err(io::Error::other)??;
    if length == 0 {
        crate::line("")?;
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the terminal was closed"));
    }
    Ok(answer.trim().to_owned())
}

/// Reads the value of a secret: what the user types after the question, which is not shown, or all of stdin without the
/// line breaks at its end. `None` if a signal came meanwhile; the terminal then shows again what is typed.
///
/// # Errors
///
/// Fails if stdin cannot be read, nothing is typed within `SECRET_TIMEOUT`, the value is larger than `MAX_SECRET_BYTES`, or
/// signals cannot be handled.
pub async fn ask_secret(question: &str) -> io::Result<Option<Secret>> {
    let is_typed = io::stdin().is_terminal();
    let read = move || -> io::Result<String> {
        let mut text = String::new();
        match is_typed {
            true => drop(io::stdin().read_line(&mut text)?),
            false => drop(io::stdin().take(MAX_SECRET_BYTES + 1).read_to_string(&mut text)?),
        }
        Ok(text)
    };
    // First, so that no signal ends the process while the terminal shows nothing.
    let mut signals = EndSignals::listen()?;
    let hidden = is_typed.then(HiddenInput::start).transpose()?;
    if is_typed {
        crate::to_stderr(format_args!("{question} (not shown): "));
    }
    let text = tokio::select! {
        text = blocking::run(SECRET_TIMEOUT, read) => Some(text.map_err(io::Error::other)?),
        _ = signals.next() => None,
    };
    if hidden.is_some() {
        // Fails if the terminal is gone.
        crate::to_stderr("\n");
    }
    drop(hidden);
    let Some(text) = text.transpose()? else { return Ok(None) };
    let text = text.trim_end_matches(['\n', '\r']);
    match text.len() as u64 {
        0..=MAX_SECRET_BYTES => Ok(Some(Secret::new(text))),
        _ => Err(io::Error::other(format!("the value is larger than {MAX_SECRET_BYTES} bytes"))),
    }
}
