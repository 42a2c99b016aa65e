//! Tests what processes that share a state directory make of what they see and approve.

use super::changes::RefusedTools;
#[cfg(unix)]
use super::changes::WhyRefused;
use super::definition::DefinitionDigest;
use super::group::{ApproveError, approve, remembered_tools};
use super::record::NotApproved;
use super::*;
use config::Overrides;
use config::env::Env;
use config::load::load;
use config::tool_rules::ToolOverrides;
#[cfg(unix)]
use std::path::Path;
use wire::Raw;

/// A directory with a config and the state of its processes.
struct World {
    dir: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn state(&self) -> PathBuf {
        self.dir.path().join("state/pins")
    }

    /// The entry of group `g` in a config file of this name, with this command.
    fn server(&self, file: &str, command: &str, pinned: bool) -> ServerConfig {
        let path = self.dir.path().join(file);
        let text = format!(
            r#"{{"mcpServers": {{"g": {{ "command": "{command}", "args": ["${{HOME}}"], "pin_tools": {pinned} }}}}}}"#
        );
        std::fs::write(&path, text).unwrap();
        let env = Env::new([("HOME", "/h")], "/");
        let config = load(&[path], &env, &Overrides::default());
        config.servers[0].1.as_deref().unwrap().clone()
    }

    /// A process with the pinned group `g` of `a.json`.
    async fn process(&self) -> Process {
        self.process_of(&self.server("a.json", "x", true)).await
    }

    async fn process_of(&self, server: &ServerConfig) -> Process {
        let store = PinStore::new(Some(self.state()));
        let name = GroupName::new("g");
        let group = store.group(&name, server);
        store.load(std::slice::from_ref(&group)).await;
        Process { store, group }
    }

    fn approve(&self, tool: Option<&str>) -> Result<usize, ApproveError> {
        let server = self.server("a.json", "x", true);
        approve(&self.state(), &GroupName::new("g"), &server, tool, false).map(|approved| approved.len())
    }

    /// The path of the only record.
    fn record(&self) -> PathBuf {
        let files = std::fs::read_dir(self.state()).unwrap().map(|entry| entry.unwrap().path());
        let mut records: Vec<_> = files.filter(|path| path.extension().is_some()).collect();
        assert_eq!(records.len(), 1, "{records:?}");
        records.remove(0)
    }
}

/// What one process has of the pins.
struct Process {
    store: PinStore,
    group: Arc<GroupPins>,
}

impl Process {
    /// Sees tools: pairs of a name and a description.
    fn see(&self, tools: &[(&str, &str)]) {
        let definitions = tools.iter().map(|(name, description)| {
            let definition =
                Raw::from(serde_json::json!({ "name": name, "description": description }).to_string());
            (*name, DefinitionDigest::of(&definition), definition)
        });
        let definitions: Vec<_> = definitions.collect();
        self.group.observe(definitions.iter().map(|(name, digest, raw)| (*name, digest, raw)), None);
    }

    /// Sees tools, and writes what it saw.
    async fn see_and_write(&self, tools: &[(&str, &str)]) {
        self.see(tools);
        self.synchronize().await;
    }

    /// Writes what was seen, and reads what was approved.
    fn synchronize(&self) -> impl Future<Output = Vec<GroupName>> {
        self.store.synchronize(vec![self.group.clone()])
    }

    fn refused(&self) -> RefusedTools {
        RefusedTools::new(self.group.changes(), &ToolOverrides::default())
    }

    /// The refused ones of these tools.
    fn refuses(&self, tools: &str) -> String {
        tools.split(' ').filter(|tool| self.refused().contains(tool)).collect::<Vec<_>>().join(" ")
    }
}

const FIRST: &[(&str, &str)] = &[("a", "1"), ("b", "1")];
const CHANGED: &[(&str, &str)] = &[("a", "2"), ("b", "1"), ("c", "1")];

#[tokio::test]
async fn what_waits_for_the_lock_does_not_replace_what_was_merged_meanwhile() {
    let world = World::new();
    let process = world.process().await;
    process.see_and_write(&[("a", "1")]).await;
    process.see(&[("a", "1"), ("b", "1")]);
    let lock = files::lock(&world.state()).unwrap();
    let mut waiting = std::pin::pin!(process.synchronize());
    assert!(futures_util::poll!(&mut waiting).is_pending());
    // Its thread waits for the lock by now.
    std::thread::sleep(Duration::from_millis(100));
    process.see(&[("a", "2"), ("b", "1")]);
    let job = process.group.next_job().unwrap();
    let outcome = process.group.run_job(&world.state(), job, Ok(()));
    process.group.finish_job(outcome);
    drop(lock);
    waiting.await;
    let record = files::read(&world.record()).unwrap().unwrap();
    assert!(record.changed_tools().iter().any(|(tool, _)| tool == "a"), "the change is still recorded");
    assert_eq!(world.approve(Some("a")), Ok(1));
}

#[tokio::test]
async fn a_change_is_refused_before_anything_is_written_and_until_it_is_approved() {
    let world = World::new();
    let process = world.process().await;
    process.see(FIRST);
    assert_eq!(process.refuses("a b c"), "");
    process.see(CHANGED);
    assert_eq!(process.refuses("a b c"), "a c");
    assert!(process.group.is_refusing());
    process.synchronize().await;
    assert_eq!(world.approve(Some("c")), Ok(1));
    process.synchronize().await;
    assert_eq!(process.refuses("a b c"), "a");
    assert_eq!(world.approve(None), Ok(1));
    assert_eq!(process.synchronize().await, [GroupName::new("g")]);
    assert_eq!(process.refuses("a b c"), "");
    assert!(!process.group.is_refusing(), "nobody has to look for approvals any more");
    assert_eq!(process.synchronize().await, []);
}

#[tokio::test]
async fn only_a_group_that_pins_its_tools_refuses_those_that_changed() {
    let world = World::new();
    let process = world.process().await;
    process.see(FIRST);
    process.see(CHANGED);
    let refused = |pinned| process.group.refused(&world.server("a.json", "x", pinned));
    assert!(refused(true).contains("a") && !refused(true).contains("b"));
    assert!(!refused(false).contains("a"));
}

#[tokio::test]
async fn another_server_of_the_same_name_begins_anew() {
    let world = World::new();
    let process = world.process().await;
    process.see(FIRST);
    let name = GroupName::new("g");
    assert!(process.group.is_about(&world.server("a.json", "x", true)));
    let other = world.server("a.json", "y", true);
    assert!(!process.group.is_about(&other));
    let other = process.store.group(&name, &other);
    assert!(other.changes().tools.is_empty());
}

#[tokio::test]
async fn what_is_seen_while_the_file_is_written_is_not_forgotten() {
    let world = World::new();
    let process = world.process().await;
    process.see(FIRST);
    // The first poll takes what has to be written.
    let mut writing = std::pin::pin!(process.synchronize());
    assert!(futures_util::poll!(&mut writing).is_pending());
    process.see(CHANGED);
    writing.await;
    assert_eq!(process.group.changes().tools["a"].parts, ["description"]);
    process.synchronize().await;
    assert_eq!(world.approve(None), Ok(2));
}

#[tokio::test]
async fn another_process_knows_what_was_first_seen() {
    let world = World::new();
    let (first, second) = (world.process().await, world.process().await);
    first.see_and_write(FIRST).await;
    // The second one has not read the record, and sees other definitions.
    second.see(CHANGED);
    assert_eq!(second.refuses("a b c"), "", "it is the first that this process sees");
    second.synchronize().await;
    assert_eq!(second.refuses("a b c"), "a c", "the file counts");
    let third = world.process().await;
    third.see(CHANGED);
    assert_eq!(third.refuses("a b c"), "a c");
    assert_eq!(third.group.changes().tools["a"].parts, ["description"], "as the second one saw it");
    assert_eq!(world.approve(None), Ok(2));
    let fourth = world.process().await;
    fourth.see(CHANGED);
    assert_eq!(fourth.refuses("a b c"), "");
}

/// What another client is shown.
const OTHER: &[(&str, &str)] = &[("a", "3"), ("b", "1")];

#[tokio::test]
async fn clients_that_are_shown_different_definitions_take_no_approval_from_each_other() {
    let world = World::new();
    let first = world.process().await;
    first.see_and_write(FIRST).await;
    let second = world.process().await;
    second.see_and_write(CHANGED).await;
    assert_eq!(second.refuses("a b c"), "a c");
    assert_eq!(world.approve(None), Ok(2));
    second.synchronize().await;
    for process in [&first, &second, &world.process().await] {
        for shown in [FIRST, CHANGED, FIRST] {
            process.see_and_write(shown).await;
            assert_eq!(process.refuses("a b c"), "", "{shown:?}");
        }
        process.see_and_write(OTHER).await;
        assert_eq!(process.refuses("a b c"), "a", "nobody approved this one");
        process.see_and_write(FIRST).await;
    }
    assert_eq!(world.approve(None), Err(ApproveError::NotApproved(NotApproved::NothingChanged)));
}

#[tokio::test]
async fn what_one_client_waits_for_can_be_approved_whatever_others_see() {
    let world = World::new();
    world.process().await.see_and_write(FIRST).await;
    let (second, third) = (world.process().await, world.process().await);
    second.see_and_write(CHANGED).await;
    third.see_and_write(OTHER).await;
    // One approval is about one definition of a tool, the one that was seen last.
    assert_eq!(world.approve(None), Ok(2));
    third.synchronize().await;
    assert_eq!(third.refuses("a b c"), "");
    second.synchronize().await;
    assert_eq!(second.refuses("a b c"), "a");
    second.synchronize().await;
    // A client that sees what was approved takes nothing away from one that still waits, or not for long.
    world.process().await.see_and_write(FIRST).await;
    assert_eq!(world.approve(Some("a")), Err(ApproveError::NotApproved(NotApproved::ToolNotChanged)));
    second.synchronize().await;
    second.synchronize().await;
    assert_eq!(world.approve(Some("a")), Ok(1));
    second.synchronize().await;
    assert_eq!(second.refuses("a b c"), "");
    assert_eq!(second.synchronize().await, [], "there is nothing more to write or to wait for");
    let fourth = world.process().await;
    for shown in [FIRST, CHANGED, OTHER] {
        fourth.see(shown);
        assert_eq!(fourth.refuses("a b c"), "", "{shown:?}");
    }
}

#[tokio::test]
async fn equal_names_in_two_configs_do_not_meet_and_another_command_is_another_server() {
    let world = World::new();
    let process = world.process().await;
    process.see_and_write(FIRST).await;
    let other_config = world.process_of(&world.server("b.json", "x", true)).await;
    other_config.see(CHANGED);
    assert_eq!(other_config.refuses("a b c"), "");
    let other_command = world.process_of(&world.server("a.json", "y", true)).await;
    other_command.see_and_write(CHANGED).await;
    assert_eq!(other_command.refuses("a b c"), "");
    assert!(other_command.group.changes().replaced_s.is_some(), "get_status says so");
    let later = world.process_of(&world.server("a.json", "y", true)).await;
    later.see(CHANGED);
    assert!(later.group.changes().replaced_s.is_some());
}

#[tokio::test]
async fn the_layout_of_the_config_is_not_part_of_the_server() {
    let world = World::new();
    world.process().await.see_and_write(FIRST).await;
    let path = world.dir.path().join("a.json");
    std::fs::write(
        &path,
        r#"{"mcpServers": {"g": {
            "args": [
                "${HOME}", // A comment.
            ],
            "env": {"TOKEN": "rotated"},
            "command": "x", "pin_tools": true}}}"#,
    )
    .unwrap();
    let config = load(&[path], &Env::new([("HOME", "/other")], "/"), &Overrides::default());
    let process = world.process_of(config.servers[0].1.as_ref().unwrap()).await;
    process.see(CHANGED);
    assert_eq!(process.refuses("a b c"), "a c");
}

#[tokio::test]
async fn a_group_that_is_not_pinned_trusts_new_tools_and_remembers_the_first_definitions() {
    let world = World::new();
    let process = world.process_of(&world.server("a.json", "x", false)).await;
    process.see_and_write(FIRST).await;
    process.see_and_write(CHANGED).await;
    assert_eq!(process.group.changes().tools.keys().collect::<Vec<_>>(), ["a"]);
    assert!(!process.group.is_refusing(), "nothing is refused, so nobody looks for approvals");
    process.group.set_pinned(true);
    assert!(process.group.is_refusing());
    assert_eq!(process.refuses("a b c"), "a");
}

#[cfg(unix)]
#[tokio::test]
async fn a_record_that_cannot_be_trusted_refuses_everything_and_is_not_overwritten() {
    use std::os::unix::fs::PermissionsExt;
    let world = World::new();
    world.process().await.see_and_write(FIRST).await;
    let path = world.record();
    let good = std::fs::read(&path).unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&path), mode(&world.state())), (0o600, 0o700));
    let elsewhere = world.dir.path().join("elsewhere.json");
    std::fs::write(&elsewhere, &good).unwrap();
    let break_it: [(&str, &dyn Fn()); 5] = [
        ("damaged", &|| std::fs::write(&path, &good[..good.len() / 2]).unwrap()),
        ("of another version", &|| {
            std::fs::write(&path, String::from_utf8_lossy(&good).replace("\"version\": 1", "\"version\": 9"))
                .unwrap();
        }),
        ("a link", &|| std::os::unix::fs::symlink(&elsewhere, &path).unwrap()),
        ("a FIFO", &|| nix::unistd::mkfifo(&path, nix::sys::stat::Mode::from_bits_truncate(0o600)).unwrap()),
        ("writable by others", &|| {
            std::fs::write(&path, &good).unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o622)).unwrap();
        }),
    ];
    for (what, break_it) in break_it {
        std::fs::remove_file(&path).unwrap();
        break_it();
        let process = world.process().await;
        process.see_and_write(FIRST).await;
        let refused = process.refused();
        assert!(process.group.is_refusing(), "{what}");
        let Some(WhyRefused::Unreadable(why)) = refused.why("a") else {
            panic!("a record that is {what} is trusted: {:?}", refused.why("a"))
        };
        assert!(why.contains("cannot be used") && why.contains(&path.display().to_string()), "{what}: {why}");
        assert!(matches!(world.approve(None), Err(ApproveError::File(_))), "{what}");
        let broken_again = world.process().await;
        assert_eq!(broken_again.refuses("a"), "a", "{what}: it was not overwritten");
        // Deleting it is the remedy.
        std::fs::remove_file(&path).unwrap();
        process.synchronize().await;
        assert_eq!(process.refuses("a b"), "", "{what}");
        assert!(path.is_file(), "{what}: what was seen meanwhile is written");
    }
}

#[tokio::test]
async fn only_records_of_deleted_configs_are_forgotten_when_there_are_many() {
    let world = World::new();
    world.process().await.see_and_write(FIRST).await;
    let record = std::fs::read_to_string(world.record()).unwrap();
    let deleted = record.replace("a.json", "deleted.json");
    for n in 0..500 {
        let path = world.state().join(format!("{n}.json"));
        base::private_files::replace(&path, deleted.as_bytes(), false).unwrap();
    }
    world.process_of(&world.server("b.json", "x", true)).await.see_and_write(FIRST).await;
    let left = std::fs::read_dir(world.state()).unwrap().count();
    assert_eq!(left, 3, "two records and the lock");
    let process = world.process().await;
    process.see(CHANGED);
    assert_eq!(process.refuses("a b c"), "a c");
}

#[tokio::test]
async fn a_name_that_a_catalog_has_twice_is_one_tool_that_any_of_them_changes() {
    let world = World::new();
    let process = world.process().await;
    process.see_and_write(&[("a", "1"), ("a", "2")]).await;
    process.see_and_write(&[("a", "1"), ("a", "2")]).await;
    assert_eq!(process.refuses("a"), "");
    for changed in [[("a", "1"), ("a", "3")], [("a", "3"), ("a", "2")]] {
        process.see_and_write(&changed).await;
        assert_eq!(process.refuses("a"), "a", "{changed:?}");
    }
    assert_eq!(world.approve(Some("a")), Ok(1));
    process.synchronize().await;
    assert_eq!(process.refuses("a"), "");
}

#[tokio::test]
async fn what_cannot_be_written_is_remembered_while_the_process_lives() {
    let world = World::new();
    // A file where the directory should be.
    std::fs::write(world.dir.path().join("state"), "").unwrap();
    let process = world.process().await;
    // The file cannot be read either, which is no reason to refuse: it cannot exist.
    process.see_and_write(FIRST).await;
    process.see_and_write(CHANGED).await;
    assert_eq!(process.refuses("a b c"), "a c");
    std::fs::remove_file(world.dir.path().join("state")).unwrap();
    process.synchronize().await;
    let next = world.process().await;
    next.see(CHANGED);
    assert_eq!(next.refuses("a b c"), "a c", "it was written as soon as that was possible");
}

#[tokio::test]
async fn a_file_that_is_deleted_does_not_make_a_running_process_trust_a_change() {
    let world = World::new();
    let process = world.process().await;
    process.see_and_write(FIRST).await;
    std::fs::remove_file(world.record()).unwrap();
    process.see_and_write(CHANGED).await;
    assert_eq!(process.refuses("a b c"), "a c");
    let next = world.process().await;
    next.see(CHANGED);
    assert_eq!(next.refuses("a b c"), "a c");
}

#[tokio::test]
async fn without_a_directory_changes_are_noticed_while_the_process_lives() {
    let world = World::new();
    let server = world.server("a.json", "x", true);
    let store = PinStore::new(None);
    let name = GroupName::new("g");
    let group = store.group(&name, &server);
    store.load(std::slice::from_ref(&group)).await;
    let process = Process { group, store };
    process.see_and_write(FIRST).await;
    process.see_and_write(CHANGED).await;
    assert_eq!(process.refuses("a b c"), "a c");
}

#[tokio::test]
async fn nothing_is_approved_that_was_not_seen() {
    let world = World::new();
    assert_eq!(world.approve(None), Err(ApproveError::NothingKnown));
    let process = world.process().await;
    process.see_and_write(FIRST).await;
    assert_eq!(world.approve(None), Err(ApproveError::NotApproved(NotApproved::NothingChanged)));
    process.see_and_write(CHANGED).await;
    process.see(&[("a", "3"), ("b", "1")]);
    assert_eq!(world.approve(Some("a")), Ok(1));
    process.synchronize().await;
    assert_eq!(process.refuses("a"), "a", "another change came after the one that was approved");
}

/// Returns the lines of the log that this writes.
fn log_of(work: impl FnOnce()) -> String {
    // Without a global subscriber, another thread that logs at this moment could turn the events off for all.
    drop(tracing::subscriber::set_global_default(tracing_subscriber::registry()));
    let (mut reader, writer) = std::io::pipe().unwrap();
    let log = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.try_clone().unwrap());
    tracing::subscriber::with_default(log.finish(), work);
    let mut lines = String::new();
    std::io::Read::read_to_string(&mut reader, &mut lines).unwrap();
    lines
}

#[tokio::test]
async fn the_log_has_each_change_once() {
    let world = World::new();
    let process = world.process().await;
    process.see(FIRST);
    let first = log_of(|| process.see(CHANGED));
    for tool in ["\"a\" of group g changed: description", "\"c\" of group g changed: new"] {
        assert!(first.contains(&format!("tool {tool}; it is refused until it is approved")), "{first}");
    }
    assert_eq!(log_of(|| process.see(CHANGED)), "");
    let second = log_of(|| process.see(&[("a", "2"), ("b", "2"), ("c", "1")]));
    assert!(second.contains("tool \"b\"") && second.lines().count() == 1, "{second}");
    process.see_and_write(CHANGED).await;
    let next = world.process().await;
    assert_eq!(
        log_of(|| next.see(CHANGED)).lines().count(),
        2,
        "what is refused is worth a line at each start"
    );
}

#[tokio::test]
async fn the_log_has_a_change_that_is_not_refused_at_the_first_start_only() {
    let world = World::new();
    let server = world.server("a.json", "x", false);
    let process = world.process_of(&server).await;
    process.see(FIRST);
    let first = log_of(|| process.see(CHANGED));
    assert!(first.ends_with("tool \"a\" of group g changed: description\n"), "{first}");
    assert_eq!(log_of(|| process.see(FIRST)), "");
    assert_eq!(log_of(|| process.see(CHANGED)), "");
    process.synchronize().await;
    let next = world.process_of(&server).await;
    assert_eq!(log_of(|| next.see(CHANGED)), "");
    let other = log_of(|| next.see(&[("a", "2"), ("b", "2")]));
    assert!(other.contains("tool \"b\"") && other.lines().count() == 1, "{other}");
}

#[tokio::test]
async fn the_log_says_once_that_another_server_is_trusted_and_that_a_record_cannot_be_used() {
    let world = World::new();
    let process = world.process().await;
    assert_eq!(log_of(|| process.see(FIRST)), "");
    process.see_and_write(FIRST).await;
    let other = world.process_of(&world.server("a.json", "y", true)).await;
    let lines = log_of(|| other.see(FIRST));
    assert!(lines.contains("group g is another one than before") && lines.lines().count() == 1, "{lines}");
    assert_eq!(log_of(|| other.see(CHANGED)).matches("another one").count(), 0);
    let problem = |why: &str| Err(why.to_owned());
    assert!(log_of(|| process.group.set_record(problem("no"))).contains("the tools of group g: no"));
    assert_eq!(log_of(|| process.group.set_record(problem("no"))), "");
    assert!(log_of(|| process.group.set_record(problem("gone"))).contains("the tools of group g: gone"));
}

#[tokio::test]
async fn the_log_names_no_more_tools_than_fit() {
    let process = World::new().process().await;
    let names: Vec<String> = (0..60).map(|n| format!("t{n}")).collect();
    process.see(&names.iter().map(|name| (name.as_str(), "1")).collect::<Vec<_>>());
    let lines = log_of(|| process.see(&names.iter().map(|name| (name.as_str(), "2")).collect::<Vec<_>>()));
    assert_eq!(lines.matches("changed: description").count(), 50);
    assert!(lines.ends_with("10 more tools of group g changed\n"), "{lines}");
}

#[tokio::test]
async fn a_catalog_of_the_cache_is_compared_and_not_remembered() {
    let world = World::new();
    let process = world.process().await;
    process.see_and_write(FIRST).await;
    let digest = DefinitionDigest::of(b"{}");
    process.group.observe_cached([("a", &digest)].into_iter());
    assert_eq!(process.refuses("a b"), "a");
    process.synchronize().await;
    assert_eq!(world.approve(None), Err(ApproveError::NotApproved(NotApproved::NothingChanged)));
}

#[tokio::test]
async fn who_watches_the_store_is_woken_by_what_is_seen_and_by_what_changes() {
    let world = World::new();
    let process = world.process().await;
    let is_touched = || futures_util::FutureExt::now_or_never(process.store.touched()).is_some();
    assert!(!is_touched());
    process.see(FIRST);
    assert!(is_touched() && !is_touched());
    process.synchronize().await;
    process.group.set_pinned(true);
    assert!(!is_touched(), "it was pinned");
    process.group.set_pinned(false);
    assert!(is_touched() && !is_touched());
    process.see(CHANGED);
    process.synchronize().await;
    assert!(is_touched());
    process.synchronize().await;
    assert!(process.group.next_job().is_some(), "an approval is awaited");
    world.approve(None).unwrap();
    process.synchronize().await;
    assert!(process.group.next_job().is_none());
}

#[tokio::test]
async fn the_record_of_a_group_has_the_tools_of_its_server_only() {
    let world = World::new();
    let process = world.process().await;
    process.see_and_write(FIRST).await;
    process.see_and_write(CHANGED).await;
    let server = world.server("a.json", "x", true);
    let remembered = |server: &ServerConfig| remembered_tools(&world.state(), &GroupName::new("g"), server);
    assert_eq!(remembered(&server), ["a", "b", "c"].map(str::to_owned).into());
    assert!(remembered(&world.server("a.json", "y", true)).is_empty());
}

#[tokio::test]
async fn a_running_process_hears_that_another_server_was_approved() {
    let world = World::new();
    world.process().await.see_and_write(FIRST).await;
    let server = world.server("a.json", "y", true);
    let process = world.process_of(&server).await;
    process.see_and_write(CHANGED).await;
    assert!(process.group.changes().replaced_s.is_some());
    assert_eq!(approve(&world.state(), &GroupName::new("g"), &server, None, false), Ok(Vec::new()));
    process.synchronize().await;
    assert_eq!(process.group.changes().replaced_s, None);
}

#[cfg(unix)]
#[tokio::test]
async fn a_directory_that_cannot_be_read_refuses_everything() {
    let world = World::new();
    std::fs::create_dir(world.dir.path().join("state")).unwrap();
    std::os::unix::fs::symlink(world.state(), world.state()).unwrap();
    let process = world.process().await;
    process.see(FIRST);
    assert_eq!(process.refuses("a b"), "a b");
    assert!(process.group.is_refusing());
}
