//! Finds a package in the cache of its launcher, and the files that decide whether the launcher would start it again.

use super::pinned::{LauncherProgram, PinnedPackage};
use base::files;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The largest package.json that is read, in bytes.
const MAX_PACKAGE_JSON: u64 = 1 << 20;

/// Returns the files of the package that decide what the launcher starts. Some need not exist. `program` is that of the
/// server.
///
/// # Errors
///
/// Fails if the program is not in the cache of the launcher, or not of this package in this version.
pub(super) fn files(package: &PinnedPackage, program: &Path) -> Result<Vec<PathBuf>, String> {
    match package.launcher {
        LauncherProgram::Npx => npm_files(package, program),
        LauncherProgram::Uvx => uv_files(package, program),
    }
}

/// Returns the files that configure the launcher, and those of packages that go before its cache. They need not exist.
/// `cwd` is its directory, `env` its environment or that of the server.
pub(super) fn config_files(
    package: &PinnedPackage,
    cwd: &Path,
    env: &BTreeMap<String, String>,
) -> Vec<PathBuf> {
    match package.launcher {
        LauncherProgram::Npx => npm_config_files(package, cwd, env),
        LauncherProgram::Uvx => uv_config_files(package, cwd, env),
    }
}

/// A package in the cache of its launcher.
struct InstalledPackage {
    /// The directory that the launcher made for it.
    root: PathBuf,
    /// What describes it there: a package.json, or a directory.
    description: PathBuf,
    /// Its version.
    version: String,
}

impl InstalledPackage {
    /// Finds the package of this name around `program`; `None` if the program is of another one.
    ///
    /// # Errors
    ///
    /// Fails if the program is not in the cache of npx, or does not exist.
    fn of_npx(name: &str, program: &Path) -> Result<Option<Self>, String> {
        let is_root = |dir: &&Path| dir.parent().is_some_and(|above| above.ends_with("_npx"));
        let Some(root) = program.ancestors().find(is_root) else {
            return Err(format!("{} is not in the cache of npx", program.display()));
        };
        let file = fs::canonicalize(program).map_err(|error| error.to_string())?;
        // A package.json in a folder of the package says nothing about the package.
        let place = Path::new("node_modules").join(name);
        let description =
            file.ancestors().find(|dir| dir.ends_with(&place)).map(|dir| dir.join("package.json"));
        Ok(description.and_then(|description| {
            let version = described_version(&description, name)?;
            Some(Self { root: root.to_owned(), description, version })
        }))
    }

    /// Finds the package of this name in the environment of `program`; `None` if it has no such package.
    ///
    /// # Errors
    ///
    /// Fails if the program is not in an environment of uv.
    fn of_uvx(name: &str, program: &Path) -> Result<Option<Self>, String> {
        let root = program.parent().filter(|dir| dir.ends_with("bin")).and_then(Path::parent);
        let Some(root) = root.filter(|root| root.join("pyvenv.cfg").is_file()) else {
            return Err(format!("{} is not in an environment of uv", program.display()));
        };
        let entries =
            |dir: PathBuf| fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
        let libraries = entries(root.join("lib")).map(|python| python.join("site-packages"));
        let mut found = libraries.flat_map(entries).filter_map(|dir| {
            let version = dist_info_version(&dir, name)?;
            Some(Self { root: root.to_owned(), description: dir, version })
        });
        Ok(found.next())
    }
}

fn npm_files(package: &PinnedPackage, program: &Path) -> Result<Vec<PathBuf>, String> {
    let found = InstalledPackage::of_npx(&package.name, program)?;
    let Some(found) = found.filter(|found| found.version == package.version) else {
        return Err(format!("{} is not of {}@{}", program.display(), package.name, package.version));
    };
    let mut files = vec![found.description];
    files.extend(
        ["package.json", "package-lock.json", "node_modules/.package-lock.json"]
            .map(|file| found.root.join(file)),
    );
    Ok(files)
}

fn npm_config_files(package: &PinnedPackage, cwd: &Path, env: &BTreeMap<String, String>) -> Vec<PathBuf> {
    let mut files = Vec::new();
    // A package that is installed in the project or globally goes before the cache, and so does a program that is named
    // like the whole argument. npm reads the name of a package in its package.json, so any new folder may have it.
    let packages = |dir: &Path| {
        let (name, version) = (&package.name, &package.version);
        [dir.to_owned(), dir.join(name).join("package.json"), dir.join(format!(".bin/{name}@{version}"))]
    };
    for dir in cwd.ancestors() {
        files
            .extend([".npmrc", "package.json", "node_modules/.package-lock.json"].map(|file| dir.join(file)));
        files.extend(packages(&dir.join("node_modules")));
    }
    let var = |name: &str| env.get(name).map(Path::new).filter(|path| path.is_absolute());
    files.extend(
        ["npm_config_userconfig", "npm_config_globalconfig"].into_iter().filter_map(var).map(Path::to_owned),
    );
    if let Some(prefix) = var("npm_config_global_prefix") {
        files.extend(packages(&prefix.join("lib/node_modules")));
        files.push(prefix.join(format!("bin/{}@{}", package.name, package.version)));
    }
    files
}

/// Returns the version in a package.json; `None` if it is not that of this package.
fn described_version(file: &Path, name: &str) -> Option<String> {
    let text = files::read_regular(file, MAX_PACKAGE_JSON).ok()?;
    let json: Value = serde_json::from_slice(&text).ok()?;
    json["version"].as_str().filter(|_| json["name"] == *name).map(str::to_owned)
}

fn uv_files(package: &PinnedPackage, program: &Path) -> Result<Vec<PathBuf>, String> {
    let found = InstalledPackage::of_uvx(&package.name, program)?;
    let Some(found) = found.filter(|found| found.version == package.version) else {
        return Err(format!(
            "{} is not in an environment with {}=={}",
            program.display(),
            package.name,
            package.version
        ));
    };
    let InstalledPackage { root, description, .. } = found;
    Ok(vec![root.join("pyvenv.cfg"), description.join("RECORD"), description.join("METADATA")])
}

fn uv_config_files(package: &PinnedPackage, cwd: &Path, env: &BTreeMap<String, String>) -> Vec<PathBuf> {
    let var = |name: &str| env.get(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let home_dir = |name: &str, below: &str| var(name).or_else(|| Some(var("HOME")?.join(below)));
    // An installed tool goes before the cache.
    let data = home_dir("XDG_DATA_HOME", ".local/share").map(|dir| dir.join("uv/tools"));
    let tools = var("UV_TOOL_DIR").or(data);
    let mut files = Vec::new();
    files.extend(tools.map(|dir| dir.join(normalized(&package.name)).join("uv-receipt.toml")));
    files.extend(var("UV_CONFIG_FILE"));
    let system = env.get("XDG_CONFIG_DIRS").map_or("/etc/xdg", String::as_str).split(':').map(PathBuf::from);
    let dirs = home_dir("XDG_CONFIG_HOME", ".config").into_iter().chain(system).map(|dir| dir.join("uv"));
    for dir in dirs.chain([PathBuf::from("/etc/uv")]) {
        files.extend([dir.join("uv.toml"), dir.join(".python-version")]);
    }
    files.extend(cwd.ancestors().map(|dir| dir.join(".python-version")));
    files
}

/// Returns the version in the name of a directory that describes an installed package, `NAME-VERSION.dist-info`, see
/// <https://packaging.python.org/en/latest/specifications/recording-installed-packages/>; `None` if it is not that of
/// this package.
fn dist_info_version(dir: &Path, package: &str) -> Option<String> {
    let (name, version) = dir.file_name()?.to_str()?.strip_suffix(".dist-info")?.rsplit_once('-')?;
    (normalized(name) == normalized(package)).then(|| version.to_owned())
}

/// Returns the name of a Python package as it is compared, with `-`, `_` and `.` alike.
fn normalized(name: &str) -> String {
    let parts: Vec<_> = name.split(['-', '_', '.']).filter(|part| !part.is_empty()).collect();
    parts.join("-").to_lowercase()
}

#[cfg(target_os = "linux")]
#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    fn package(launcher: LauncherProgram, name: &str) -> PinnedPackage {
        PinnedPackage { launcher, name: name.to_owned(), version: "1.2.3".to_owned(), own_args: 1 }
    }

    fn write(dir: &TempDir, path: &str, text: &str) -> PathBuf {
        let file = dir.path().join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, text).unwrap();
        file
    }

    #[test]
    fn a_program_of_the_cache_of_npx_is_of_the_package_around_it() {
        let dir = TempDir::new().unwrap();
        let find = |program: &Path, name: &str| files(&package(LauncherProgram::Npx, name), program);
        let main = write(&dir, "_npx/h/node_modules/@a/b/dist/main.js", "");
        write(&dir, "_npx/h/node_modules/@a/b/dist/package.json", r#"{"type": "module"}"#);
        let json =
            write(&dir, "_npx/h/node_modules/@a/b/package.json", r#"{"name": "@a/b", "version": "1.2.3"}"#);
        let bin = dir.path().join("_npx/h/node_modules/.bin/b");
        fs::create_dir_all(bin.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(&main, &bin).unwrap();
        let found = find(&bin, "@a/b").unwrap();
        assert!(found.contains(&fs::canonicalize(&json).unwrap()), "{found:?}");
        assert!(find(&bin, "c").is_err());
        fs::write(&json, r#"{"name": "@a/b", "version": "1.2.4"}"#).unwrap();
        assert!(find(&bin, "@a/b").is_err());
        // What a folder of it says does not count.
        write(&dir, "_npx/h/node_modules/@a/b/dist/package.json", r#"{"name": "@a/b", "version": "1.2.3"}"#);
        assert!(find(&bin, "@a/b").is_err());
        let local = write(&dir, "p/node_modules/c/main.js", "");
        write(&dir, "p/node_modules/c/package.json", r#"{"name": "c", "version": "1.2.3"}"#);
        assert!(find(&local, "c").unwrap_err().contains("not in the cache"));
    }

    #[test]
    fn a_program_of_uv_is_in_an_environment_with_the_package() {
        let dir = TempDir::new().unwrap();
        let find = |program: &Path, name: &str| files(&package(LauncherProgram::Uvx, name), program);
        let program = write(&dir, "e/bin/run", "");
        let record = write(&dir, "e/lib/python3.12/site-packages/My_Pkg.x-1.2.3.dist-info/RECORD", "");
        assert!(find(&program, "my-pkg-x").is_err());
        write(&dir, "e/pyvenv.cfg", "");
        let found = find(&program, "my-pkg-x").unwrap();
        assert!(found.contains(&record), "{found:?}");
        assert!(find(&program, "my-pkg").is_err());
    }

    /// A package, the variables of its launcher, and the files that the launcher looks for.
    type LauncherCase<'a> = (PinnedPackage, &'a [(&'a str, &'a str)], &'a [&'a str]);

    #[test]
    fn the_files_that_configure_a_launcher_are_known() {
        let cases: [LauncherCase<'_>; 3] = [
            (
                package(LauncherProgram::Npx, "@a/b"),
                &[("npm_config_userconfig", "/u"), ("npm_config_global_prefix", "/p")],
                &[
                    "/w/.npmrc",
                    "/w/x/package.json",
                    "/w/node_modules",
                    "/w/x/node_modules/@a/b/package.json",
                    "/w/node_modules/.bin/@a/b@1.2.3",
                    "/u",
                    "/p/lib/node_modules/@a/b/package.json",
                    "/p/bin/@a/b@1.2.3",
                ],
            ),
            (
                package(LauncherProgram::Uvx, "My_Pkg.x"),
                &[("HOME", "/h"), ("UV_CONFIG_FILE", "/u.toml")],
                &[
                    "/h/.local/share/uv/tools/my-pkg-x/uv-receipt.toml",
                    "/h/.config/uv/uv.toml",
                    "/etc/uv/uv.toml",
                    "/etc/xdg/uv/uv.toml",
                    "/u.toml",
                    "/w/.python-version",
                ],
            ),
            (
                package(LauncherProgram::Uvx, "c"),
                &[("UV_TOOL_DIR", "/t"), ("XDG_CONFIG_DIRS", "/d:/e"), ("XDG_CONFIG_HOME", "/c")],
                &["/t/c/uv-receipt.toml", "/c/uv/uv.toml", "/d/uv/uv.toml", "/e/uv/uv.toml"],
            ),
        ];
        for (package, env, expected) in cases {
            let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            let files = config_files(&package, Path::new("/w/x"), &env);
            for file in expected {
                assert!(files.contains(&PathBuf::from(file)), "{file}: {files:?}");
            }
        }
    }
}
