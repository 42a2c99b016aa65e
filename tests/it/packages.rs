//! What packaging/ makes for those who install dynamic-mcp: names that agree, files that are well-formed, and the launcher
//! of the npm package. `.ci/release try` installs and runs real ones.

use std::fs::{self, DirEntry};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use crate::support::{PipeReader, output_of, source_files, wait_for_child};

/// The targets that every release has.
const TARGETS: [&str; 8] = [
    "x86_64-unknown-linux-gnu",
    "aarch64-unknown-linux-gnu",
    "x86_64-unknown-linux-musl",
    "aarch64-unknown-linux-musl",
    "x86_64-apple-darwin",
    "aarch64-apple-darwin",
    "x86_64-pc-windows-msvc",
    "aarch64-pc-windows-msvc",
];

/// In place of the binary: shows its arguments and its stdin, and ends as it is told to.
const PROGRAM: &str = r#"#!/bin/sh
trap 'echo "got TERM"; exit 9' TERM
echo "arguments $*"
read line
echo "stdin $line"
[ "$1" != die ] || kill -KILL $$
[ "$1" != wait ] || { exec 3<&0; cat <&3 >/dev/null & wait; }
exit 7
"#;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Cargo.toml.
fn manifest() -> toml_edit::DocumentMut {
    fs::read_to_string(root().join("Cargo.toml")).unwrap().parse().unwrap()
}

fn text_of(item: &toml_edit::Item) -> String {
    item.as_str().unwrap().to_owned()
}

/// The name of the packages on npm and PyPI.
fn published_name() -> String {
    text_of(&manifest()["package"]["metadata"]["published"]["name"])
}

#[test]
fn the_published_name_stands_in_few_files() {
    let name = published_name();
    let files = source_files(root());
    assert!(files.len() > 400, "{}", files.len());
    let has_name = |path: &PathBuf| {
        let content = fs::read(path).unwrap();
        memchr::memmem::find(&content, name.as_bytes()).is_some()
    };
    let mut found: Vec<_> = files.iter().filter(|path| has_name(path)).collect();
    found.sort();
    let allowed = ["CONTRIBUTING.md", "Cargo.toml", "crates/import/src/clients/apps.rs", "docs/install.md"];
    let allowed = allowed.map(|name| root().join(name));
    assert_eq!(found, allowed.iter().collect::<Vec<_>>());
}

#[test]
fn the_commands_for_users_have_the_names_of_the_manifest() {
    let name = published_name();
    let package = manifest()["package"].clone();
    let repository = text_of(&package["repository"]);
    let (owner, repository_name) =
        repository.strip_prefix("https://github.com/").unwrap().split_once('/').unwrap();
    let owner = owner.to_lowercase();
    let commands = [
        format!("`npm install --global {name}`"),
        format!("`uv tool install {name}`"),
        format!("`pipx install {name}`"),
        format!("`brew install {owner}/tap/dynamic-mcp`"),
        format!("`cargo binstall --git {repository} dynamic-mcp`"),
        format!("`docker run -i -v ~/.config/dynamic-mcp:/config:ro ghcr.io/{owner}/{repository_name}`"),
        format!("({repository}/releases)"),
    ];
    let text = fs::read_to_string(root().join("docs/install.md")).unwrap();
    let missing: Vec<&String> = commands.iter().filter(|command| !text.contains(*command)).collect();
    assert!(missing.is_empty(), "docs/install.md lacks {missing:#?}");
}

#[test]
fn what_has_to_be_set_before_a_release_is_said() {
    if !has_interpreters() {
        return;
    }
    let mut command = Command::new("python3");
    command.arg(root().join(".ci/release")).arg("publishable").env("GITHUB_REF_NAME", "v99.0.0");
    let output = output_of(command.env_remove("GITHUB_REPOSITORY"));
    assert_eq!(output.status.code(), Some(1));
    let problems = String::from_utf8(output.stderr).unwrap();
    for file in ["Cargo.toml: the version", "CONTRIBUTING.md, \"Releases\""] {
        assert!(problems.contains(file), "{problems}");
    }
    let has_owner = text_of(&manifest()["package"]["repository"]).contains("OWNER");
    for file in ["Cargo.toml: `repository`", "docs/install.md: OWNER"] {
        assert_eq!(problems.contains(file), has_owner, "{problems}");
    }
}

/// Whether Python 3.11 and Node.js are installed. If not, says so, or fails where tests must not be skipped.
fn has_interpreters() -> bool {
    let works = |program, code| {
        let status = Command::new(program).args(code).stdout(Stdio::null()).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    };
    let has = works("python3", ["-c", "import tomllib"]) && works("node", ["-e", ""]);
    if !has {
        assert!(std::env::var_os("DYNAMIC_MCP_REQUIRE_REAL").is_none(), "Python 3.11 or Node.js is missing");
        eprintln!("SKIPPED: Python 3.11 or Node.js is missing");
    }
    has
}

/// Packages of every target, with `PROGRAM` in place of the binary.
struct Packages {
    dir: TempDir,
}

impl Packages {
    fn make() -> Self {
        let packages = Self { dir: tempfile::tempdir().unwrap() };
        let script = packages.dir.path().join("script");
        fs::write(&script, PROGRAM).unwrap();
        // The header of a 64-bit Mach-O file for ARM.
        let mach_o = packages.dir.path().join("mach-o");
        fs::write(&mach_o, [0xcf, 0xfa, 0xed, 0xfe, 0x0c, 0, 0, 1, 0, 0, 0, 0, 2]).unwrap();
        let (darwin, others): (Vec<_>, Vec<_>) =
            TARGETS.into_iter().partition(|target| target.contains("darwin"));
        for (program, targets) in [(script, others), (mach_o, darwin)] {
            packages.release(&[&["--program", program.to_str().unwrap()], &*targets].concat());
        }
        packages.release(&["packages", "--complete"]);
        packages
    }

    fn release(&self, args: &[&str]) {
        let mut command = Command::new("python3");
        command.arg(root().join(".ci/release")).args(args);
        command.env("CARGO_TARGET_DIR", self.dir.path()).env("SOURCE_DATE_EPOCH", "1000000000");
        let output = output_of(&mut command);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join("release-files").join(name)
    }

    fn checksum(&self, name: &str) -> String {
        let digest = Sha256::digest(fs::read(self.file(name)).unwrap());
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Unpacks a .tar.gz file.
fn untar(file: &Path, into: &Path, args: &[&str]) {
    fs::create_dir_all(into).unwrap();
    let mut command = Command::new("tar");
    let output = output_of(command.arg("-xzf").arg(file).arg("-C").arg(into).args(args));
    assert!(output.status.success(), "{file:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// cargo-binstall finds the archive of each target, and the program in it.
fn check_the_addresses_of_binstall(packages: &Packages, package: &toml_edit::Item) {
    let (version, repository) = (env!("CARGO_PKG_VERSION"), text_of(&package["repository"]));
    let binstall = &package["metadata"]["binstall"];
    for target in TARGETS {
        let fill = |key: &str| {
            let own = binstall["overrides"].get(target).and_then(|fields| fields.get(key));
            let suffix = if target.contains("windows") { ".exe" } else { "" };
            text_of(own.unwrap_or_else(|| &binstall[key]))
                .replace("{ repo }", &repository)
                .replace("{ version }", version)
                .replace("{ name }", "dynamic-mcp")
                .replace("{ bin }", "dynamic-mcp")
                .replace("{ binary-ext }", suffix)
                .replace("{ target }", target)
        };
        let url = fill("pkg-url");
        let archive = url.strip_prefix(&format!("{repository}/releases/download/v{version}/")).unwrap();
        let sum = fs::read_to_string(packages.file(&format!("{archive}.sha256"))).unwrap();
        assert_eq!(sum, format!("{}  {archive}\n", packages.checksum(archive)));
        assert_eq!(archive.ends_with(".zip"), fill("pkg-fmt") == "zip", "{archive}");
        if archive.ends_with(".tar.gz") {
            let unpacked = packages.dir.path().join(target);
            untar(&packages.file(archive), &unpacked, &[]);
            let mode = fs::metadata(unpacked.join(fill("bin-dir"))).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o755, "{archive}");
        }
    }
}

/// CONTRIBUTING.md lists the files, and those in each archive.
fn check_the_list_of_files(packages: &Packages) {
    let page = fs::read_to_string(root().join("CONTRIBUTING.md")).unwrap();
    let name_of = |entry: io::Result<DirEntry>| entry.unwrap().file_name().into_string().unwrap();
    let mut files: Vec<String> =
        fs::read_dir(packages.dir.path().join("release-files")).unwrap().map(name_of).collect();
    let stem = format!("dynamic-mcp-{}-{}", env!("CARGO_PKG_VERSION"), TARGETS[0]);
    let unpacked = packages.dir.path().join(TARGETS[0]).join(stem);
    files.extend(
        fs::read_dir(&unpacked).unwrap().map(name_of).filter(|name| name != "completions" && name != "man"),
    );
    let scripts = fs::read_dir(unpacked.join("completions")).unwrap().map(name_of);
    files.extend(scripts.map(|name| format!("completions/{name}")));
    let pages = fs::read_dir(unpacked.join("man/man1")).unwrap().map(name_of);
    files.extend(pages.map(|name| format!("man/man1/{name}")));
    assert!(files.len() > 25, "{files:?}");
    for file in files {
        let target = TARGETS.iter().find(|target| file.contains(*target)).unwrap_or(&"TARGET");
        let listed = file.replace(target, "TARGET").replace(env!("CARGO_PKG_VERSION"), "VERSION");
        let platform = listed.strip_prefix(&format!("{}-", published_name())).unwrap_or_default();
        let platform = platform.strip_suffix("-VERSION.tgz").unwrap_or("PLATFORM");
        for part in [platform, &listed.replace(platform, "PLATFORM")] {
            assert!(
                part == "PLATFORM" || page.contains(&format!("`{part}`")),
                "{file}: {part} is not listed"
            );
        }
    }
}

#[test]
fn the_packages_agree_with_one_another_and_with_their_formats() {
    if !has_interpreters() {
        return;
    }
    let packages = Packages::make();
    let version = env!("CARGO_PKG_VERSION");
    let package = manifest()["package"].clone();
    let name = published_name();
    check_the_addresses_of_binstall(&packages, &package);
    check_the_list_of_files(&packages);

    // The MCP registry accepts server.json, and finds its name in the package on npm.
    let server: Value = serde_json::from_slice(&fs::read(packages.file("server.json")).unwrap()).unwrap();
    let schema: Value = serde_json::from_str(include_str!("packages/server.schema.json")).unwrap();
    assert_eq!(server["$schema"], schema["$id"]);
    let errors: Vec<String> = jsonschema::validator_for(&schema)
        .unwrap()
        .iter_errors(&server)
        .map(|error| error.to_string())
        .collect();
    assert!(errors.is_empty(), "{errors:?}");
    let bundle = format!("dynamic-mcp-{version}.mcpb");
    let listed = |kind: &str| {
        let entries = server["packages"].as_array().unwrap();
        entries.iter().find(|entry| entry["registryType"] == kind).unwrap().clone()
    };
    assert_eq!(listed("mcpb")["fileSha256"], packages.checksum(&bundle));
    assert_eq!([listed("npm")["identifier"].clone(), listed("pypi")["identifier"].clone()], [&*name, &*name]);
    let npm = packages.dir.path().join("npm");
    untar(&packages.file(&format!("{name}-{version}.tgz")), &npm, &["--strip-components=1"]);
    let described: Value = serde_json::from_slice(&fs::read(npm.join("package.json")).unwrap()).unwrap();
    assert_eq!(described["mcpName"], server["name"]);
    assert_eq!(described["optionalDependencies"].as_object().unwrap().len(), 6, "{described}");
    let readme = fs::read_to_string(npm.join("README.md")).unwrap();
    assert!(readme.ends_with(&format!("<!-- mcp-name: {} -->\n", server["name"].as_str().unwrap())));
    assert!(!readme.contains("](docs/"), "a link that leads nowhere");

    // Homebrew compares the archives with the formula.
    let formula = fs::read_to_string(packages.file("dynamic-mcp.rb")).unwrap();
    for target in TARGETS.iter().filter(|target| target.contains("darwin") || target.contains("musl")) {
        let archive = format!("dynamic-mcp-{version}-{target}.tar.gz");
        let lines = format!("/{archive}\"\n      sha256 \"{}\"\n", packages.checksum(&archive));
        assert!(formula.contains(&lines), "{formula}");
    }

    // The same files give the same bytes.
    let before = packages.checksum(&bundle);
    packages.release(&["packages"]);
    assert_eq!(packages.checksum(&bundle), before);
}

/// The npm packages as npm lays them out, and a run of the launcher.
fn launch(packages: &Packages, args: &[&str]) -> (Child, PipeReader<ChildStdout>) {
    let modules = packages.dir.path().join("node_modules");
    let (name, version) = (published_name(), env!("CARGO_PKG_VERSION"));
    let cpu = if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" };
    for package in [name.clone(), format!("{name}-linux-{cpu}")] {
        let file = packages.file(&format!("{package}-{version}.tgz"));
        untar(&file, &modules.join(&package), &["--strip-components=1"]);
    }
    let mut command = Command::new("node");
    command.arg(modules.join(&name).join("bin/launcher.js")).args(args);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let stdout = PipeReader::new(child.stdout.take().unwrap());
    (child, stdout)
}

#[test]
fn the_npm_launcher_is_the_program_to_its_caller() {
    if !has_interpreters() {
        return;
    }
    let packages = Packages::make();

    let (mut child, mut stdout) = launch(&packages, &["one", "a b"]);
    child.stdin.take().unwrap().write_all(b"hello\n").unwrap();
    assert_eq!(String::from_utf8(stdout.read_to_end()).unwrap(), "arguments one a b\nstdin hello\n");
    assert_eq!(wait_for_child(&mut child).code(), Some(7));

    // A signal reaches the program, and the end of the program by a signal the caller.
    let (mut child, mut stdout) = launch(&packages, &["wait"]);
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"hello\n").unwrap();
    stdout.read_line().unwrap();
    stdout.read_line().unwrap();
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGTERM).unwrap();
    assert_eq!(String::from_utf8(stdout.read_to_end()).unwrap(), "got TERM\n");
    assert_eq!(wait_for_child(&mut child).code(), Some(9));
    drop(stdin);
    let (mut child, _stdout) = launch(&packages, &["die"]);
    child.stdin.take().unwrap().write_all(b"hello\n").unwrap();
    assert_eq!(wait_for_child(&mut child).signal(), Some(Signal::SIGKILL as i32));

    // Without the package of the platform, it says what to do.
    let name = published_name();
    let modules = packages.dir.path().join("node_modules");
    for package in fs::read_dir(&modules).unwrap().map(|entry| entry.unwrap().path()) {
        if !package.ends_with(&name) {
            fs::remove_dir_all(package).unwrap();
        }
    }
    let output = output_of(Command::new("node").arg(modules.join(&name).join("bin/launcher.js")));
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("is not installed. Install") && message.lines().count() == 1, "{message}");
}
