//! Several processes change one login at the same time: no refreshed token is lost, and no login of another account is
//! used.

#[cfg(unix)]
use std::fs::{self, File};
use std::time::Duration;

use serde_json::json;

use super::fixture::{CommandOutput, Fixture};
use crate::support::{Proxy, wait_until};

/// How long a refresh is under way: longer than the command that is run meanwhile needs, until it waits for the lock.
const REFRESH_TIME: Duration = Duration::from_secs(3);

/// Runs `command` while `proxy` refreshes the expired login. Returns its output, once the call of the proxy is answered.
fn during_a_refresh(
    fixture: &Fixture,
    proxy: &mut Proxy,
    command: impl Fn(&Fixture) -> CommandOutput,
) -> CommandOutput {
    let requests = fixture.auth_server.token_requests();
    fixture.auth_server.state().token_delay = REFRESH_TIME;
    let call = proxy.send_call("g", "echo", json!({"text": "x"}));
    wait_until("a refresh is under way", || fixture.auth_server.token_requests() > requests);
    fixture.auth_server.state().token_delay = Duration::ZERO;
    fixture.auth_server.state().token_response = json!({});
    let output = command(fixture);
    assert_eq!(output.exit_code, 0, "{}", output.text);
    proxy.response(call);
    assert_eq!(fixture.auth_server.grants("refresh_token").len(), 1);
    assert!(!fixture.auth_server.state().refresh_token_reused);
    output
}

/// The token of the last request to the MCP server.
fn last_token(fixture: &Fixture) -> String {
    let requests = fixture.auth_server.http.requests_of("POST");
    let last = requests.iter().rfind(|request| request.path == "/mcp").unwrap();
    last.header("authorization").trim_start_matches("Bearer ").to_owned()
}

#[test]
fn a_logout_during_a_refresh_ends_the_new_tokens() {
    let fixture = Fixture::new();
    fixture.log_in_with_expired_token();
    let mut proxy = fixture.proxy();
    let output = during_a_refresh(&fixture, &mut proxy, |fixture| fixture.run(&["logout", "g"]));
    assert!(output.text.contains("revoked"), "{}", output.text);
    let (revoked, refresh) =
        (fixture.auth_server.forms("/as/revoke"), fixture.auth_server.grants("refresh_token"));
    assert_eq!(revoked.len(), 2);
    assert_ne!(
        revoked[0]["token"], refresh[0]["refresh_token"],
        "only the token that was used up is revoked"
    );
    assert!(fixture.login_files().is_empty(), "the refresh has brought the login back");
    let failure = proxy.call_failure("g", "echo", json!({}));
    assert!(failure.contains("dynamic-mcp login g"), "{failure}");
}

#[test]
fn a_login_during_a_refresh_is_the_one_that_stays() {
    let fixture = Fixture::new();
    fixture.log_in_with_expired_token();
    let before = fixture.stored_login()["client_id"].clone();
    let mut proxy = fixture.proxy();
    during_a_refresh(&fixture, &mut proxy, Fixture::login);
    let stored = fixture.stored_login();
    assert_ne!(stored["client_id"], before, "the refresh has brought the other login back");
    wait_until("the new login is used", || {
        assert_eq!(proxy.call_text("g", "echo", json!({"text": "x"})), "x");
        last_token(&fixture) == stored["access_token"]
    });
    #[cfg(unix)]
    assert_eq!(
        std::os::unix::fs::MetadataExt::mode(&fs::metadata(&fixture.login_files()[0]).unwrap()) & 0o777,
        0o600
    );
}

/// The clock of a file system has ticks of several milliseconds.
// Windows has finer ones.
#[cfg(unix)]
#[test]
fn a_login_that_is_written_in_the_same_tick_as_another_one_is_used() {
    let fixture = Fixture::new();
    fixture.log_in();
    let mut proxy = fixture.proxy();
    assert_eq!(proxy.call_text("g", "echo", json!({"text": "x"})), "x");
    let old = fixture.stored_login();
    assert_eq!(last_token(&fixture), old["access_token"]);
    let file = fixture.login_files().remove(0);
    let tick = fs::metadata(&file).unwrap().modified().unwrap();
    // The proxy looks at the file when it is called.
    fixture.log_in();
    File::open(&file).unwrap().set_modified(tick).unwrap();
    let new = fixture.stored_login();
    assert_ne!(new["access_token"], old["access_token"]);
    wait_until("the new login is used", || {
        assert_eq!(proxy.call_text("g", "echo", json!({"text": "x"})), "x");
        last_token(&fixture) == new["access_token"]
    });
}
