//! A client, in the project that is imported or elsewhere: its entry in the project's file replaces the one in the user's
//! file.

use std::path::Path;

use super::Origin;
use super::discover::Place;
use crate::clients::apps::ClientApp;
use crate::rules::client_rules::{ClientRule, RuleFile};

/// A client, in the project or elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ClientScope {
    /// The client.
    pub app: ClientApp,
    /// Whether it is about the client in the project.
    pub is_project: bool,
}

impl ClientScope {
    /// Returns the client that reads this place.
    pub(crate) fn of(app: ClientApp, place: &Place) -> Self {
        Self { app, is_project: place.project.is_some() }
    }

    /// Returns the client that has this server.
    pub(crate) fn of_origin(origin: &Origin) -> Self {
        Self { app: origin.app, is_project: origin.is_project }
    }

    /// For texts.
    pub(crate) fn label(self) -> String {
        format!("{}{}", self.app.label, if self.is_project { " (project)" } else { "" })
    }

    /// Returns the name of its profile. `project`: the directory of the project.
    pub(crate) fn profile_name(self, project: Option<&Path>) -> String {
        let dir = project.filter(|_| self.is_project).and_then(Path::file_name);
        match dir.map(|dir| dir.to_string_lossy()) {
            Some(dir) => {
                let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
                let dir: String = dir.chars().map(plain).collect();
                format!("{}-{dir}", self.app.id)
            }
            None => self.app.id.to_owned(),
        }
    }

    /// Returns the client whose profile has this name, outside of projects.
    pub(crate) fn of_profile(name: &str) -> Option<Self> {
        let is_of = |app: &ClientApp| {
            name.strip_prefix(app.id).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        };
        // The name of one client may begin with that of another one.
        let apps = ClientApp::all().iter().copied().filter(is_of);
        let app = apps.max_by_key(|app| app.id.len())?;
        Some(Self { app, is_project: false })
    }

    /// Returns whether the client has a server of this origin in this scope.
    pub(crate) fn has(self, origin: &Origin) -> bool {
        self.app == origin.app && (self.is_project || !origin.is_project)
    }

    /// Returns the rules of the files that count in this scope, in their order.
    pub(crate) fn rules(self, files: &[RuleFile]) -> impl Iterator<Item = (&RuleFile, &ClientRule)> {
        let is_read = move |file: &&RuleFile| self.app == file.app && (self.is_project || !file.is_project);
        files.iter().filter(is_read).flat_map(|file| file.rules.iter().map(move |rule| (file, rule)))
    }
}
