//! No secret of a client's file is printed, wherever it stands there.

use serde_json::json;

use super::{Home, stderr, stdout};

#[test]
fn secrets_are_printed_by_no_import_wherever_they_stand() {
    let pem = "-----BEGIN PRIVATE KEY-----\ns3cretMIIE\n-----END PRIVATE KEY-----\n";
    let account = json!({"type": "service_account", "private_key": pem}).to_string();
    let servers = json!({
        "json": {"command": "npx", "args": ["-y", "a", "--config", r#"{"apiKey": "s3cret-json"}"#]},
        "path": {"url": "https://hooks.example.com/mcp/s3cret8f3k29dj4k2l1m9/sse?profile=work"},
        "header": {"command": "npx", "args": ["b", "--header", "Authorization:Bearer s3cret-h", "-H", "X-Api-Key:s3cret-x"]},
        "env": {"command": "docker", "args": ["run", "--env=API_TOKEN=s3cret-e", "-e", "DB_PASSWORD=s3cret", "img"]},
        "shell": {"command": "sh", "args": ["-c", "TOKEN=s3cret-sh exec server"]},
        "pem": {"command": "p", "env": {"SIGNING": pem, "GOOGLE": account}},
        "azure": {"command": "z", "args": ["AccountName=a;AccountKey=s3cret/key==;EndpointSuffix=core"]},
        "plural": {"command": "q", "env": {"API_KEYS": "s3cret-1,s3cret-2"}},
        "shown": {"command": "m", "args": ["--max-tokens", "4096"], "env": {"MODEL": "claude-3-5-sonnet-20241022"}},
    });
    let home = Home::of(&[(".cursor/mcp.json", json!({"mcpServers": servers}))]);
    let runs: [&[&str]; 4] = [
        &["--dry-run", "--details"],
        &["--dry-run", "--write-client", "--details"],
        &["--yes", "--write-client"],
        &["--undo", "--dry-run", "--details"],
    ];
    for args in runs {
        let output = home.import(args);
        let printed = stdout(&output) + &stderr(&output);
        assert!(output.status.success() && !printed.contains("s3cret"), "{args:?}: {printed}");
        assert!(printed.contains("•••") && printed.contains("--max-tokens"), "{args:?}: {printed}");
    }
    assert!(home.file(".cursor/mcp.json").exists());
}
