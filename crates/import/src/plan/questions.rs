//! What an import asks before it shows what it would do: which value counts where clients differ, and which servers and
//! tools each client may use.

use std::io;

use serde_json::{Map, Value};

use crate::ask::Answers;
use crate::merge::differences::{FieldDifference, prefer};
use crate::merge::discover::Discovery;
use crate::merge::{Merger, PlannedServer};
use crate::mode::ImportMode;
use crate::profiles::access::{ClientAccess, share_rules};
use crate::profiles::client_profiles::{ClientProfiles, ProfileInput};
use base::text;

/// Asks what becomes of the entries of one server that differ, for each such server.
///
/// # Errors
///
/// Fails if a question is not answered.
pub(super) async fn settle_differences(merger: &mut Merger, answers: Answers) -> io::Result<()> {
    for index in 0..merger.servers.len() {
        let server = &merger.servers[index];
        let mut differences = FieldDifference::all(server);
        differences.retain(|difference| server.is_known || !difference.is_settled());
        let differences: Vec<_> = differences.iter().map(FieldDifference::describe).collect();
        if differences.is_empty() {
            continue;
        }
        let mut labels: Vec<(&str, Option<usize>)> = Vec::new();
        if server.is_known {
            labels.push(("those of servers.json", None));
        }
        for (place, origin) in server.origins.iter().enumerate().filter(|_| !server.is_known) {
            if labels.iter().all(|(label, _)| *label != origin.app.label) {
                labels.push((origin.app.label, Some(place)));
            }
        }
        let question = format!(
            "The entries of {} differ: {}. Which values count?",
            text::name(&server.name),
            differences.join("; ")
        );
        let apart = "each client keeps its own";
        let options: Vec<_> = labels.iter().map(|(label, _)| *label).chain([apart]).collect();
        match labels.get(answers.choose(&question, &options).await?) {
            Some((_, Some(place))) if *place > 0 => prefer(&mut merger.servers[index], *place),
            Some(_) => {}
            None => merger.keep_apart(index),
        }
    }
    Ok(())
}

/// Decides, and asks, which servers and tools each client may use.
///
/// # Errors
///
/// Fails if a question is not answered.
pub(super) async fn settle_access(
    discovery: &Discovery,
    servers: &mut [PlannedServer],
    existing: &Map<String, Value>,
    mode: &ImportMode<'_>,
) -> io::Result<ClientProfiles> {
    let mut not_carried = Vec::new();
    let mut clients = ClientAccess::collect(discovery, servers, existing, &mut not_carried);
    share_rules(servers, &mut clients);
    let mut input = ProfileInput {
        discovery,
        servers,
        clients: &clients,
        existing,
        keeps_apart: true,
        write_client: mode.args.write_client,
        named: if mode.is_named() { mode.apps } else { &[] },
    };
    let counts = input.differing_clients();
    if mode.args.write_client && !counts.is_empty() {
        let question = format!(
            "The clients have different servers: {}. Which of them does each see with dynamic-mcp?",
            counts.join(", ")
        );
        input.keeps_apart = mode.answers.choose(&question, &["those that it has", "all"]).await? == 0;
    }
    let mut profiles = input.profiles();
    profiles.not_carried.extend(not_carried);
    Ok(profiles)
}
