//! Reads the clients' files and finds the servers in them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::clients::apps::{ClientApp, is_own_entry};
use crate::clients::client::HostOs;
use crate::clients::client_rules::{globs, is_policy, rules_for};
use crate::clients::host_search::HostSearch;
use crate::clients::package::{ClientPackage, ClientSetting, PackageContext, PackageServer};
use crate::clients::rule_file::{ClientRule, RuleFile, TurnedOff};
use crate::clients::shape;
use crate::clients::translate::{TranslatedEntry, translate};
use crate::clients::variables::EntryContext;
use crate::files::write::is_read_only;
use crate::json::members;
use crate::source::{FileTexts, check_in_project, literal, read_in, value_at};
use crate::tool_rules::{ToolEffect, ToolRuleSet};
use base::text;
use config::ConfigError;
use config::env::Env;
use config::load::name_error;

/// A client's file that was read, or a package of a client.
#[derive(Debug)]
pub(crate) struct ClientFile {
    /// The client.
    pub app: ClientApp,
    /// Its path.
    pub path: PathBuf,
    /// Its text, with a byte order mark if it has one.
    pub text: String,
    /// Its content.
    pub root: Value,
    /// Its places for servers.
    pub places: Vec<Place>,
    /// Whether it belongs to a project.
    pub(crate) is_project: bool,
    /// The package that has the servers. Its file is never written.
    pub(crate) package: Option<ClientPackage>,
}

/// A place for servers in a file.
#[derive(Debug, Default)]
pub(crate) struct Place {
    /// The keys that lead to it.
    pub keys: Vec<String>,
    /// The directory of the project that it is for.
    pub project: Option<PathBuf>,
    /// The servers in it that can be imported.
    pub servers: Vec<FoundServer>,
    /// Entries that stay as they are, each with the reason.
    pub(crate) staying: Vec<(String, String)>,
    /// The entry that starts this program with the config file that is imported into.
    pub own: Option<FoundServer>,
    /// The name of one that starts it with another config file, and that file. The place is then left as it is.
    pub(crate) other_own: Option<(String, PathBuf)>,
}

impl ClientFile {
    /// Creates a file without places.
    pub(crate) fn new(app: ClientApp, path: PathBuf, text: String, root: Value) -> Self {
        Self { app, path, text, root, places: Vec::new(), is_project: false, package: None }
    }
}

/// Returns the places of these files, each with its file.
pub(crate) fn places_of(files: &[ClientFile]) -> impl Iterator<Item = (&ClientFile, &Place)> {
    files.iter().flat_map(|file| file.places.iter().map(move |place| (file, place)))
}

/// Returns the places of these files, for changes.
pub(crate) fn places_mut(files: &mut [ClientFile]) -> impl Iterator<Item = &mut Place> {
    files.iter_mut().flat_map(|file| &mut file.places)
}

impl Place {
    /// Returns whether it has servers of others, also such that stay.
    fn has_servers(&self) -> bool {
        !self.servers.is_empty() || !self.staying.is_empty()
    }

    /// Leaves servers in the file.
    pub(crate) fn leave(&mut self, which: impl Fn(&FoundServer) -> bool, reason: &str) {
        let left = self.servers.extract_if(.., |server| which(server));
        self.staying.extend(left.map(|server| (server.name, reason.to_owned())));
    }
}

/// A server of a client.
#[derive(Clone, Debug)]
pub(crate) struct FoundServer {
    /// Its name.
    pub name: String,
    /// The name by which the client's rules know it.
    pub(crate) client_name: String,
    /// Its entry, in our form, with the client's rules for its tools.
    pub translated: TranslatedEntry,
    /// The setting that turns it off in its package.
    pub(crate) switch: Option<ClientSetting>,
}

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Discovery {
    /// The files that were read.
    pub files: Vec<ClientFile>,
    /// The user's files of clients that are not imported from: they may use this program already.
    pub(crate) other_files: Vec<ClientFile>,
    /// Files that cannot be read or parsed.
    pub errors: Vec<(ClientApp, ConfigError)>,
    /// Directories of projects whose servers were left out, from a user's file.
    pub(crate) other_projects: Vec<PathBuf>,
    /// What clients decide for all tools, each with the settings.
    pub(crate) policies: Vec<(ClientApp, Vec<String>)>,
    /// How many rules of clients let tools of their servers go without a question.
    pub(crate) allowing: Vec<(ClientApp, usize)>,
    /// Files of clients whose rules for tools get the names of our tools.
    pub(crate) renamed: Vec<(ClientApp, RuleFile)>,
    /// Whether the clients' files are written: then rules are renamed where the client lists our tools one by one.
    /// Elsewhere they become rules of servers.json.
    writes_clients: bool,
    texts: FileTexts,
}

/// Reads the user's files of these clients. Files that do not exist are left out; those that cannot be read are in `errors`.
pub(crate) fn discover(apps: impl IntoIterator<Item = ClientApp>, env: &Env) -> Discovery {
    discover_in(&FileTexts::new(), apps, None, false, env)
}

/// Reads files as [`discover`] does, and those of the project in `project`. `texts`: what files have in place of their
/// content on disk. `writes_clients`: the clients' files are written, so that rules can be renamed and packages turned off.
pub(crate) fn discover_in(
    texts: &FileTexts,
    apps: impl IntoIterator<Item = ClientApp>,
    project: Option<&Path>,
    writes_clients: bool,
    env: &Env,
) -> Discovery {
    let mut discovery = Discovery { texts: texts.clone(), writes_clients, ..Discovery::default() };
    apps.into_iter().for_each(|app| discovery.read_client(ClientScope { app, project, env }));
    discovery
}

/// A client whose files are read.
#[derive(Clone, Copy)]
struct ClientScope<'a> {
    app: ClientApp,
    /// The directory of the project whose files are read, too.
    project: Option<&'a Path>,
    env: &'a Env,
}

impl Discovery {
    /// Reads the user's files of the clients that are not among `apps`. One that cannot be read has no part in the import.
    pub(crate) fn read_others(&mut self, apps: &[ClientApp], env: &Env) {
        self.other_files = discover(ClientApp::all().filter(|app| !apps.contains(app)), env).files;
        // Their servers stay where they are.
        places_mut(&mut self.other_files).for_each(|place| place.servers.clear());
    }

    /// Returns the places of all files, with the client of each.
    pub(crate) fn places(&self) -> impl Iterator<Item = (&ClientFile, &Place)> {
        places_of(&self.files)
    }

    /// Returns the places of one client.
    pub(crate) fn places_in(&self, app: ClientApp) -> impl Iterator<Item = (&ClientFile, &Place)> {
        self.places().filter(move |(file, _)| file.app == app)
    }

    /// Returns whether a client has packages with servers that move.
    pub(crate) fn has_packages(&self, app: ClientApp) -> bool {
        self.places_in(app).any(|(file, place)| file.package.is_some() && !place.servers.is_empty())
    }

    /// Reads a file that the user named, in the form of the client that has such files.
    pub(crate) fn read_named_file(&mut self, path: &Path, env: &Env) {
        let read = read_in(&self.texts, path);
        let root = read.as_ref().ok().and_then(Option::as_ref).map_or(&Value::Null, |(_, root)| root);
        let app = ClientApp::of_file(path, root);
        match read {
            Ok(Some((text, mut root))) => {
                (app.by_name)(&mut root);
                let file = ClientFile::new(app, path.to_owned(), text, root);
                self.find_servers(ClientScope { app, project: None, env }, vec![file], Vec::new());
            }
            Ok(None) => {}
            Err(error) => self.errors.push((app, error)),
        }
    }

    fn read_client(&mut self, scope: ClientScope<'_>) {
        let app = scope.app;
        let files = self.client_files(scope);
        let context = PackageContext::new(scope.env, &self.texts);
        let packages = (app.packages)(&context);
        let errors = context.into_errors();
        self.find_servers(scope, files, packages);
        for error in errors {
            // Settings are read for their rules, too.
            if self.errors.iter().all(|(_, known)| known.file != error.file) {
                self.errors.push((app, error));
            }
        }
    }

    /// Reads the files of a client.
    fn client_files(&mut self, ClientScope { app, project, env }: ClientScope<'_>) -> Vec<ClientFile> {
        let mut files: Vec<ClientFile> = Vec::new();
        let users = app.user_files(env, HostOs::CURRENT).into_iter().map(|path| (app, path, false));
        let of_project = app.project_files.iter().filter_map(|name| Some(project?.join(name)));
        for (app, path, is_project) in users.chain(of_project.map(|path| (app.in_project(env), path, true))) {
            // The home directory may be taken for a project. Two clients may read one file.
            let mut known = self.files.iter().chain(&files);
            if known.all(|file| file.path != path)
                && let Some((text, root)) = self.read_file(app, &path, project.filter(|_| is_project))
            {
                files.push(ClientFile { is_project, ..ClientFile::new(app, path, text, root) });
            }
        }
        files
    }

    /// Finds the servers in these files and packages of a client, and notes its rules.
    fn find_servers(&mut self, scope: ClientScope<'_>, files: Vec<ClientFile>, packages: Vec<ClientPackage>) {
        let ClientScope { app, project, .. } = scope;
        let rules = self.read_rules(scope, &files);
        let servers = |of_project: bool| {
            let files = files.iter().filter(move |file| file.is_project == of_project);
            files.flat_map(|file| members(value_at(&file.root, &app.servers_path(&file.root))))
        };
        let user_servers: Map<String, Value> =
            servers(false).map(|(name, entry)| (name.clone(), entry.clone())).collect();
        let overridden = servers(true).filter(|_| app.puts_project_over_user);
        let overridden: BTreeSet<String> = overridden.map(|(name, _)| name.clone()).collect();
        let found = ServerFinder { scope, rules: &rules, user_servers: &user_servers };
        let in_packages = |server: &FoundServer| {
            packages.iter().flat_map(|package| &package.servers).any(|known| known.client_name == server.name)
        };
        for mut file in files {
            let mut places = vec![(app.servers_path(&file.root), project.filter(|_| file.is_project))];
            for (keys, dir) in (app.projects)(&file.root).into_iter().filter(|_| !file.is_project) {
                match project {
                    Some(project) if project == dir => places.push((keys, Some(project))),
                    _ if members(value_at(&file.root, &keys)).next().is_none() => {}
                    _ => self.other_projects.push(dir),
                }
            }
            file.places =
                places.into_iter().map(|(keys, project)| found.place(&file, keys, project)).collect();
            for place in file.places.iter_mut().filter(|place| place.project.is_none()) {
                place.leave(|server| overridden.contains(&server.name), "the project's file changes it");
                place.leave(
                    in_packages,
                    "a server of this name in an extension or a plugin would start in its place",
                );
            }
            self.files.push(file);
        }
        let packages = packages.into_iter().map(|package| found.package(package, self.writes_clients));
        self.files.extend(packages.filter(|file| file.places.iter().any(Place::has_servers)));
        self.note_rules(app, rules, &user_servers);
    }

    /// Notes the rules of a client that will be renamed, and how many of the others will count no more.
    fn note_rules(&mut self, app: ClientApp, rules: Vec<RuleFile>, user_servers: &Map<String, Value>) {
        let names = || user_servers.iter().filter(|(_, entry)| !is_own_entry(entry));
        let allows = |rule: &&ClientRule| {
            let is_about = |(name, _): (&String, &Value)| !globs(&app, rule, name).is_empty();
            rule.effect == ToolEffect::Allow && !is_policy(&app, rule) && names().any(is_about)
        };
        let allowing = rules.iter().flat_map(|file| &file.rules).filter(allows).count();
        if allowing > 0 && app.asks {
            self.allowing.push((app, allowing));
        }
        let renamed = rules.into_iter().filter(|file| file.renamed_text.is_some());
        self.renamed.extend(renamed.map(|file| (app, file)));
    }

    /// Reads the text and the content of a file. `None`: there is no file, or an error was noted.
    fn read_file(&mut self, app: ClientApp, path: &Path, project: Option<&Path>) -> Option<(String, Value)> {
        let read = || {
            project.map_or(Ok(()), |project| check_in_project(path, project))?;
            let mut read = read_in(&self.texts, path)?;
            read.iter_mut().for_each(|(_, root)| (app.by_name)(root));
            Ok(read)
        };
        let read: Result<Option<(String, Value)>, ConfigError> = read();
        read.unwrap_or_else(|error| {
            self.errors.push((app, error));
            None
        })
    }

    /// Reads the rules for tools, in the order in which the files count.
    fn read_rules(&mut self, scope: ClientScope<'_>, files: &[ClientFile]) -> Vec<RuleFile> {
        let ClientScope { app, project, env } = scope;
        let mut all = Vec::new();
        let mut add = |path: &Path, is_project: bool, root: &Value, renamed_text: Option<String>| {
            let path = path.to_owned();
            let mut file = RuleFile { path, is_project, renamed_text, ..RuleFile::default() };
            (app.rules.read)(&mut file, root);
            all.push(file);
        };
        for file in files {
            add(&file.path, file.is_project, &literal(&file.path, &file.text).unwrap_or_default(), None);
            // Its part for a project has settings of the project.
            let parts = (app.projects)(&file.root).into_iter().filter(|(_, dir)| Some(&**dir) == project);
            let part = |keys: Vec<String>| value_at(&file.root, keys.split_last()?.1);
            parts.filter_map(|(keys, _)| part(keys)).for_each(|part| add(&file.path, true, part, None));
        }
        let lists_tools = || matches!((app.tool_search)(&app, env), HostSearch::On(_));
        let is_renamed = self.writes_clients && app.rules.renamed.is_some() && lists_tools();
        let users = (app.rules.user_files)(env).into_iter().map(|path| (path, None));
        let of_project =
            app.rules.project_files.iter().filter_map(|name| Some((project?.join(name), project)));
        for (path, project) in users.chain(of_project) {
            if let Some((text, root)) = self.read_file(app, &path, project) {
                let is_writable = is_renamed && !is_read_only(&path) && !path.starts_with("/etc");
                add(&path, project.is_some(), &root, is_writable.then_some(text));
            }
        }
        let mut policies: Vec<String> = all.iter().flat_map(|file| file.policies.clone()).collect();
        let rules = all.iter().flat_map(|file| &file.rules);
        let asks = rules.filter(|rule| rule.effect == ToolEffect::Ask && is_policy(&app, rule));
        policies.extend(asks.map(|rule| rule.written.clone()));
        if !policies.is_empty() {
            self.policies.push((app, policies));
        }
        all.iter_mut().for_each(RuleFile::set_renamed_apart);
        all
    }
}

/// Finds the servers of one client.
struct ServerFinder<'a> {
    scope: ClientScope<'a>,
    rules: &'a [RuleFile],
    /// The servers of the user's files.
    user_servers: &'a Map<String, Value>,
}

impl ServerFinder<'_> {
    /// Finds the servers in one place of a file.
    fn place(&self, file: &ClientFile, keys: Vec<String>, project: Option<&Path>) -> Place {
        let mut place = Place { keys, project: project.map(Path::to_owned), ..Place::default() };
        let servers =
            value_at(&file.root, &place.keys).filter(|servers| !servers.is_null()).map(shape::object);
        let servers = servers.transpose().unwrap_or_else(|reason| {
            place.staying.push((place.keys.join("."), reason));
            None
        });
        for (name, value) in servers.into_iter().flatten() {
            // Beside its servers, a client may have a setting.
            if *name == self.scope.app.beside_servers && !value.is_object() {
                continue;
            }
            match self.server(file, [name, name], value, project) {
                Ok(server) if is_own_entry(value) => place.own = Some(server),
                Ok(server) => place.servers.push(server),
                Err(reason) => place.staying.push((name.clone(), reason)),
            }
        }
        if project.is_some()
            && let Some(reason) = self.reaches_beyond(&place)
        {
            place.leave(|_| true, &reason);
        }
        place
    }

    /// Finds the servers of a package. `writes_clients`: its servers will be turned off.
    fn package(&self, mut package: ClientPackage, writes_clients: bool) -> ClientFile {
        let mut file = ClientFile::new(self.scope.app, package.file.clone(), String::new(), Value::Null);
        let mut place = Place { staying: std::mem::take(&mut package.staying), ..Place::default() };
        // One in the client's own file counts more.
        let counts = |server: &PackageServer| !self.user_servers.contains_key(&server.client_name);
        let servers = std::mem::take(&mut package.servers).into_iter().filter(counts);
        file.package = Some(package);
        for server in servers {
            let fixed = server.switch.as_ref().filter(|switch| writes_clients && is_read_only(&switch.file));
            let found = match fixed.map(|switch| text::path(&switch.file)) {
                Some(path) => Err(format!("{path} is read-only, so it cannot be turned off there")),
                None => self.server(&file, [&server.name, &server.client_name], &server.entry, None),
            };
            match found {
                Ok(found) if found.translated.entry.get("enabled") == Some(&Value::Bool(false)) => {}
                Ok(found) if is_own_entry(&server.entry) => {
                    place.staying.push((server.name, "it starts dynamic-mcp".to_owned()));
                    place.own = Some(found);
                }
                Ok(found) => place.servers.push(FoundServer { switch: server.switch, ..found }),
                Err(reason) => place.staying.push((server.name, reason)),
            }
        }
        file.places.push(place);
        file
    }

    /// Finds one server, by its name and the name by which the client's rules know it.
    ///
    /// # Errors
    ///
    /// Says why it stays in the client's file.
    fn server(
        &self,
        file: &ClientFile,
        [name, client_name]: [&str; 2],
        value: &Value,
        project: Option<&Path>,
    ) -> Result<FoundServer, String> {
        let dir = file.path.parent().unwrap_or(&file.path);
        let is_ours = file.package.as_ref().is_some_and(|package| package.is_ours);
        let context = EntryContext { app: file.app, dir, project, env: self.scope.env, is_ours };
        let mut translated = translate(shape::object(value)?, &context)?;
        let found = |translated| FoundServer {
            name: name.to_owned(),
            client_name: client_name.to_owned(),
            translated,
            switch: None,
        };
        if is_own_entry(value) {
            return Ok(found(translated));
        }
        if let Some((reason, _)) = name_error(name, false) {
            return Err(reason);
        }
        let overridden = self
            .user_servers
            .get(name)
            .filter(|_| project.is_some() && self.scope.app.puts_project_over_user);
        if overridden.is_some_and(|user| !is_own_entry(user)) {
            return Err("it is put over the server of the same name in your own file".to_owned());
        }
        let asks = (self.scope.app.shows_questions)(&file.root);
        let rules_in =
            |project| rules_for(&self.scope.app, client_name, project, &self.rules_in(project), asks);
        let rules = rules_in(project.is_some())?;
        if let Some(rule) = self.rule_without_a_name(client_name, project.is_some()) {
            return Err(format!("{}: it names servers by a pattern", rule.written));
        }
        if let (Some(_), Ok(users)) = (project, rules_in(false)) {
            let is_lifted = users.is_off && !rules.is_off || !users.tools.is_within(&rules.tools);
            if is_lifted {
                return Err("the project lifts a rule of yours for a server of this name".to_owned());
            }
        }
        if rules.is_off {
            translated.entry.insert("enabled".to_owned(), Value::Bool(false));
        }
        let mut tools = ToolRuleSet::take_from(&mut translated.entry);
        tools.join(rules.tools);
        tools.write_to(&mut translated.entry);
        Ok(found(translated))
    }

    /// The rules that count for the user's servers, or for those of the project.
    fn rules_in(&self, project: bool) -> Vec<&ClientRule> {
        self.files(project).flat_map(|file| &file.rules).collect()
    }

    /// The files with rules that count for the user's servers, or for those of the project.
    fn files(&self, project: bool) -> impl Iterator<Item = &RuleFile> {
        self.rules.iter().filter(move |file| project || !file.is_project)
    }

    /// Returns a rule that refuses tools of a server and should be renamed, but is about several servers.
    fn rule_without_a_name(&self, server: &str, project: bool) -> Option<&ClientRule> {
        let rename = self.scope.app.rules.renamed?;
        let mut rules = self.files(project).flat_map(|file| &file.renamed);
        rules.find(|rule| self.refuses(rule, server) && rename(&rule.pattern, server, "", "").is_none())
    }

    /// Returns whether a rule denies or asks for tools of a server, and not for those of every server.
    fn refuses(&self, rule: &ClientRule, server: &str) -> bool {
        rule.effect != ToolEffect::Allow
            && !is_policy(&self.scope.app, rule)
            && !globs(&self.scope.app, rule, server).is_empty()
    }

    /// Returns why the servers of a project cannot leave its file: the project says something about servers of the user's,
    /// or these need what only the user's file has.
    fn reaches_beyond(&self, place: &Place) -> Option<String> {
        let of_project = self.rules.iter().filter(|file| file.is_project).flat_map(|file| &file.rules);
        let is_in_place = |name: &String| place.servers.iter().any(|server| server.name == *name);
        let names =
            || self.user_servers.iter().filter(|(name, entry)| !is_own_entry(entry) && !is_in_place(name));
        let is_about = |rule: &ClientRule, name: &str| match &rule.turns_off {
            TurnedOff::No => self.refuses(rule, name),
            TurnedOff::NamedIn(..) => false,
            TurnedOff::Named(off) | TurnedOff::NamedOfProject(off) => off == name,
            TurnedOff::AllBut(allowed) => allowed.iter().all(|allowed| allowed != name),
        };
        for rule in of_project {
            if let Some((name, _)) = names().find(|(name, _)| is_about(rule, name)) {
                return Some(format!(
                    "{}: the project has a rule for {name}, which is your own server",
                    rule.written
                ));
            }
        }
        let needs_input = |(_, entry): &(&String, &Value)| entry.to_string().contains("${input:");
        let (name, _) =
            self.user_servers.iter().find(needs_input).filter(|_| self.scope.project.is_some())?;
        Some(format!("{name} of your own file has an input, which the project's file does not know"))
    }
}
