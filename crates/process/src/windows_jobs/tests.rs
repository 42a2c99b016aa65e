//! Tests of Job Objects, with the programs of the system.

use super::limited::{JobLimits, LimitedProcess};
use super::*;
use std::ffi::OsString;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const DEADLINE: Duration = Duration::from_secs(30);

/// Starts `cmd.exe` with these arguments and no variables but those that it needs.
fn launch(args: &[&str]) -> Launch {
    let needed = ["SystemRoot", "PATH", "TEMP"];
    let env = needed.into_iter().filter_map(|name| Some((name.into(), std::env::var_os(name)?)));
    Launch {
        program: sys::system_directory().unwrap().join("cmd.exe"),
        args: args.iter().map(OsString::from).collect(),
        env: env.chain([("MARK".into(), "ä b".into())]).collect(),
        cwd: std::env::temp_dir(),
    }
}

async fn spawn(jobs: &Jobs, args: &[&str]) -> JobProcess {
    timeout(DEADLINE, jobs.spawn(launch(args))).await.unwrap().unwrap()
}

async fn output(mut process: JobProcess) -> (String, Exit) {
    let mut text = Vec::new();
    // The end of a pipe is an error on Windows.
    timeout(DEADLINE, process.stdout.read_to_end(&mut text)).await.unwrap().ok();
    let exit = timeout(DEADLINE, process.handle.exited()).await.unwrap();
    (String::from_utf8_lossy(&text).into_owned(), exit)
}

#[tokio::test]
async fn the_output_the_environment_and_the_exit_code_are_those_of_the_process() {
    let jobs = Jobs::default();
    let (text, exit) = output(spawn(&jobs, &["/c", "echo [%MARK%] [%USERNAME%]& exit 7"]).await).await;
    // A variable that is not set stays as it is.
    assert!(text.contains("b] [%USERNAME%]"), "{text}");
    assert_eq!(exit, Exit::Code(7));
    assert_eq!(exit.to_string(), "exited with code 7");
    assert_eq!(Exit::Code(0xC000_0005_u32.cast_signed()).to_string(), "exited with code 0xC0000005");
}

#[tokio::test]
async fn a_process_ends_when_its_stdin_is_closed() {
    let jobs = Jobs::default();
    let JobProcess { mut stdin, stdout: mut output, handle, .. } = spawn(&jobs, ENDLESS).await;
    stdin.write_all(b"echo [%MARK%]\r\n").await.unwrap();
    stdin.flush().await.unwrap();
    drop(stdin);
    let mut text = Vec::new();
    timeout(DEADLINE, output.read_to_end(&mut text)).await.unwrap().ok();
    let started = Instant::now();
    handle.stop(StopTimeouts { sigterm_after: DEADLINE, sigkill_after: DEADLINE }).await;
    assert!(started.elapsed() < DEADLINE / 2);
    assert_eq!(handle.exited().await, Exit::Code(0));
    assert!(String::from_utf8_lossy(&text).contains(" b]"));
}

/// Runs until its stdin is closed, with a process that it has started.
const ENDLESS: &[&str] = &["/c", "cmd"];

#[tokio::test]
async fn a_stop_ends_the_process_and_what_it_started() {
    let jobs = Jobs::default();
    let process = spawn(&jobs, ENDLESS).await;
    let soon = Duration::from_millis(200);
    let stop = process.handle.stop(StopTimeouts { sigterm_after: soon, sigkill_after: soon });
    timeout(DEADLINE, stop).await.unwrap();
    assert_eq!(timeout(DEADLINE, process.handle.exited()).await.unwrap(), Exit::Code(1));
}

#[tokio::test]
async fn a_shutdown_ends_everything_and_nothing_starts_afterwards() {
    let jobs = Jobs::default();
    let first = spawn(&jobs, ENDLESS).await;
    let second = spawn(&jobs, ENDLESS).await;
    let soon = Duration::from_millis(200);
    let timeouts = StopTimeouts { sigterm_after: soon, sigkill_after: soon };
    timeout(DEADLINE, jobs.shutdown(timeouts)).await.unwrap();
    for process in [first, second] {
        assert_eq!(timeout(DEADLINE, process.handle.exited()).await.unwrap(), Exit::Code(1));
    }
    assert!(matches!(jobs.spawn(launch(ENDLESS)).await, Err(JobError::ShuttingDown)));
}

#[tokio::test]
async fn a_failed_start_says_what_failed() {
    let jobs = Jobs::default();
    let missing = Launch { program: r"C:\nowhere\x.exe".into(), ..launch(&[]) };
    let error = jobs.spawn(missing).await.unwrap_err().to_string();
    assert!(error.starts_with(r"cannot run C:\nowhere\x.exe: "), "{error}");
    let batch = Launch { program: r"C:\x.cmd".into(), args: vec!["s3cret\n".into()], ..launch(&[]) };
    let error = jobs.spawn(batch).await.unwrap_err().to_string();
    assert!(error.contains("argument 1 contains a line break") && !error.contains("s3cret"), "{error}");
}

#[tokio::test]
async fn a_batch_file_gets_its_arguments_as_they_are_and_runs_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let (file, marker) = (dir.path().join("show me.cmd"), dir.path().join("broken-out"));
    std::fs::write(&file, "@echo off\r\necho [%1] [%2]\r\n").unwrap();
    let jobs = Jobs::default();
    let attack = format!("\" & echo x> {} & \"", marker.display());
    for arg in ["two words", "a&b|c>d", "x^y", &*attack] {
        let launch = Launch { program: file.clone(), args: vec![arg.into(), "next".into()], ..launch(&[]) };
        let (text, _) = output(timeout(DEADLINE, jobs.spawn(launch)).await.unwrap().unwrap()).await;
        assert!(text.contains(&format!("[\"{}\"] [next]", arg.replace('"', "\"\""))), "{arg}: {text}");
        assert!(!marker.exists(), "{arg}: {text}");
    }
}

#[tokio::test]
async fn a_limited_process_has_no_environment_and_ends_when_it_is_dropped() {
    let shell = sys::system_directory().unwrap().join("cmd.exe");
    let limits = JobLimits { memory_bytes: 256 << 20, cpu_time: DEADLINE };
    let spawn = async |args: &[&str]| {
        let args = args.iter().map(OsString::from).collect();
        timeout(DEADLINE, LimitedProcess::spawn(shell.clone(), args, limits)).await.unwrap().unwrap()
    };
    let rest = async |mut stdout: NamedPipeServer| {
        let mut text = Vec::new();
        timeout(DEADLINE, stdout.read_to_end(&mut text)).await.unwrap().ok();
        String::from_utf8_lossy(&text).into_owned()
    };
    let (mut process, _stdin, stdout) = spawn(&["/c", "echo [%USERNAME%][%TEMP%]& exit 7"]).await;
    assert!(rest(stdout).await.contains("[%USERNAME%][%TEMP%]"));
    assert_eq!(timeout(DEADLINE, process.exited()).await.unwrap(), Exit::Code(7));
    let (process, _stdin, stdout) = spawn(&["/k"]).await;
    drop(process);
    // Its stdin is open, and it would run on.
    rest(stdout).await;
}
