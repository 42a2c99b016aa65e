//! What is known of a start through a launcher: how the server's process differs from the launcher's, and the files on
//! which that depends.
//!
//! No value that the config or our environment has is stored. A value that the launcher took from there is stored as
//! a reference to it, and a text that looks like a secret is not stored at all.

use super::pinned::LauncherProgram;
use super::session_vars::is_of_session;
use crate::launch::child_env::is_credential;
use crate::launch::launcher_vars::has_url_with_credentials;
use crate::launch::{ANCESTORS_VAR, Launch, OWNER_VAR};
use base::clock::unix_time_s;
use base::files::MAX_CACHED_BYTES;
use base::private_files::{read_private, replace};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The version of the file format. Files of another version are not read.
const VERSION: u32 = 2;
/// The capacity of the directory in files. Beyond it, the oldest are removed.
const MAX_FILES: usize = 1000;
/// The shortest value that is recognized as a part of another one.
const MIN_PART: usize = 4;
/// How long `uvx` is left out: it would start newer versions of the packages that the server needs.
const MAX_AGE_UVX: Duration = Duration::from_secs(7 * 24 * 3600);

/// The result of one start through a launcher.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct LearnedStart {
    /// The version of the file format, `VERSION`.
    version: u32,
    /// Until when it may be used, in seconds since 1970; `None` if it does not age.
    expires_s: Option<u64>,
    /// The server's program.
    program: PathBuf,
    /// How many of the launcher's arguments the server does not get.
    own_args: usize,
    /// The variables that the launcher added or changed.
    env: BTreeMap<String, Vec<ValuePart>>,
    /// The files that decide what the launcher starts.
    files: FileStates,
}

/// A part of the value of a variable.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ValuePart {
    /// The launcher's own text.
    Text(String),
    /// The value of a variable that the launcher got.
    Var(String),
    /// One of its arguments.
    Arg(usize),
}

/// The states of files, which need not exist.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileStates(Vec<(PathBuf, Option<Stamp>)>);

impl FileStates {
    /// Reads those of these files. Blocks.
    pub(super) fn read(files: Vec<PathBuf>) -> Self {
        let states = files.into_iter().map(|file| {
            let stamp = Stamp::read(&file);
            (file, stamp)
        });
        Self(states.collect())
    }

    /// Returns whether no file has changed since. Blocks.
    pub(super) fn are_current(&self) -> bool {
        self.0.iter().all(|(file, stamp)| Stamp::read(file) == *stamp)
    }
}

/// Tells whether a file was changed or replaced. Nobody can set the time of its change, unlike that of its content.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Stamp {
    inode: u64,
    bytes: u64,
    changed_s: i64,
    changed_ns: i64,
}

impl Stamp {
    /// Reads that of a file, following links; `None` if there is no such file, or it cannot be reached. Blocks.
    #[cfg(unix)]
    fn read(path: &Path) -> Option<Self> {
        use std::os::unix::fs::MetadataExt;
        let metadata = fs::metadata(path).ok()?;
        Some(Self {
            inode: metadata.ino(),
            bytes: metadata.size(),
            changed_s: metadata.ctime(),
            changed_ns: metadata.ctime_nsec(),
        })
    }

    /// Is never called, because nothing is learned where /proc shows no processes.
    #[cfg(not(unix))]
    fn read(_path: &Path) -> Option<Self> {
        None
    }
}

/// What was seen of the server's process.
pub(super) struct ObservedServer {
    /// Its program.
    pub(super) program: PathBuf,
    /// Its environment.
    pub(super) env: BTreeMap<String, String>,
    /// The files that decide what the launcher starts. They need not exist.
    pub(super) files: Vec<PathBuf>,
}

impl LearnedStart {
    /// Compares what the launcher got with what it gave to the server, and notes the state of the files on disk. Blocks. The
    /// result for `uvx` expires after `MAX_AGE_UVX`. The first `own_args` arguments are the launcher's own.
    ///
    /// # Errors
    ///
    /// Fails with the reason if the server lacks a variable that the launcher got, or if its environment cannot be made again
    /// without storing a secret.
    pub(super) fn new(
        launcher: LauncherProgram,
        launch: &Launch,
        own_args: usize,
        seen: ObservedServer,
    ) -> Result<Self, String> {
        let got: HashMap<&OsStr, &OsStr> = variables(launch);
        let lost = launch.env.iter().find(|(name, _)| {
            name != OWNER_VAR && name.to_str().is_none_or(|name| !seen.env.contains_key(name))
        });
        if let Some((name, _)) = lost {
            return Err(format!("the server did not get variable {}", name.display()));
        }
        let mut env = BTreeMap::new();
        for (name, value) in seen.env {
            if name == OWNER_VAR || got.get(OsStr::new(&name)) == Some(&OsStr::new(&value)) {
                continue;
            }
            let parts = parts_of(&value, launch);
            let has_text = parts.iter().any(|part| matches!(part, ValuePart::Text(text) if !text.is_empty()));
            if has_text && (is_credential(&name) || has_url_with_credentials(&value)) {
                return Err(format!("variable {name} may be a secret of the launcher"));
            }
            env.insert(name, parts);
        }
        let age = (launcher == LauncherProgram::Uvx).then_some(MAX_AGE_UVX);
        Ok(Self {
            version: VERSION,
            expires_s: age.map(|age| unix_time_s() + age.as_secs()),
            program: seen.program,
            own_args,
            env,
            files: FileStates::read(seen.files),
        })
    }

    /// Returns what is to be executed in the place of `launch`, which starts the launcher. `None` if a file has
    /// changed, if it is too old, or if `launch` lacks a variable or an argument that it refers to. Blocks.
    pub(super) fn apply(&self, launch: &Launch) -> Option<Launch> {
        let is_current = self.expires_s.is_none_or(|end| {
            let now = unix_time_s();
            // A clock that was set back does not prolong it.
            now < end && end <= now + MAX_AGE_UVX.as_secs()
        });
        if !is_current || !self.files.are_current() {
            return None;
        }
        let got = variables(launch);
        let mut env: HashMap<OsString, OsString> = launch.env.iter().cloned().collect();
        for (name, parts) in &self.env {
            let mut value = OsString::new();
            for part in parts {
                value.push(match part {
                    ValuePart::Text(text) => OsStr::new(text),
                    ValuePart::Var(name) => got.get(OsStr::new(name))?,
                    ValuePart::Arg(at) => launch.args.get(*at)?,
                });
            }
            env.insert(name.into(), value);
        }
        let args = launch.args.get(self.own_args..)?.to_vec();
        Some(Launch {
            program: self.program.clone(),
            args,
            env: env.into_iter().collect(),
            cwd: launch.cwd.clone(),
        })
    }

    /// Reads it from its file; `None` if there is none that can be used. Blocks.
    pub(super) fn read(file: &Path) -> Option<Self> {
        let text = read_private(file, MAX_CACHED_BYTES).ok()?;
        let learned: Self = serde_json::from_slice(&text).ok()?;
        (learned.version == VERSION && learned.program.is_absolute()).then_some(learned)
    }

    /// Writes it to its file, makes the directory, and removes the oldest files beyond the capacity. Blocks.
    ///
    /// # Errors
    ///
    /// Fails with the reason if the file cannot be written, or its directory cannot be made or trusted.
    pub(super) fn write(&self, file: &Path) -> Result<(), String> {
        let dir = file.parent().unwrap_or(file);
        let text = serde_json::to_vec(self).map_err(|error| error.to_string())?;
        replace(file, &text, false).map_err(|error| error.to_string())?;
        remove_oldest(dir);
        Ok(())
    }
}

/// Returns the launcher's environment by name.
fn variables(launch: &Launch) -> HashMap<&OsStr, &OsStr> {
    launch.env.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str())).collect()
}

/// Removes the oldest files of a directory that exceed [`MAX_FILES`]. Ignores errors. Blocks.
fn remove_oldest(dir: &Path) {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut files: Vec<_> =
        entries.filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path()))).collect();
    files.sort();
    for (_, file) in files.iter().take(files.len().saturating_sub(MAX_FILES)) {
        fs::remove_file(file).ok();
    }
}

/// Splits a value into what the launcher got and what it added. Every reference stays true, because a start is known only
/// for exactly the same arguments and variables, but for those of the session.
fn parts_of(value: &str, launch: &Launch) -> Vec<ValuePart> {
    let vars = launch.env.iter().filter(|(name, _)| name != ANCESTORS_VAR && name != OWNER_VAR);
    let vars =
        vars.filter_map(|(name, value)| Some((value.to_str()?, ValuePart::Var(name.to_str()?.into()))));
    let args = launch.args.iter().enumerate();
    let args = args.filter_map(|(at, arg)| Some((arg.to_str()?, ValuePart::Arg(at))));
    let mut known: Vec<_> = args.chain(vars).filter(|(known, _)| !known.is_empty()).collect();
    known.sort_by_key(|(known, _)| std::cmp::Reverse(known.len()));
    if let Some((_, part)) = known.iter().find(|(known, _)| *known == value) {
        return vec![part.clone()];
    }
    known.retain(|(known, _)| known.len() >= MIN_PART);
    let mut parts = Vec::new();
    let mut rest = value;
    while !rest.is_empty() {
        // The first one, and of those that begin there the longest.
        let found = known.iter().filter_map(|(known, part)| Some((rest.find(known)?, *known, part)));
        let Some((at, known, part)) =
            found.min_by_key(|(at, known, _)| (*at, std::cmp::Reverse(known.len())))
        else {
            break;
        };
        if at > 0 {
            parts.push(ValuePart::Text(rest[..at].to_owned()));
        }
        parts.push(part.clone());
        rest = &rest[at + known.len()..];
    }
    if !rest.is_empty() || parts.is_empty() {
        parts.push(ValuePart::Text(rest.to_owned()));
    }
    parts
}

/// Returns the name of the file for what is executed: a hash of all of it but the names of our own process and of the
/// session.
pub(super) fn file_name(launch: &Launch) -> String {
    launch.digest(|name| name == ANCESTORS_VAR || name == OWNER_VAR || is_of_session(name), 16) + ".json"
}

#[cfg(target_os = "linux")]
#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;
    use tempfile::TempDir;

    fn launch(args: &[&str], env: &[(&str, &str)]) -> Launch {
        Launch {
            program: "/usr/bin/npx".into(),
            args: args.iter().map(Into::into).collect(),
            env: env.iter().map(|(name, value)| (name.into(), value.into())).collect(),
            cwd: "/".into(),
        }
    }

    fn observed(env: &[(&str, &str)], files: &[PathBuf]) -> ObservedServer {
        let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        ObservedServer { program: "/c/bin/run".into(), env: env.collect(), files: files.to_vec() }
    }

    fn learn(launch: &Launch, env: &[(&str, &str)]) -> Result<LearnedStart, String> {
        LearnedStart::new(LauncherProgram::Npx, launch, 2, observed(env, &[]))
    }

    fn sorted(launch: &Launch) -> Vec<(OsString, OsString)> {
        let mut env = launch.env.clone();
        env.sort();
        env
    }

    #[test]
    fn a_start_is_known_in_other_sessions_which_the_server_is_told_of() {
        let at = |id: &str, level: &str| {
            launch(&["-y", "c@1.2.3"], &[("CLAUDE_CODE_SESSION_ID", id), ("LEVEL", level)])
        };
        let (first, second) = (at("8d1f-4c", "1"), at("77aa-01", "1"));
        assert_eq!(file_name(&first), file_name(&second));
        assert_ne!(file_name(&first), file_name(&at("8d1f-4c", "2")), "any other variable counts");
        let given = [("CLAUDE_CODE_SESSION_ID", "8d1f-4c"), ("LEVEL", "1"), ("npm_x", "in 8d1f-4c")];
        let direct = learn(&first, &given).unwrap().apply(&second).unwrap();
        let expected = [("CLAUDE_CODE_SESSION_ID", "77aa-01"), ("LEVEL", "1"), ("npm_x", "in 77aa-01")];
        assert_eq!(sorted(&direct), expected.map(|(name, value)| (name.into(), value.into())));
    }

    #[test]
    fn what_was_learned_makes_the_server_s_command_and_stores_no_value_of_the_config() {
        let got = launch(
            &["-y", "c@1.2.3", "--key", "argument-secret"],
            &[("PATH", "/bin"), ("K", "s3cret-v4lue"), ("HTTPS_PROXY", "http://u:p@h:1/"), ("A", "1")],
        );
        let given = [
            ("PATH", "/c/bin:/bin"),
            ("K", "s3cret-v4lue"),
            ("HTTPS_PROXY", "http://u:p@h:1/"),
            ("A", "2"),
            ("npm_config_https_proxy", "http://u:p@h:1/"),
            ("npm_config_x", "of s3cret-v4lue!"),
            ("npm_config_package", "c@1.2.3"),
            ("npm_script", "run argument-secret s3cret-v4lue"),
            ("EMPTY", ""),
            (OWNER_VAR, "123"),
        ];
        let learned = learn(&got, &given).unwrap();
        let text = serde_json::to_string(&learned).unwrap();
        for secret in ["s3cret", "u:p", "argument-secret"] {
            assert!(!text.contains(secret), "{text}");
        }
        let learned: LearnedStart = serde_json::from_str(&text).unwrap();
        let direct = learned.apply(&got).unwrap();
        assert_eq!(
            (direct.program.as_path(), direct.cwd.as_path()),
            (Path::new("/c/bin/run"), Path::new("/"))
        );
        assert_eq!(direct.args, ["--key", "argument-secret"]);
        let expected = given.iter().filter(|(name, _)| *name != OWNER_VAR);
        let mut expected: Vec<_> = expected.map(|(name, value)| (name.into(), value.into())).collect();
        expected.sort();
        assert_eq!(sorted(&direct), expected);
    }

    #[test]
    fn a_secret_of_the_launcher_s_own_is_not_stored() {
        let got = launch(&["-y", "c@1.2.3"], &[("PATH", "/bin")]);
        for (name, value) in [
            ("npm_config_authtoken", "0a1b2c"),
            ("UV_PUBLISH_PASSWORD", "3d4e5f"),
            ("npm_config_registry", "https://u:p@h/"),
        ] {
            let error = learn(&got, &[("PATH", "/bin"), (name, value)]).unwrap_err();
            assert!(error.contains(name) && !error.contains(value), "{error}");
        }
        assert!(learn(&got, &[("X", "1")]).unwrap_err().contains("PATH"));
    }

    #[test]
    fn it_counts_only_while_its_files_are_as_they_were() {
        let dir = TempDir::new().unwrap();
        let (present, absent) = (dir.path().join("a"), dir.path().join("b"));
        fs::write(&present, "1").unwrap();
        let got = launch(&["-y", "c@1.2.3"], &[]);
        let learn = || {
            let seen = observed(&[], &[present.clone(), absent.clone()]);
            LearnedStart::new(LauncherProgram::Npx, &got, 2, seen).unwrap()
        };
        let changes: [&dyn Fn(); 3] =
            [&|| fs::write(&present, "12").unwrap(), &|| fs::write(&absent, "").unwrap(), &|| {
                fs::remove_file(&present).unwrap();
            }];
        for change in changes {
            let learned = learn();
            assert!(learned.apply(&got).is_some());
            change();
            assert!(learned.apply(&got).is_none());
        }
    }

    #[test]
    fn what_uvx_starts_is_learned_again_after_a_week() {
        let got = launch(&["c==1"], &[]);
        let learned = |launcher| LearnedStart::new(launcher, &got, 1, observed(&[], &[])).unwrap();
        assert_eq!(learned(LauncherProgram::Npx).expires_s, None);
        let mut fresh = learned(LauncherProgram::Uvx);
        assert!(fresh.apply(&got).is_some());
        for end in [unix_time_s(), unix_time_s() + 8 * 24 * 3600] {
            fresh.expires_s = Some(end);
            assert!(fresh.apply(&got).is_none());
        }
    }

    #[test]
    fn another_argument_variable_or_directory_is_another_file() {
        let base = launch(&["a", "b"], &[("X", "1"), ("Y", "2")]);
        let name = file_name(&base);
        assert_eq!(file_name(&launch(&["a", "b"], &[("Y", "2"), ("X", "1"), (ANCESTORS_VAR, "z")])), name);
        for other in [
            launch(&["a", "c"], &[("X", "1"), ("Y", "2")]),
            launch(&["a"], &[("X", "1"), ("Y", "2")]),
            launch(&["a", "b"], &[("X", "1"), ("Y", "3")]),
            launch(&["a", "b"], &[("X", "1")]),
            Launch { cwd: "/tmp".into(), ..base.clone() },
        ] {
            assert_ne!(file_name(&other), name);
        }
    }

    #[test]
    fn a_file_of_another_version_is_not_read() {
        let dir = TempDir::new().unwrap();
        let file = dir.path().join("x").join("k.json");
        let mut learned = learn(&launch(&["-y", "c@1.2.3"], &[]), &[("A", "b")]).unwrap();
        learned.write(&file).unwrap();
        assert_eq!(LearnedStart::read(&file).as_ref(), Some(&learned));
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
        learned.version += 1;
        learned.write(&file).unwrap();
        assert_eq!(LearnedStart::read(&file), None);
    }
}
