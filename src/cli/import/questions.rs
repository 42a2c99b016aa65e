//! What an import asks before it shows what it would do: which value counts where clients differ, and which servers and
//! tools each client may use.

use std::io;

use serde_json::{Map, Value};

use super::access::{ClientAccess, share_rules};
use super::ask::Answers;
use super::client_profiles::{ClientProfiles, ProfileInput};
use super::discover::Discovery;
use super::merge::PlannedServer;
use super::mode::ImportMode;
use base::text;

/// Asks which value counts where clients differ.
pub(super) async fn resolve_conflicts(servers: &mut [PlannedServer], answers: Answers) -> io::Result<()> {
    for server in servers.iter_mut().filter(|server| !server.is_known) {
        let first = server.origins.first().map_or("", |origin| origin.app.label());
        for (index, conflict) in server.conflicts.clone().into_iter().enumerate() {
            let field = conflict.path.join(".");
            let question = format!("{}: {field} differs. Take that of", text::name(&server.name));
            if answers.choose(&question, &[first, conflict.app.label()]).await? == 1 {
                server.take_other(index);
            }
        }
    }
    Ok(())
}

/// Decides, and asks, which servers and tools each client may use.
pub(super) async fn settle_access(
    discovery: &Discovery,
    servers: &mut [PlannedServer],
    existing: &Map<String, Value>,
    mode: &ImportMode,
) -> io::Result<ClientProfiles> {
    let mut not_carried = Vec::new();
    let mut clients = ClientAccess::collect(discovery, servers, existing, &mut not_carried);
    for client in &mut clients {
        client.settle_questions(discovery, servers, mode.answers).await?;
    }
    share_rules(servers, &mut clients);
    let mut input = ProfileInput {
        discovery,
        servers,
        clients: &clients,
        existing,
        keeps_apart: true,
        write_client: mode.write_client,
    };
    let counts = input.differing_clients();
    if mode.write_client && !counts.is_empty() {
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
