//! Reads the command line and the environment variables of its options.
//!
//! A client that starts us with a wrong option shows neither our stderr nor our exit code to anyone, and does not start
//! us again. So what is wrong is left out and reported, like an error in the config: [`parse`] returns the rest of the
//! command line together with the errors. `main` decides whether they end the process, as they do on a terminal and in
//! commands.

use super::{Cli, CliOptions};
use base::text::visible;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, Args, Command, CommandFactory, Error, FromArgMatches};
use config::nearest::nearest;
use process::launch::{ANCESTORS_VAR, OWN_VAR_PREFIX, OWNER_VAR};
use std::error::Error as _;
use std::ffi::{OsStr, OsString};

/// The variables that no option has: the filter of the log, and those that we set for our servers.
const OTHER_VARIABLES: [&str; 3] = ["DYNAMIC_MCP_LOG", ANCESTORS_VAR, OWNER_VAR];

/// Options and commands that there were once, and what to do in their place.
const RETIRED: [(&str, &str); 3] = [
    (
        "--pin",
        "write the version into `args` of the server's entry, as in `PACKAGE@1.2.3` or `PACKAGE==1.2.3`",
    ),
    ("--share", "write `\"share\": \"directory\"` or `\"user\"` for a server without state between calls"),
    ("update", "write the new version into `args` of the server's entry, and run `dynamic-mcp check`"),
];

/// What is wrong with the command line or a variable, and how clap shows it.
pub struct UsageError {
    /// What is wrong and what to do, on one line. Never repeats a value, which may be a secret.
    pub message: String,
    /// clap's error, for the terminal. `None` if it is about a variable or was not found by clap.
    shown: Option<Error>,
    /// Whether it may be the profile that is left out, so that more servers would be used than is meant.
    is_about_profile: bool,
}

impl UsageError {
    /// Creates an error that clap did not find.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), shown: None, is_about_profile: false }
    }

    /// Prints it on stderr.
    pub fn print(&self) {
        match &self.shown {
            Some(error) => print(error),
            None => terminal::message(&self.message),
        }
    }
}

/// Prints an error, help or the version as clap does, in its colors. It fails silently if stderr has no reader.
pub fn print(error: &Error) {
    #[expect(clippy::disallowed_methods, reason = "`shown_error` and `shown_variables` make it visible")]
    error.print().ok();
}

/// Returns the error of clap for the terminal: what it says of the command line when every argument is made visible.
fn shown_error(command: &Command, args: &[OsString], error: &Error) -> Error {
    if retired(error).is_some() {
        return command.clone().error(error.kind(), describe(error, OsStr::new("")));
    }
    let args = args.iter().map(|arg| visible(&arg.to_string_lossy()));
    let shown = command.clone().try_get_matches_from(args).and_then(|m| Cli::from_arg_matches(&m)).err();
    shown.unwrap_or_else(|| command.clone().error(error.kind(), describe(error, OsStr::new(""))))
}

/// Leaves values of variables out of the help that are not visible as they are.
fn shown_variables(command: Command) -> Command {
    let value = |name: &OsStr| std::env::var_os(name).unwrap_or_default().to_string_lossy().into_owned();
    with_variables(command, |name| visible(&value(name)) != value(name), |arg| arg.hide_env_values(true))
}

/// Changes the options whose variable is one of these.
fn with_variables(command: Command, is_meant: impl Fn(&OsStr) -> bool, change: fn(Arg) -> Arg) -> Command {
    let meant = command.get_arguments().filter(|arg| arg.get_env().is_some_and(&is_meant));
    let ids: Vec<_> = meant.map(|arg| arg.get_id().to_string()).collect();
    ids.into_iter().fold(command, |command, id| command.mut_arg(id, change))
}

/// Parses the command line, and the environment variables of its options. Returns it without what is wrong, and what is
/// wrong.
///
/// # Errors
///
/// Returns clap's error if the command line is one of a command that cannot be repaired, or asks for help or the
/// version: its text and exit code are the answer.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<(Cli, Vec<UsageError>), Error> {
    let mut args: Vec<OsString> = args.into_iter().collect();
    // Most starts are by clients, without a command, and all commands cost more than everything else here.
    let options = CliOptions::augment_args(Command::new("dynamic-mcp"));
    let mut errors: Vec<UsageError> = misspelled_variables(&options, std::env::vars_os()).collect();
    let misspelled = errors.len();
    let served = with_usable_variables(options).try_get_matches_from(&args);
    if let Ok(options) = served.and_then(|matches| CliOptions::from_arg_matches(&matches))
        && errors.is_empty()
    {
        return Ok((Cli { options, command: None }, errors));
    }
    let mut command = with_usable_variables(Cli::command());
    // The ids of their options.
    let mut wrong_variables: Vec<String> = Vec::new();
    loop {
        // Each round removes an argument or a variable.
        let parsed = command.try_get_matches_from_mut(&args);
        let parsed = parsed.and_then(|matches| Cli::from_arg_matches(&matches));
        let error = match parsed {
            Ok(mut cli) => {
                // A variable has no effect beside the profile that is named.
                let harmless = if cli.options.profile.is_some() { misspelled } else { 0 };
                if errors.iter().skip(harmless).any(|error| error.is_about_profile) {
                    // Serving without it would show more than is meant.
                    cli.options.profile = Some(String::new());
                }
                return Ok((cli, errors));
            }
            Err(error) => error,
        };
        // Parsing has changed the command. A copy for each start would cost more than a new one after an error.
        command = wrong_variables.iter().fold(with_usable_variables(Cli::command()), without_variable);
        let is_about_profile = is_about(&error, "--profile");
        if let Some(at) = wrong_argument(&error, &args) {
            let message = describe(&error, &args[at]);
            let count = count(&command, &args, at, &error);
            let shown = Some(shown_error(&command, &args, &error));
            errors.push(UsageError { message, shown, is_about_profile });
            args.drain(at..at + count);
            continue;
        }
        let Some((id, variable)) = wrong_variable(&command, &error) else {
            return Err(shown_error(&command, &args, &error));
        };
        let what = match error.kind() {
            ErrorKind::InvalidUtf8 => "it is not UTF-8".to_owned(),
            _ => describe(&error, OsStr::new("")),
        };
        let is_about_profile = is_about_profile || id == "profile";
        let message = format!("the environment variable {variable}: {what}");
        errors.push(UsageError { is_about_profile, ..UsageError::new(message) });
        command = without_variable(command, &id);
        wrong_variables.push(id);
    }
}

/// Leaves variables that are empty out of the command line, and values that are not visible out of its help.
fn with_usable_variables(command: Command) -> Command {
    shown_variables(without_empty_variables(command))
}

/// Makes the option with this id not read its variable.
fn without_variable(command: Command, id: &String) -> Command {
    command.mut_arg(id, |arg| arg.env(None::<&'static str>))
}

/// Makes variables that are empty count as not set.
fn without_empty_variables(command: Command) -> Command {
    let is_empty = |variable: &OsStr| std::env::var_os(variable).is_some_and(|value| value.is_empty());
    with_variables(command, is_empty, |arg| arg.env(None::<&'static str>))
}

/// Returns the variables that begin like ours and are none, but are probably meant as one.
fn misspelled_variables(
    command: &Command,
    variables: impl Iterator<Item = (OsString, OsString)>,
) -> impl Iterator<Item = UsageError> {
    let options = command.get_arguments().filter_map(|arg| arg.get_env()?.to_str());
    let known: Vec<String> = options.chain(OTHER_VARIABLES).map(str::to_owned).collect();
    let misspelled = move |(name, value): (OsString, OsString)| {
        // The beginning is the same in all, so it says nothing about the similarity.
        let own = name.to_str()?.strip_prefix(OWN_VAR_PREFIX)?;
        let known = || known.iter().filter_map(|known| known.strip_prefix(OWN_VAR_PREFIX));
        if value.is_empty() || known().any(|known| known == own) {
            return None;
        }
        let meant = nearest(own, known())?;
        let message = format!(
            "there is no environment variable {OWN_VAR_PREFIX}{own}; did you mean {OWN_VAR_PREFIX}{meant}?"
        );
        Some(UsageError { is_about_profile: meant == "PROFILE", ..UsageError::new(message) })
    };
    variables.filter_map(misspelled)
}

/// Returns the place of the argument that an error is about. `None` if it is about a variable, or about something that
/// is missing.
fn wrong_argument(error: &Error, args: &[OsString]) -> Option<usize> {
    let find = |wanted: &str| {
        let is_wanted = |arg: &OsString| {
            let arg = arg.to_string_lossy();
            arg == wanted
                || arg.strip_prefix(wanted).is_some_and(|rest| rest.starts_with('=') || wanted.len() == 2)
        };
        args.iter().skip(1).position(is_wanted).map(|at| at + 1)
    };
    match error.kind() {
        ErrorKind::UnknownArgument
        | ErrorKind::InvalidSubcommand
        | ErrorKind::InvalidValue
        | ErrorKind::ValueValidation
        | ErrorKind::ArgumentConflict
        | ErrorKind::TooManyValues
        | ErrorKind::WrongNumberOfValues
        | ErrorKind::NoEquals => {
            let named = option_of(error).and_then(|option| find(&option));
            named.or_else(|| find(&context(error, ContextKind::InvalidSubcommand)?))
        }
        ErrorKind::InvalidUtf8 => args.iter().position(|arg| arg.to_str().is_none()),
        _ => None,
    }
}

/// Returns how many arguments go with the one at this place, which `error` is about: it alone, or an option and its
/// value. An option that does not exist takes a value if the one that is probably meant does.
fn count(command: &Command, args: &[OsString], at: usize, error: &Error) -> usize {
    let meant =
        context(error, ContextKind::SuggestedArg).filter(|_| !args[at].to_string_lossy().contains('='));
    let meant = meant.as_deref().and_then(|meant| meant.split([' ', '=']).next());
    let name = meant.or_else(|| args[at].to_str()).and_then(|arg| arg.strip_prefix("--")).unwrap_or_default();
    let option = command.get_arguments().find(|arg| arg.get_long() == Some(name));
    let takes_value =
        option.is_some_and(|arg| matches!(arg.get_action(), ArgAction::Set | ArgAction::Append));
    let has_value = args.get(at + 1).is_some_and(|next| !next.to_string_lossy().starts_with("--"));
    1 + usize::from(takes_value && has_value)
}

/// Returns whether an error is about this option, or about one that is probably meant as this one.
fn is_about(error: &Error, option: &str) -> bool {
    let suggested = context(error, ContextKind::SuggestedArg);
    option_of(error).is_some_and(|named| named == option)
        || suggested.is_some_and(|suggested| suggested.split([' ', '=']).next() == Some(option))
}

/// Returns the option or argument that an error names, such as `--config`.
fn option_of(error: &Error) -> Option<String> {
    let named = context(error, ContextKind::InvalidArg)?;
    // It may be followed by the name of its value.
    let is_option = named.starts_with('-');
    Some(if is_option { named.split([' ', '=']).next().unwrap_or(&named).to_owned() } else { named })
}

/// Returns the id and the variable of the option whose variable an error is about: the option that it names, or the one
/// whose variable is not UTF-8.
fn wrong_variable(command: &Command, error: &Error) -> Option<(String, String)> {
    let named = option_of(error);
    let named = named.as_deref().and_then(|option| option.strip_prefix("--"));
    let is_not_utf8 = |name: &OsStr| std::env::var_os(name).is_some_and(|value| value.to_str().is_none());
    let with_variable = || command.get_arguments().filter_map(|arg| Some((arg, arg.get_env()?)));
    let of_option = with_variable().find(|(arg, _)| named.is_some() && arg.get_long() == named);
    let (arg, variable) = of_option.or_else(|| {
        with_variable().find(|(_, name)| error.kind() == ErrorKind::InvalidUtf8 && is_not_utf8(name))
    })?;
    Some((arg.get_id().to_string(), variable.to_string_lossy().into_owned()))
}

/// Returns what to do in place of an option or a command that there was once.
fn retired(error: &Error) -> Option<&'static str> {
    let named = option_of(error).or_else(|| context(error, ContextKind::InvalidSubcommand))?;
    RETIRED.into_iter().find(|(retired, _)| *retired == named).map(|(_, instead)| instead)
}

/// Says what is wrong with an argument, and what to do about it, without its value.
fn describe(error: &Error, arg: &OsStr) -> String {
    let option = option_of(error).unwrap_or_default();
    if let Some(instead) = retired(error) {
        let named = context(error, ContextKind::InvalidSubcommand).unwrap_or(option);
        return format!("`{named}` is no more; {instead}");
    }
    let nearest = [ContextKind::SuggestedArg, ContextKind::SuggestedSubcommand];
    let nearest = nearest.into_iter().find_map(|kind| context(error, kind));
    let hint = nearest.map(|nearest| format!("; did you mean `{nearest}`?")).unwrap_or_default();
    match error.kind() {
        ErrorKind::UnknownArgument if option.starts_with('-') => format!("there is no option {option}{hint}"),
        ErrorKind::UnknownArgument | ErrorKind::InvalidSubcommand => {
            let arg = arg.to_string_lossy();
            match is_path(&arg) {
                true => format!(
                    "{arg:?} is not an option or a command; to read it as the config file, write \"--config\" before it"
                ),
                false => format!("an argument is neither an option nor a command{hint}"),
            }
        }
        ErrorKind::ArgumentConflict => match context(error, ContextKind::PriorArg) {
            Some(other) if !other.starts_with(&option) => {
                format!("{option} cannot be used together with {other}")
            }
            _ => format!("{option} is given more than once"),
        },
        ErrorKind::TooManyValues => format!("{option} takes no value"),
        ErrorKind::InvalidUtf8 => "an argument is not UTF-8".to_owned(),
        _ if context(error, ContextKind::InvalidValue).is_none_or(|value| value.is_empty()) => {
            format!("{option} needs a value")
        }
        _ => match (error.source(), error.get(ContextKind::ValidValue)) {
            (Some(why), _) => format!("{option}: {why}"),
            (None, Some(ContextValue::Strings(valid))) if !valid.is_empty() => {
                format!("{option}: expected {}", valid.join(" or "))
            }
            (None, _) => format!("{option} has a wrong value"),
        },
    }
}

/// Returns whether an argument is the path of a file rather than a word.
fn is_path(arg: &str) -> bool {
    arg.contains('/') || [".json", ".jsonc", ".toml"].iter().any(|extension| arg.ends_with(extension))
}

/// Returns a text of an error's context.
fn context(error: &Error, kind: ContextKind) -> Option<String> {
    match error.get(kind)? {
        ContextValue::String(text) => Some(text.clone()),
        // The best suggestion is the last one.
        ContextValue::Strings(texts) => texts.last().cloned(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn parsed(args: &[&str]) -> (Cli, Vec<String>) {
        let args = ["dynamic-mcp"].iter().chain(args).map(OsString::from);
        let (cli, errors) = parse(args).unwrap_or_else(|error| panic!("{error}"));
        (cli, errors.into_iter().map(|error| error.message).collect())
    }

    #[test]
    fn what_there_is_no_more_says_what_to_do() {
        for (args, instead) in [
            (&["check", "--pin"][..], "`--pin` is no more; write the version"),
            (&["check", "--share", "g"], "`--share` is no more; write `\"share\""),
            (&["update", "g"], "`update` is no more; write the new version"),
        ] {
            let args = ["dynamic-mcp"].iter().chain(args).map(OsString::from);
            let (_, errors) = parse(args).unwrap_or_else(|error| panic!("{error}"));
            let shown = errors[0].shown.as_ref().unwrap().to_string();
            assert!(errors[0].message.contains(instead) && shown.contains(instead), "{shown}");
        }
    }

    #[test]
    fn what_is_wrong_is_left_out_and_the_rest_counts() {
        for (wrong, message) in [
            (&["--pure-lzay"][..], "there is no option --pure-lzay; did you mean `--pure-lazy`?"),
            (&["--key=s3cret"], "there is no option --key"),
            (&["--log-levl", "s3cret"], "there is no option --log-levl; did you mean `--log-level`?"),
            (&["--log-levl=s3cret"], "there is no option --log-levl; did you mean `--log-level`?"),
            (&["-x"], "there is no option -x"),
            (&["--idle-timeout", "s3cret"], "--idle-timeout: expected a number of seconds, or a duration"),
            (&["--idle-timeout=s3cret"], "--idle-timeout: expected a number of seconds"),
            (&["--surface", "s3cret"], "--surface: expected meta or flat"),
            (&["--no-cache=s3cret"], "--no-cache takes no value"),
            (&["--eager-startup"], "--eager-startup cannot be used together with --pure-lazy"),
            (&["--log-level", "info", "--log-level", "s3cret"], "--log-level is given more than once"),
            (
                &["/home/me/servers.json"],
                "\"/home/me/servers.json\" is not an option or a command; to read it as the config file, write \
                 \"--config\" before it",
            ),
            (&["s3cret"], "an argument is neither an option nor a command"),
            (&["lgoin"], "an argument is neither an option nor a command; did you mean `login`?"),
            (&["chekc"], "an argument is neither an option nor a command; did you mean `check`?"),
        ] {
            let args = [wrong, &["--config", "c.json", "--pure-lazy"]].concat();
            let (cli, errors) = parsed(&args);
            assert_eq!(errors.len(), 1, "{wrong:?}: {errors:?}");
            assert!(errors[0].starts_with(message), "{wrong:?}: {errors:?}");
            assert!(!errors[0].contains("s3cret"), "{errors:?}");
            assert_eq!(cli.options.config, [Path::new("c.json")], "{wrong:?}");
            assert!(
                cli.options.pure_lazy && !cli.options.eager_startup && cli.command.is_none(),
                "{wrong:?}"
            );
        }
    }

    #[test]
    fn an_error_that_may_be_about_the_profile_never_shows_more_servers() {
        for (args, profile) in [
            (&["--profile", "work"][..], Some("work")),
            (&["--nope"], None),
            (&["--profile"], Some("")),
            (&["--profile="], Some("")),
            (&["--porfile", "work"], Some("")),
            (&["--porfile=work"], Some("")),
            (&["--profile", "a", "--profile", "b"], Some("")),
        ] {
            let (cli, errors) = parsed(args);
            assert_eq!(cli.options.profile.as_deref(), profile, "{args:?}");
            assert_eq!(errors.is_empty(), profile == Some("work"), "{args:?}");
        }
    }

    #[test]
    fn variables_that_are_probably_misspelled_are_reported() {
        let command = Cli::command();
        let reported = |name: &str, value: &str| {
            let errors = misspelled_variables(&command, [(name.into(), value.into())].into_iter());
            let errors: Vec<_> = errors.map(|error| (error.message, error.is_about_profile)).collect();
            errors.into_iter().next()
        };
        for (name, meant) in [
            ("CONFG", "CONFIG"),
            ("CONFIG_FILE", "CONFIG"),
            ("config", "CONFIG"),
            ("LOG_LEVLE", "LOG_LEVEL"),
            ("PURELAZY", "PURE_LAZY"),
            ("IDLETIMEOUT", "IDLE_TIMEOUT"),
            ("PROFLE", "PROFILE"),
        ] {
            let expected = format!(
                "there is no environment variable DYNAMIC_MCP_{name}; did you mean DYNAMIC_MCP_{meant}?"
            );
            let error = reported(&format!("DYNAMIC_MCP_{name}"), "s3cret");
            assert_eq!(error, Some((expected, meant == "PROFILE")));
            assert_eq!(reported(&format!("DYNAMIC_MCP_{name}"), ""), None);
        }
        // Ours, those of our tests and benchmarks, and names that are like none.
        for name in [
            "CONFIG",
            "PROFILE",
            "LOG",
            "ANCESTORS",
            "OWNER",
            "REQUIRE_REAL",
            "SOAK_SEED",
            "SOAK_MINUTES",
            "BENCH_CORE",
            "BENCH_PEERS",
            "BENCH_PROGRAM",
            "REPETITIONS",
            "ROUNDS",
            "TEST_NAMESPACE",
            "VERSION",
            "HOME",
        ] {
            assert_eq!(reported(&format!("DYNAMIC_MCP_{name}"), "x"), None, "{name}");
        }
        assert_eq!(reported("CONFG", "x"), None);
    }

    #[test]
    fn every_error_is_reported() {
        let (cli, errors) = parsed(&["a", "--config", "c.json", "b", "--nope", "c", "--surface"]);
        assert_eq!(errors.len(), 5, "{errors:?}");
        assert_eq!(errors[4], "--surface needs a value");
        assert_eq!(cli.options.config, [Path::new("c.json")]);
    }

    #[test]
    fn a_command_that_lacks_an_argument_is_an_error() {
        for args in [&["login"][..], &["cache"], &["--help"], &["--version"]] {
            let args = ["dynamic-mcp"].iter().chain(args).map(OsString::from);
            assert!(parse(args).is_err());
        }
        let (cli, errors) = parsed(&["login", "docs", "--nope"]);
        assert!(cli.command.is_some());
        assert_eq!(errors, ["there is no option --nope"]);
    }
}
