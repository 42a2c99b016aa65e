//! The report of `dynamic-mcp status --json`, and the part of it that the client of one instance may see.

use crate::control::{InstanceStatus, query};
use base::clock::unix_time_s;
use base::{blocking, procfs};
use config::env::Env;
use front::session::requester::InstanceReports;
use futures_util::FutureExt;
use process::processes::{self, ProcessTree};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How long reading /proc may take. After that, the report has no instance.
const READ_TIMEOUT: Duration = Duration::from_secs(2);

/// Returns the reports for the client of this process, which reads these config files. It counts as started now.
pub fn client_reports(files: &[PathBuf], env: &Env) -> InstanceReports {
    let (this, env, started) = (InstanceStatus::of_process(files, env), env.clone(), Instant::now());
    Arc::new(move |status, with_others| {
        let own = InstanceStatus { up_s: started.elapsed().as_secs(), status, ..this.clone() };
        let env = with_others.then(|| env.clone());
        client_report(own, env).boxed()
    })
}

/// Reports on the instance of a client, and with the environment `env` on others, as far as the client may see them.
async fn client_report(own: InstanceStatus, env: Option<Env>) -> Value {
    let pid = own.pid;
    let mut instances = vec![own];
    if let Some(env) = env {
        // Without a directory for the endpoints, no other instance can be found.
        let others = query::ask_all(&env).await.unwrap_or_default().answering;
        let others = others.into_iter().map(|other| other.status).filter(|other| other.pid != pid);
        let seen: Vec<_> = others.filter_map(|other| restricted(other, &instances[0])).collect();
        instances.extend(seen);
    }
    let mut report = blocking::run(READ_TIMEOUT, move || report(&instances)).await.unwrap_or_default();
    if let Some(own) = report["instances"].get_mut(0) {
        own["isThis"] = json!(true);
    }
    report
}

/// Returns what the client of the instance `own` may see of another instance: the servers that both have from the same
/// config files, and those that use a process of `own`. `None` if there are none.
fn restricted(mut other: InstanceStatus, own: &InstanceStatus) -> Option<InstanceStatus> {
    let has_same_config = other.config == own.config;
    let mut groups = other.groups().to_vec();
    groups.retain(|group| {
        let is_known = group["group"].as_str().is_some_and(|name| own.group(name).is_some());
        let is_same_process = |known: &Value| known["shared"] == true && known["pid"] == group["pid"];
        is_known && has_same_config || own.groups().iter().any(is_same_process)
    });
    for group in &mut groups {
        // They may name tools that a profile hides.
        group["findings"] = json!([]);
        group["changedTools"] = json!([]);
    }
    let status = json!({ "status": other.status["status"], "groups": groups });
    other.status = status;
    (!other.groups().is_empty()).then_some(other)
}

/// Reports on instances: what each says of itself, with the memory of its processes and what is shared. Reads /proc.
pub fn report(instances: &[InstanceStatus]) -> Value {
    let tree = ProcessTree::read();
    let mut users: BTreeMap<u64, BTreeSet<u32>> = BTreeMap::new();
    for instance in instances {
        for group in instance.groups().iter().filter(|group| group["shared"] == true) {
            users.entry(group["pid"].as_u64().unwrap_or_default()).or_default().insert(instance.pid);
        }
    }
    let (mut saved_processes, mut saved_bytes) = (0, 0);
    for (pid, users) in &users {
        let saved = users.len() as u64 - 1;
        let Ok(pid) = u32::try_from(*pid) else { continue };
        saved_processes += saved * tree.count(pid) as u64;
        saved_bytes += saved * tree.memory(pid).unwrap_or_default();
    }
    let groups = || instances.iter().flat_map(InstanceStatus::groups);
    let saved_by_laziness = saved_by_laziness(groups());
    let instances: Vec<Value> =
        instances.iter().map(|instance| instance_report(instance, &users, &tree)).collect();
    json!({
        "takenAtS": unix_time_s(),
        "instances": instances,
        "notRunning": saved_by_laziness["servers"],
        "savedByLaziness": saved_by_laziness,
        "savedBySharing": {"processes": saved_processes, "bytes": saved_bytes},
    })
}

/// Returns an instance with memory, and with the other instances that use its processes. `users`: the instances that
/// use each shared process.
fn instance_report(
    instance: &InstanceStatus,
    users: &BTreeMap<u64, BTreeSet<u32>>,
    tree: &ProcessTree,
) -> Value {
    let groups = instance.groups().iter().filter(|group| group.is_object());
    let groups: Vec<_> = groups.map(|group| group_report(group, instance.pid, users, tree)).collect();
    let client = processes::parent(instance.pid);
    json!({
        "pid": instance.pid,
        "client": client.and_then(procfs::name),
        "clientPid": client,
        "version": instance.version,
        "upS": instance.up_s,
        "cwd": instance.cwd,
        "config": instance.config,
        "memoryBytes": tree.memory(instance.pid),
        "status": instance.status["status"],
        "error": instance.status["error"],
        "profile": instance.status["profile"],
        "warnings": instance.status["warnings"],
        "tokens": instance.status["tokens"],
        "groups": groups,
        "disabled": instance.status["disabled"],
    })
}

/// Returns a group of the instance `instance`, with the number of its processes, their memory, and the other instances
/// that use its process. `users`: the instances that use each shared process.
fn group_report(
    group: &Value,
    instance: u32,
    users: &BTreeMap<u64, BTreeSet<u32>>,
    tree: &ProcessTree,
) -> Value {
    let (mut group, pid) = (group.clone(), group["pid"].as_u64());
    let process = pid.and_then(|pid| u32::try_from(pid).ok());
    group["processes"] = json!(process.map(|pid| tree.count(pid)));
    group["memoryBytes"] = json!(process.and_then(|pid| tree.memory(pid)));
    let users = pid.and_then(|pid| users.get(&pid)).into_iter().flatten();
    group["sharedWith"] = json!(users.filter(|user| **user != instance).collect::<Vec<_>>());
    group
}

/// Returns the programs that do not run although they could, and the memory that they had when they ran last, where it is
/// known.
fn saved_by_laziness<'a>(groups: impl Iterator<Item = &'a Value>) -> Value {
    let is_saved = |group: &&Value| {
        let is_closed = group["state"] == "pending" || group["state"] == "discovered";
        is_closed && group["isProgram"] == true && group["connecting"] != true
    };
    let groups: Vec<_> = groups.filter(is_saved).collect();
    let bytes: u64 =
        groups.iter().filter_map(|group| group["closedMemoryBytes"].as_u64()).fold(0, u64::saturating_add);
    json!({"servers": groups.len(), "bytes": bytes})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instance(config: &str, groups: Value) -> InstanceStatus {
        InstanceStatus {
            pid: 1,
            version: String::new(),
            up_s: 0,
            cwd: "/secret".to_owned(),
            config: vec![config.to_owned()],
            status: json!({ "groups": groups, "warnings": ["w"], "disabled": ["d"], "error": "e" }),
        }
    }

    #[test]
    fn only_a_program_that_could_run_saves_something() {
        let group = |state: &str, is_program: bool, connecting: bool| json!({"state": state, "isProgram": is_program, "connecting": connecting, "closedMemoryBytes": 5});
        let groups = [
            group("discovered", true, false),
            group("pending", true, false),
            group("pending", true, true),
            group("failed", true, false),
            group("connected", true, false),
            group("discovered", false, false),
        ];
        assert_eq!(saved_by_laziness(groups.iter()), json!({"servers": 2, "bytes": 10}));
    }

    #[test]
    fn a_client_sees_of_other_instances_only_its_own_servers() {
        let group = |name: &str, pid: u32, shared: bool| json!({ "group": name, "pid": pid, "shared": shared, "findings": ["f"] });
        let own = instance("/c", json!([group("a", 1, false), group("s", 2, true)]));
        let names = |other: InstanceStatus| -> Vec<String> {
            restricted(other, &own).iter().flat_map(InstanceStatus::names).collect()
        };
        let groups = json!([group("a", 3, false), group("hidden", 4, false), group("s", 2, true)]);
        assert_eq!(names(instance("/c", groups.clone())), ["a", "s"]);
        assert_eq!(names(instance("/other", groups)), ["s"], "only the process that both use");
        assert_eq!(names(instance("/other", json!([group("a", 1, false)]))), [""; 0]);
        let seen = restricted(instance("/c", json!([group("a", 3, false)])), &own).unwrap();
        assert_eq!(seen.groups()[0]["findings"], json!([]));
        for member in ["warnings", "disabled", "error"] {
            assert_eq!(seen.status[member], Value::Null, "{member}");
        }
    }
}
