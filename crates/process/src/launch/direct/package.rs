//! Finds a package in the cache of its launcher, and the files that decide whether the launcher would start it again.

use super::pinned::{LauncherProgram, PinnedPackage};
use base::files;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The largest package.json that is read, in bytes.
const MAX_PACKAGE_JSON: u64 = 1 << 20;

/// Returns the files that decide what the launcher starts: the files of the package, and the files that configure the
/// launcher. Some need not exist. `program` is that of the server, `cwd` its directory, `env` its environment.
///
/// # Errors
///
/// Fails if the program is not in the cache of the launcher, or not of this package in this version.
pub(super) fn files(
    package: &PinnedPackage,
    program: &Path,
    cwd: &Path,
    env: &BTreeMap<String, String>,
) -> Result<Vec<PathBuf>, String> {
    match package.launcher {
        LauncherProgram::Npx => npm_files(package, program, cwd, env),
        LauncherProgram::Uvx => uv_files(package, program, cwd, env),
    }
}

fn npm_files(
    package: &PinnedPackage,
    program: &Path,
    cwd: &Path,
    env: &BTreeMap<String, String>,
) -> Result<Vec<PathBuf>, String> {
    let is_root = |dir: &&Path| dir.parent().is_some_and(|above| above.ends_with("_npx"));
    let Some(root) = program.ancestors().find(is_root) else {
        return Err(format!("{} is not in the cache of npx", program.display()));
    };
    let file = fs::canonicalize(program).map_err(|error| error.to_string())?;
    let dirs = file.ancestors().skip(1).take_while(|dir| !dir.ends_with("node_modules"));
    let description = dirs.map(|dir| dir.join("package.json")).find(|file| describes(file, package));
    let Some(description) = description else {
        return Err(format!("{} is not of {}@{}", program.display(), package.name, package.version));
    };
    let mut files = vec![description];
    files.extend(
        ["package.json", "package-lock.json", "node_modules/.package-lock.json"].map(|file| root.join(file)),
    );
    // A package that is installed in the project or globally goes before the cache.
    for dir in cwd.ancestors() {
        files
            .extend([".npmrc", "package.json", "node_modules/.package-lock.json"].map(|file| dir.join(file)));
    }
    let var = |name: &str| env.get(name).map(Path::new).filter(|path| path.is_absolute());
    files.extend(
        ["npm_config_userconfig", "npm_config_globalconfig"].into_iter().filter_map(var).map(Path::to_owned),
    );
    files.extend(
        var("npm_config_global_prefix")
            .map(|prefix| prefix.join("lib/node_modules").join(&package.name).join("package.json")),
    );
    Ok(files)
}

/// Returns whether a package.json is that of this package.
fn describes(file: &Path, package: &PinnedPackage) -> bool {
    let text = files::read_regular(file, MAX_PACKAGE_JSON);
    let json = text.ok().and_then(|text| serde_json::from_slice::<Value>(&text).ok()).unwrap_or_default();
    json["name"] == *package.name && json["version"] == *package.version
}

fn uv_files(
    package: &PinnedPackage,
    program: &Path,
    cwd: &Path,
    env: &BTreeMap<String, String>,
) -> Result<Vec<PathBuf>, String> {
    let root = program.parent().filter(|dir| dir.ends_with("bin")).and_then(Path::parent);
    let Some(root) = root.filter(|root| root.join("pyvenv.cfg").is_file()) else {
        return Err(format!("{} is not in an environment of uv", program.display()));
    };
    let entries = |dir: PathBuf| fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let libraries = entries(root.join("lib")).map(|python| python.join("site-packages"));
    let mut descriptions = libraries.flat_map(entries).filter(|dir| is_dist_info(dir, package));
    let Some(description) = descriptions.next() else {
        return Err(format!(
            "{} is not in an environment with {}=={}",
            program.display(),
            package.name,
            package.version
        ));
    };
    let mut files = vec![root.join("pyvenv.cfg"), description.join("RECORD"), description.join("METADATA")];
    let var = |name: &str| env.get(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let home_dir = |name: &str, below: &str| var(name).or_else(|| Some(var("HOME")?.join(below)));
    // An installed tool goes before the cache.
    let data = home_dir("XDG_DATA_HOME", ".local/share").map(|dir| dir.join("uv/tools"));
    let tools = var("UV_TOOL_DIR").or(data);
    files.extend(tools.map(|dir| dir.join(&package.name).join("uv-receipt.toml")));
    let dirs = [home_dir("XDG_CONFIG_HOME", ".config").map(|dir| dir.join("uv")), Some("/etc/uv".into())];
    for dir in dirs.into_iter().flatten() {
        files.extend([dir.join("uv.toml"), dir.join(".python-version")]);
    }
    files.extend(cwd.ancestors().map(|dir| dir.join(".python-version")));
    Ok(files)
}

/// Returns whether a directory is what an installed package is described by: `NAME-VERSION.dist-info`, see
/// <https://packaging.python.org/en/latest/specifications/recording-installed-packages/>.
fn is_dist_info(dir: &Path, package: &PinnedPackage) -> bool {
    let name = dir.file_name().and_then(|name| name.to_str()?.strip_suffix(".dist-info"));
    name.and_then(|name| name.rsplit_once('-')).is_some_and(|(name, version)| {
        normalized(name) == normalized(&package.name) && version == package.version
    })
}

/// Returns the name of a Python package as it is compared, with `-`, `_` and `.` alike.
fn normalized(name: &str) -> String {
    let parts: Vec<_> = name.split(['-', '_', '.']).filter(|part| !part.is_empty()).collect();
    parts.join("-").to_lowercase()
}

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
        let find = |program: &Path, name: &str| {
            files(&package(LauncherProgram::Npx, name), program, Path::new("/w/x"), &BTreeMap::new())
        };
        let main = write(&dir, "_npx/h/node_modules/@a/b/dist/main.js", "");
        write(&dir, "_npx/h/node_modules/@a/b/dist/package.json", r#"{"type": "module"}"#);
        let json =
            write(&dir, "_npx/h/node_modules/@a/b/package.json", r#"{"name": "@a/b", "version": "1.2.3"}"#);
        let bin = dir.path().join("_npx/h/node_modules/.bin/b");
        fs::create_dir_all(bin.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(&main, &bin).unwrap();
        let found = find(&bin, "@a/b").unwrap();
        for file in [fs::canonicalize(&json).unwrap(), "/w/.npmrc".into(), "/w/x/package.json".into()] {
            assert!(found.contains(&file), "{file:?}");
        }
        assert!(find(&bin, "c").is_err());
        fs::write(&json, r#"{"name": "@a/b", "version": "1.2.4"}"#).unwrap();
        assert!(find(&bin, "@a/b").is_err());
        let local = write(&dir, "p/node_modules/c/main.js", "");
        write(&dir, "p/node_modules/c/package.json", r#"{"name": "c", "version": "1.2.3"}"#);
        assert!(find(&local, "c").unwrap_err().contains("not in the cache"));
    }

    #[test]
    fn a_program_of_uv_is_in_an_environment_with_the_package() {
        let dir = TempDir::new().unwrap();
        let find = |program: &Path, name: &str| {
            let env = [("HOME".to_owned(), "/h".to_owned())].into();
            files(&package(LauncherProgram::Uvx, name), program, Path::new("/w"), &env)
        };
        let program = write(&dir, "e/bin/run", "");
        let record = write(&dir, "e/lib/python3.12/site-packages/My_Pkg.x-1.2.3.dist-info/RECORD", "");
        assert!(find(&program, "my-pkg-x").is_err());
        write(&dir, "e/pyvenv.cfg", "");
        let found = find(&program, "my-pkg-x").unwrap();
        for file in [
            record,
            "/h/.local/share/uv/tools/my-pkg-x/uv-receipt.toml".into(),
            "/h/.config/uv/uv.toml".into(),
        ] {
            assert!(found.contains(&file), "{file:?}");
        }
        assert!(find(&program, "my-pkg").is_err());
    }
}
