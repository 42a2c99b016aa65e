//! The profiles of servers.json by which each client goes on to see the servers that it had.
//!
//! A profile that `import` makes leaves servers out (`["*", "!x"]`), so that a server that is added later appears
//! everywhere. One that exists is only added to: it never loses a server that it chooses, unless its client turns it off.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Map, Value, json};

use super::clients::apps::ClientApp;
use super::files::edit::ObjectEdit;
use super::merge::discover::Place;
use super::merge::own_entry::{option_values, plain};
use super::merge::{PlannedServer, free_name};
use base::text::{joined_up_to, name};
use config::file::values::ServerPattern;
use config::glob::Glob;
use config::notation::escape;

/// How many servers of a profile are named.
const MAX_NAMED: usize = 8;

/// A profile, as the file has it or will have it: globs, and those that leave servers out with `!` before them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Profile(Vec<String>);

impl Profile {
    /// Reads the servers of a profile. `None` if it has none that can be read. Without `servers`, it chooses all.
    pub(crate) fn read(value: &Value) -> Option<Self> {
        let servers = if value.is_object() { value.get("servers") } else { Some(value) };
        let Some(servers) = servers else { return Some(Self(vec!["*".to_owned()])) };
        let globs = servers.as_array()?.iter().map(|glob| Some(glob.as_str()?.to_owned()));
        globs.collect::<Option<_>>().map(Self)
    }

    /// Returns the value for the file, in place of this one.
    fn value(&self, before: Option<&Value>) -> Value {
        match before {
            Some(Value::Object(members)) => {
                let mut members = members.clone();
                members.insert("servers".to_owned(), json!(self.0));
                Value::Object(members)
            }
            _ => json!(self.0),
        }
    }

    /// Returns whether it chooses a server.
    pub(crate) fn chooses(&self, server: &str) -> bool {
        let patterns = self.0.iter().filter_map(|glob| ServerPattern::try_from(plain(glob)).ok());
        ServerPattern::choose_server(patterns.collect::<Vec<_>>().iter(), server)
    }

    /// Chooses a server, or leaves it out. Returns false if its globs do not allow that.
    fn set(&mut self, server: &str, is_chosen: bool) -> bool {
        let glob = escape(&Glob::escape(server));
        let exclusion = format!("!{glob}");
        if is_chosen && !self.chooses(server) {
            self.0.retain(|known| *known != exclusion);
        }
        if is_chosen && !self.chooses(server) {
            // A glob that begins with `!` excludes.
            let mark = if glob.starts_with('!') { "\\" } else { "" };
            self.0.push(format!("{mark}{glob}"));
        }
        if !is_chosen && self.chooses(server) {
            self.0.push(exclusion);
        }
        self.chooses(server) == is_chosen
    }

    /// Says which servers it chooses.
    fn describe(&self) -> String {
        let (out, chosen): (Vec<_>, Vec<_>) = self.0.iter().partition(|glob| glob.starts_with('!'));
        let shown = |glob: &&String| name(&plain_name(glob.strip_prefix('!').unwrap_or(glob)));
        let names = |globs: &[&String]| joined_up_to(MAX_NAMED, globs.iter().map(shown));
        let chosen = if chosen == ["*"] { "all servers".to_owned() } else { names(&chosen) };
        if out.is_empty() { chosen } else { format!("{chosen} but {}", names(&out)) }
    }
}

/// A client that uses the config file, or will.
pub(crate) struct ConfigUser {
    /// The client.
    pub(crate) app: ClientApp,
    /// The profile that its entry names, if it has an entry already.
    pub(crate) own: Option<Option<String>>,
    /// Whether its entry is written.
    pub(crate) is_written: bool,
}

impl ConfigUser {
    /// Returns the client of a place. `is_written`: its entry there is written.
    pub(crate) fn of(app: ClientApp, place: &Place, is_written: bool) -> Self {
        let profile = |own| option_values(own, "--profile", "DYNAMIC_MCP_PROFILE").into_iter().next();
        Self { app, own: place.own.as_ref().map(profile), is_written }
    }
}

/// The profiles of an import.
#[derive(Debug, Default)]
pub(crate) struct ClientProfiles {
    /// The name of each client's profile. Clients without one see every server.
    pub names: BTreeMap<ClientApp, String>,
    /// All profiles of the file that can be read, as they will be.
    all: BTreeMap<String, Profile>,
    /// The clients whose entries change: each gets a profile, or sees new servers.
    pub updated: BTreeSet<ClientApp>,
    /// The profiles to write, by their names.
    pub changed: Vec<(String, Value)>,
    /// What each client sees, where that is not everything.
    pub lines: Vec<String>,
}

impl ClientProfiles {
    /// Returns whether a client sees a server.
    pub(crate) fn sees(&self, app: ClientApp, server: &str) -> bool {
        self.profile(app).is_none_or(|profile| profile.chooses(server))
    }

    /// Returns the profile of a client, if this file has it.
    fn profile(&self, app: ClientApp) -> Option<&Profile> {
        self.all.get(self.names.get(&app)?)
    }
}

/// What profiles are made of.
pub(crate) struct ProfileMaker<'a> {
    /// The servers of the file.
    pub(crate) servers: &'a [PlannedServer],
    /// The profiles that the file has.
    pub(crate) existing: &'a Map<String, Value>,
    /// The file, and the profiles of another file that the clients use as well.
    pub(crate) beside: Option<(&'a Path, &'a ClientProfiles)>,
    /// Whether each client sees only the servers that it had.
    pub(crate) keeps_apart: bool,
}

impl ProfileMaker<'_> {
    /// Makes the profiles of these clients.
    pub(crate) fn make(&self, users: &[ConfigUser]) -> ClientProfiles {
        let read = |(name, value): (&String, &Value)| Some((name.clone(), Profile::read(value)?));
        let before: BTreeMap<String, Profile> = self.existing.iter().filter_map(read).collect();
        let mut profiles = ClientProfiles { all: before.clone(), ..ClientProfiles::default() };
        for user in users {
            // Several clients may use one profile.
            let shares = |other: &&ConfigUser| matches!((&user.own, &other.own), (Some(Some(own)), Some(Some(other))) if own == other);
            let apps: Vec<_> =
                std::iter::once(user).chain(users.iter().filter(shares)).map(|user| user.app).collect();
            self.add(&mut profiles, user, &apps);
            let is_new = |server: &&PlannedServer| !server.is_known && profiles.sees(user.app, &server.name);
            let is_new_profile = user.own == Some(None) && profiles.names.contains_key(&user.app);
            if is_new_profile || self.servers.iter().any(|server| is_new(&server)) {
                profiles.updated.insert(user.app);
            }
        }
        let changed = profiles.all.iter().filter(|(name, profile)| before.get(*name) != Some(*profile));
        profiles.changed =
            changed.map(|(name, profile)| (name.clone(), profile.value(self.existing.get(name)))).collect();
        profiles
    }

    /// Adapts the profile of a client, or makes one if it needs one. `apps`: the clients that use it.
    fn add(&self, profiles: &mut ClientProfiles, user: &ConfigUser, apps: &[ClientApp]) {
        let label = user.app.label;
        // An earlier import made a profile of this name, and an undo took it out of the client's entry alone.
        let earlier = self.earlier(profiles, user);
        let own = user.own.as_ref().and_then(Option::as_ref).or(earlier.as_ref());
        let wanted =
            self.servers.iter().filter_map(|server| Some((&server.name, self.wanted(server, apps, user)?)));
        let wanted: Vec<_> = wanted.collect();
        let adapt = |profile: &mut Profile| -> Vec<String> {
            let refused = wanted.iter().filter(|(name, is_chosen)| !profile.set(name, *is_chosen));
            refused.map(|(server, _)| name(server)).collect()
        };
        if let Some((own, profile)) = own.and_then(|own| Some((own, profiles.all.get_mut(own)?))) {
            let before = profile.clone();
            let refused = adapt(profile);
            if !refused.is_empty() {
                let refused = refused.join(", ");
                profiles
                    .lines
                    .push(format!("{label}: its profile {} leaves out {refused}, which it has", name(own)));
            } else if *profile != before {
                profiles.lines.push(format!(
                    "{label} keeps the profile {}: {}",
                    name(own),
                    profile.describe()
                ));
            }
            profiles.names.insert(user.app, own.clone());
            return;
        }
        let beside = self.beside.and_then(|(_, beside)| beside.profile(user.app)).cloned();
        let first = beside.unwrap_or_else(|| Profile(vec!["*".to_owned()]));
        let mut profile = first.clone();
        adapt(&mut profile);
        if profile == first {
            profiles.names.extend(own.map(|own| (user.app, own.clone())));
        } else if user.is_written && (own.is_none() || self.beside.is_some()) {
            let file = self.beside.and_then(|(file, _)| file.file_stem()).map(|stem| stem.to_string_lossy());
            let base = file.map_or_else(|| user.app.id.to_owned(), |file| format!("{}-{file}", user.app.id));
            // A profile of the user's that has this name stays as it is.
            let free = free_name(&base, |name| {
                !self.existing.contains_key(name) && !profiles.all.contains_key(name)
                    || profiles.all.get(name) == Some(&profile)
            });
            profiles.lines.push(format!("{label} gets the profile {}: {}", name(&free), profile.describe()));
            profiles.names.insert(user.app, free.clone());
            profiles.all.insert(free, profile);
        } else if user.own.is_some() {
            let new = self.servers.iter().filter(|server| !server.is_known && !profile.chooses(&server.name));
            let new: Vec<_> = new.map(|server| name(&server.name)).collect();
            if !new.is_empty() {
                let new = new.join(", ");
                profiles
                    .lines
                    .push(format!("{label} uses dynamic-mcp already, and sees the new servers too: {new}"));
            }
        }
    }

    /// Returns the name of the profile that an earlier import made for a client, which has no entry any more.
    fn earlier(&self, profiles: &ClientProfiles, user: &ConfigUser) -> Option<String> {
        let is_new = user.own.is_none() && user.is_written && self.beside.is_none();
        let profile = profiles.all.get(user.app.id).filter(|_| is_new)?;
        (profile.0.first().is_some_and(|first| first == "*")).then(|| user.app.id.to_owned())
    }

    /// Returns whether a profile of these clients should choose a server. `None`: as it does now.
    fn wanted(&self, server: &PlannedServer, apps: &[ClientApp], user: &ConfigUser) -> Option<bool> {
        let of_apps = |server: &PlannedServer| {
            let origins = server.origins.iter().filter(|origin| apps.contains(&origin.app));
            origins.map(|origin| origin.is_on).reduce(|one, other| one || other)
        };
        if let Some(is_on) = of_apps(server) {
            // Off in all of its clients, it is off in its entry.
            let is_on_elsewhere = server.is_known || server.origins.iter().any(|origin| origin.is_on);
            return (is_on || is_on_elsewhere).then_some(is_on);
        }
        let is_new_user = user.own.is_none();
        let mut own = self.servers.iter().filter(|other| of_apps(other).is_some());
        if (is_new_user || !server.is_known) && own.any(|other| other.is_beside(server)) {
            return Some(false);
        }
        let had = &server.earlier_users;
        let was_of_others = !had.is_empty() && !apps.iter().any(|app| had.contains(app));
        (self.keeps_apart && (!server.is_known || is_new_user && was_of_others)).then_some(false)
    }
}

/// Returns the only name that a glob matches, or the glob.
fn plain_name(glob: &str) -> String {
    let glob = plain(glob);
    Glob::parse(&glob).ok().and_then(|glob| glob.only_name()).unwrap_or(glob)
}

/// The edits of `profiles` that take a server out, by name. A profile goes that would choose no server afterwards.
#[derive(Debug, Default)]
pub struct ServerRemoval {
    /// The edits.
    pub edits: Vec<ObjectEdit>,
    /// The profiles that stay, and name the server no more.
    pub changed: Vec<String>,
    /// The profiles that go.
    pub removed: Vec<String>,
}

/// Takes a server out of the profiles of a file.
pub fn without_server(profiles: &Map<String, Value>, server: &str) -> ServerRemoval {
    let mut removal = ServerRemoval::default();
    let mut edit = ObjectEdit { keys: vec!["profiles".to_owned()], ..ObjectEdit::default() };
    for (name, value) in profiles {
        let Some(Profile(mut globs)) = Profile::read(value) else { continue };
        let before = globs.len();
        globs.retain(|glob| plain_name(glob.strip_prefix('!').unwrap_or(glob)) != server);
        let (is_named, has_rules) = (globs.len() < before, value["tools"].get(server).is_some());
        if !is_named && !has_rules {
            continue;
        }
        // A list that only leaves servers out is an error.
        if globs.iter().all(|glob| glob.starts_with('!')) {
            removal.removed.push(name.clone());
            continue;
        }
        removal.changed.push(name.clone());
        let keys =
            |more: &[&str]| ["profiles", name].iter().chain(more).map(|key| (*key).to_owned()).collect();
        match value {
            _ if !is_named => {}
            Value::Array(_) => edit.set.push((name.clone(), json!(globs))),
            _ => removal.edits.push(ObjectEdit::set(keys(&[]), vec![("servers".to_owned(), json!(globs))])),
        }
        if has_rules {
            let remove = vec![server.to_owned()];
            removal.edits.push(ObjectEdit { keys: keys(&["tools"]), remove, set: Vec::new() });
        }
    }
    edit.remove.clone_from(&removal.removed);
    if removal.removed.len() == profiles.len() {
        edit = ObjectEdit { remove: edit.keys, ..ObjectEdit::default() };
    }
    if !edit.remove.is_empty() || !edit.set.is_empty() {
        removal.edits.push(edit);
    }
    removal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_chooses_what_it_should_or_says_that_it_cannot() {
        let set = |profile: Value, server: &str, is_chosen: bool| {
            let mut profile = Profile::read(&profile).unwrap();
            profile.set(server, is_chosen).then(|| json!(profile.0))
        };
        for (profile, server, is_chosen, expected) in [
            (json!(["*"]), "b[1]", false, json!(["*", "!b[[]1[]]"])),
            (json!(["*", "!a"]), "a", false, json!(["*", "!a"])),
            (json!(["*", "!a"]), "a", true, json!(["*"])),
            (json!(["a"]), "!x", true, json!(["a", "\\!x"])),
            (json!(["*"]), "!x", false, json!(["*", "!!x"])),
            (json!(["work*"]), "a", true, json!(["work*", "a"])),
        ] {
            assert_eq!(set(profile, server, is_chosen), Some(expected));
        }
        assert_eq!(set(json!(["*", "!a*"]), "ab", true), None);
    }

    #[test]
    fn a_server_is_taken_out_of_globs_and_rules_and_profiles_of_it_alone_go() {
        let profiles = json!({
            "all": ["*", "!a", "!b"], "only": ["a"], "none": ["b*", "!ab"],
            "careful": {"servers": ["a", "c"], "tools": {"a": {"deny": ["x"]}, "c": {}}},
            "ruled": {"tools": {"a": {}}},
        });
        let removal = without_server(profiles.as_object().unwrap(), "a");
        assert_eq!(
            (&removal.changed[..], &removal.removed[..]),
            (&["all", "careful", "ruled"].map(str::to_owned)[..], &["only".to_owned()][..])
        );
        let text = json!({"profiles": profiles}).to_string();
        let edited = super::super::files::edit::edit(Path::new("a.json"), &text, &removal.edits).unwrap();
        let expected = json!({"profiles": {
            "all": ["*", "!b"], "none": ["b*", "!ab"],
            "careful": {"servers": ["c"], "tools": {"c": {}}}, "ruled": {"tools": {}},
        }});
        assert_eq!(serde_json::from_str::<Value>(&edited).unwrap(), expected);
        let only = json!({"only": ["a"]});
        let removal = without_server(only.as_object().unwrap(), "a");
        let text = json!({"profiles": only, "mcpServers": {}}).to_string();
        let edited = super::super::files::edit::edit(Path::new("a.json"), &text, &removal.edits).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&edited).unwrap(), json!({"mcpServers": {}}));
    }

    #[test]
    fn the_users_rules_of_a_profile_stay() {
        let value = json!({"servers": ["*"], "tools": {"gh": {"deny": ["a"]}}});
        let mut profile = Profile::read(&value).unwrap();
        profile.set("x", false);
        assert_eq!(profile.value(Some(&value)), json!({"servers": ["*", "!x"], "tools": value["tools"]}));
        let mut many = Profile(vec!["*".to_owned()]);
        many.0.extend(vec!["!a".to_owned(); 19]);
        assert_eq!(many.describe(), "all servers but a, a, a, a, a, a, a, a and 11 more");
    }
}
