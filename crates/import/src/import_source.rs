//! What `import` reads from: a client, or a file in the form of any client.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValue, TypedValueParser, ValueParserFactory};
use clap::error::ErrorKind;

use super::clients::apps::ClientApp;

/// A source of servers, as the command line names it.
#[derive(Clone, Debug)]
pub enum ImportSource {
    /// The files of a client.
    Client(ClientApp),
    /// A file, wherever it is.
    File(PathBuf),
}

/// Parses the name of a client, or else the path of a file.
#[derive(Clone, Debug)]
pub struct ImportSourceParser;

impl ValueParserFactory for ImportSource {
    type Parser = ImportSourceParser;

    fn value_parser() -> Self::Parser {
        ImportSourceParser
    }
}

impl TypedValueParser for ImportSourceParser {
    type Value = ImportSource;

    fn parse_ref(
        &self,
        command: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<ImportSource, clap::Error> {
        let client = ClientApp::value_parser().parse_ref(command, arg, value);
        let path = Path::new(value);
        match client {
            Ok(app) => Ok(ImportSource::Client(app)),
            Err(_) if path.is_file() => Ok(ImportSource::File(path.to_owned())),
            Err(_) if path.components().count() > 1 || path.extension().is_some() => {
                let message = format!("there is no file {}\n", base::text::path(path));
                Err(command.clone().error(ErrorKind::ValueValidation, message))
            }
            // It names the clients.
            Err(error) => Err(error),
        }
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let clients = ClientApp::value_parser();
        let known: Vec<_> = clients.possible_values()?.collect();
        Some(Box::new(known.into_iter()))
    }
}
