//! Finds the server's process below a launcher that runs, and reads from /proc what the launcher gave to it, see proc(5).

use super::learned::ObservedServer;
use super::package;
use super::pinned::PinnedPackage;
use crate::launch::Launch;
use base::procfs;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// How many shells a launcher has at most between itself and the server.
const MAX_SHELLS: usize = 2;

/// Returns the process that a launcher has started as the server: the only child that has the launcher's stdin and
/// stdout, or the only one of the shell that it has started for that. Blocks.
///
/// # Errors
///
/// Fails with the reason if there is no such process or more than one, or if there are more shells than [`MAX_SHELLS`].
pub(super) fn server_below(launcher: u32) -> Result<u32, String> {
    let link = |file| procfs::link(launcher, file).map_err(|error| error.to_string());
    let stdio = [link("fd/0")?, link("fd/1")?];
    let mut pid = launcher;
    for _ in 0..=MAX_SHELLS {
        let mut servers = procfs::children(pid).into_iter().filter(|child| has_open(*child, &stdio));
        pid = match (servers.next(), servers.next()) {
            (Some(only), None) => only.cast_unsigned(),
            (None, _) => return Err("no process below it has its stdin and stdout".to_owned()),
            (Some(_), Some(_)) => {
                return Err("several processes below it have its stdin and stdout".to_owned());
            }
        };
        if !is_shell(pid) {
            return Ok(pid);
        }
    }
    Err("it starts the server by too many shells".to_owned())
}

/// Reads what the launcher `pid`, started as `launch` says, gave to the process `server`. Blocks.
///
/// # Errors
///
/// Fails with the reason if the server runs in another directory than the launcher or is not of
/// `package`, or if its command line or its environment cannot be told.
pub(super) fn observe(
    pid: u32,
    server: u32,
    launch: &Launch,
    package: &PinnedPackage,
) -> Result<ObservedServer, String> {
    let program = program(server, launch, package)?;
    let cwd = procfs::link(server, "cwd").map_err(|error| error.to_string())?;
    if fs::canonicalize(&launch.cwd).ok().as_ref() != Some(&cwd) {
        return Err("the server runs in another directory".to_owned());
    }
    let env = environment(server)?;
    let mut files = package::files(package, &program)?;
    files.extend(package::config_files(package, &launch.cwd, &env));
    files.extend([launch.program.clone(), program.clone()]);
    files.extend([&launch.program, &program].into_iter().filter_map(|file| fs::canonicalize(file).ok()));
    files.extend([pid, server].into_iter().filter_map(|pid| procfs::link(pid, "exe").ok()));
    files.sort();
    files.dedup();
    Ok(ObservedServer { program, env, files })
}

/// Returns the program of the server. Its command line must end in the program and the arguments that the config has
/// for it, so that executing the program with these makes the same command line.
///
/// # Errors
///
/// Fails with the reason if the command line cannot be read, ends otherwise, or does not name the program.
fn program(server: u32, launch: &Launch, package: &PinnedPackage) -> Result<PathBuf, String> {
    let words = procfs::cmdline(server).map_err(|error| error.to_string())?;
    let args = launch.args.get(package.own_args..).unwrap_or_default();
    let own = words
        .len()
        .checked_sub(args.len())
        .filter(|own| words[*own..].iter().zip(args).all(|(word, arg)| word == arg));
    let unclear = || {
        "the server's command line does not end in the arguments of the config: the server has rewritten it, or the \
         launcher adds arguments of its own"
            .to_owned()
    };
    let own = &words[..own.ok_or_else(unclear)?];
    let program = PathBuf::from(own.last().ok_or_else(unclear)?);
    let is_script = own.len() > 1 && begins_as_script(&program);
    let exe = procfs::link(server, "exe").ok();
    let is_binary = own.len() == 1 && exe.is_some() && fs::canonicalize(&program).ok() == exe;
    match program.is_absolute() && (is_script || is_binary) {
        true => Ok(program),
        false => Err("the server's command line does not name its program".to_owned()),
    }
}

/// Returns whether the kernel executes a file by an interpreter that the file names, see execve(2).
fn begins_as_script(file: &Path) -> bool {
    let mut start = [0; 2];
    let read = fs::File::open(file).and_then(|mut file| std::io::Read::read_exact(&mut file, &mut start));
    read.is_ok() && start == *b"#!"
}

/// Returns the environment that a process was executed with.
///
/// # Errors
///
/// Fails with the reason if it cannot be read, or a variable is not UTF-8 or was written over.
fn environment(pid: u32) -> Result<BTreeMap<String, String>, String> {
    let environ = procfs::environ(pid).map_err(|error| error.to_string())?;
    let text =
        |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value.into_string().ok()?));
    let env: BTreeMap<_, _> = environ.vars().filter_map(text).collect();
    // A program that sets its title may write over them.
    match env.len() == environ.entries() {
        true => Ok(env),
        false => Err("the server's environment is not text".to_owned()),
    }
}

/// Returns whether a process has all of these files open, under any number: some servers move their stdin and stdout.
fn has_open(pid: i32, links: &[PathBuf]) -> bool {
    let open = procfs::open_files(pid);
    links.iter().all(|link| open.contains(link))
}

/// Returns whether a process is a shell that runs one command line.
fn is_shell(pid: u32) -> bool {
    procfs::cmdline(pid)
        .is_ok_and(|words| words.len() == 3 && words[1] == "-c" && Path::new(&words[0]).ends_with("sh"))
}
