//! What is typed up to the cursor, as clap's definition of the command line understands it.

use clap::{Arg, ArgAction, Command};

/// The words up to the cursor.
pub(super) struct TypedLine<'c> {
    /// The command that the words name, or the program.
    pub(super) command: &'c Command,
    /// Its arguments so far, without options.
    pub(super) arguments: Vec<String>,
    /// The values of options so far.
    options: Vec<(&'c Arg, String)>,
    /// What stands at the cursor.
    pub(super) place: CursorPlace<'c>,
    /// What candidates begin with that the shell does not complete by itself, such as `--surface=`.
    pub(super) prefix: String,
    /// What is typed of the word at the cursor, after the prefix.
    pub(super) typed: String,
}

/// What stands at the cursor.
pub(super) enum CursorPlace<'c> {
    /// The name of a command.
    Command,
    /// The name of an option.
    Option,
    /// An argument, or the value of an option.
    Value(&'c Arg),
    /// Nothing that is known.
    Unknown,
}

impl<'c> TypedLine<'c> {
    /// Reads the words that follow the name of the program. The last one ends at the cursor.
    pub(super) fn new(root: &'c Command, words: &[String]) -> Self {
        let (typed, before) =
            words.split_last().map_or(("", words), |(last, before)| (last.as_str(), before));
        let mut line = Self {
            command: root,
            arguments: Vec::new(),
            options: Vec::new(),
            place: CursorPlace::Unknown,
            prefix: String::new(),
            typed: typed.to_owned(),
        };
        let (mut open_option, mut only_arguments) = (None, false);
        for word in before {
            if let Some(option) = open_option.take() {
                line.options.push((option, word.clone()));
            } else if only_arguments {
                line.arguments.push(word.clone());
            } else if word == "--" {
                only_arguments = true;
            } else if word.len() > 1 && word.starts_with('-') {
                open_option = line.read_option(word);
            } else if let Some(command) = line.command_of(word) {
                line.command = command;
            } else {
                line.arguments.push(word.clone());
            }
        }
        line.place = match open_option {
            Some(option) => CursorPlace::Value(option),
            None => line.place_of_word(only_arguments),
        };
        line
    }

    /// Returns the values of an option so far, by its id.
    pub(super) fn values<'l>(&'l self, id: &'l str) -> impl Iterator<Item = &'l str> {
        self.options.iter().filter(move |(option, _)| option.get_id() == id).map(|(_, value)| value.as_str())
    }

    /// Returns the command of this name, if a command may stand here.
    fn command_of(&self, word: &str) -> Option<&'c Command> {
        self.command.find_subcommand(word).filter(|_| self.arguments.is_empty())
    }

    /// Reads an option. Returns it if the next word is its value.
    fn read_option(&mut self, word: &str) -> Option<&'c Arg> {
        let (name, value) = word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
        let option = self.option(name).filter(|option| takes_value(option))?;
        let Some(value) = value else { return Some(option).filter(|option| !option.is_require_equals_set()) };
        self.options.push((option, value.to_owned()));
        None
    }

    /// Returns the option of this name, with its hyphens.
    fn option(&self, name: &str) -> Option<&'c Arg> {
        let is_named = |option: &&Arg| match name.strip_prefix("--") {
            Some(long) => option.get_long() == Some(long),
            None => option
                .get_short()
                .is_some_and(|short| name.strip_prefix('-') == Some(short.encode_utf8(&mut [0; 4]))),
        };
        self.command.get_opts().find(is_named)
    }

    /// Returns what stands at the cursor, if no option waits for its value.
    fn place_of_word(&mut self, only_arguments: bool) -> CursorPlace<'c> {
        if self.typed.starts_with('-') && !only_arguments {
            let Some((name, value)) = self.typed.split_once('=') else { return CursorPlace::Option };
            let option = self.option(name).filter(|option| takes_value(option));
            let (prefix, typed) = (format!("{name}="), value.to_owned());
            (self.prefix, self.typed) = (prefix, typed);
            return option.map_or(CursorPlace::Unknown, CursorPlace::Value);
        }
        if self.command.has_subcommands() && self.arguments.is_empty() {
            return CursorPlace::Command;
        }
        let mut rest = self.command.get_positionals().skip(self.arguments.len());
        let last = self.command.get_positionals().last().filter(|last| is_list(last));
        match rest.next().or(last).filter(|argument| !argument.is_last_set() || only_arguments) {
            Some(argument) => CursorPlace::Value(argument),
            None => CursorPlace::Unknown,
        }
    }
}

/// Returns whether an option has a value.
fn takes_value(option: &Arg) -> bool {
    option.get_action().takes_values()
}

/// Returns whether an argument may be given several times.
pub(super) fn is_list(argument: &Arg) -> bool {
    matches!(argument.get_action(), ArgAction::Append)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::CommandFactory;

    /// The command, what stands at the cursor and what is typed of it.
    fn place(words: &str) -> (String, String, String) {
        let mut root = Cli::command();
        root.build();
        let words: Vec<_> = words.split(' ').map(str::to_owned).collect();
        let line = TypedLine::new(&root, &words);
        let place = match line.place {
            CursorPlace::Command => "COMMAND".to_owned(),
            CursorPlace::Option => "OPTION".to_owned(),
            CursorPlace::Value(arg) => arg.get_id().to_string(),
            CursorPlace::Unknown => "-".to_owned(),
        };
        (line.command.get_name().to_owned(), place, format!("{}|{}", line.prefix, line.typed))
    }

    #[test]
    fn every_place_of_the_command_line_is_known() {
        for (words, command, expected, typed) in [
            ("", "dynamic-mcp", "COMMAND", "|"),
            ("ca", "dynamic-mcp", "COMMAND", "|ca"),
            ("--su", "dynamic-mcp", "OPTION", "|--su"),
            ("--surface ", "dynamic-mcp", "surface", "|"),
            ("--surface=me", "dynamic-mcp", "surface", "--surface=|me"),
            ("--nope=x", "dynamic-mcp", "-", "--nope=|x"),
            ("--config x --pure-lazy ca", "dynamic-mcp", "COMMAND", "|ca"),
            ("call ", "call", "group", "|"),
            ("call fs ", "call", "tool", "|"),
            ("call --profile work fs re", "call", "tool", "|re"),
            ("call fs read {} ", "call", "-", "|"),
            ("call fs --", "call", "OPTION", "|--"),
            ("--config x call fs --config y ", "call", "tool", "|"),
            ("search --server ", "search", "group", "|"),
            ("search x ", "search", "query", "|"),
            ("logs -f ", "logs", "group", "|"),
            ("remove a b ", "remove", "names", "|"),
            ("secret ", "secret", "COMMAND", "|"),
            ("secret set ", "set", "name", "|"),
            ("add x ", "add", "-", "|"),
            ("add x -- ", "add", "command", "|"),
            ("check --as ", "check", "client", "|"),
            ("import --project ", "import", "sources", "|"),
            ("nope ", "dynamic-mcp", "-", "|"),
        ] {
            let actual = place(words);
            assert_eq!(actual, (command.to_owned(), expected.to_owned(), typed.to_owned()), "{words:?}");
        }
    }
}
