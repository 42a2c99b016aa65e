//! Logins at remote servers, through the built program; the test is the browser.

use serde_json::json;

use crate::support::until;
use world::{World, get};

mod attacks;
mod authority;
mod keyring;
mod offers;
mod real;
mod renewals;
mod world;

#[test]
fn a_group_that_needs_a_login_says_how_and_works_after_it() {
    let world = World::new();
    let mut proxy = world.proxy();
    let failure = proxy.failure("g", "echo", json!({}));
    assert!(failure.contains("dynamic-mcp login g"), "{failure}");
    let before = world.authority.server.requests_of("initialize").len();
    let group = proxy.group("g");
    assert!(group.to_string().contains("dynamic-mcp login g"), "{group}");

    let waiting = world.begin();
    let (head, page) = get(&waiting.back());
    assert!(head.starts_with("HTTP/1.1 200 ") && page.contains("You are logged in"), "{head}{page}");
    assert!(head.contains("Content-Security-Policy: default-src 'none'"), "{head}");
    let outcome = waiting.ends();
    assert_eq!(outcome.code, 0, "{}", outcome.said);
    assert!(outcome.said.contains("g: logged in (read)"), "{}", outcome.said);

    // Nobody retried meanwhile, and the running instance finds the login by itself.
    assert_eq!(world.authority.server.requests_of("initialize").len(), before);
    until("the login is used", || proxy.call("g", "echo", json!({"text": "in"}))["isError"] != true);
    assert_eq!(proxy.text("g", "echo", json!({"text": "in"})), "in");
    let all = proxy.log() + &proxy.status().to_string();
    assert!(!all.contains("s3cret-"), "{all}");
}

#[test]
fn groups_that_connect_by_themselves_do_so_after_a_login_in_another_process() {
    for mode in ["eager", "hybrid"] {
        let mut world = World::new();
        world.set(json!({"lazy_startup": mode}));
        let mut proxy = world.proxy();
        until("it says that it needs a login", || {
            proxy.group("g")["error"].as_str().is_some_and(|error| error.contains("dynamic-mcp login g"))
        });
        let before = world.authority.server.requests_of("initialize").len();
        world.logged_in();
        // Nobody names the group.
        until("it has connected", || proxy.group("g")["tools"] == 2);
        assert_eq!(proxy.group("g")["error"], json!(null));
        assert!(world.authority.server.requests_of("initialize").len() > before);
        proxy.until_logged("somebody logged in, connecting");
    }
}

#[test]
fn a_group_that_waits_for_a_login_asks_its_server_nothing_meanwhile() {
    let mut world = World::new();
    world.set(json!({"lazy_startup": "eager"}));
    // A login that was over before the group first tried with it. It is looked at every two seconds.
    world.authority.state().grant = json!({"refresh_token": null});
    world.logged_in();
    world.authority.state().revoke_all();
    let hour_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
    std::fs::File::options().write(true).open(&world.files()[0]).unwrap().set_modified(hour_ago).unwrap();
    let mut proxy = world.proxy();
    let attempts = |proxy: &mut crate::support::Proxy| proxy.status()["groups"][0]["attempts"].clone();
    until("it has failed", || attempts(&mut proxy) == 1);
    let asked = world.authority.server.requests().len();
    let begin = tokio::time::Instant::now();
    while begin.elapsed() < std::time::Duration::from_secs(5) {
        assert_eq!(attempts(&mut proxy), 1);
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    assert_eq!(world.authority.server.requests().len(), asked);
}

#[test]
fn the_status_says_how_to_log_in_and_where_the_url_is() {
    let world = World::new();
    let mut proxy = world.proxy();
    proxy.failure("g", "echo", json!({}));
    let answer = proxy.front("get_status", json!({}));
    let structured = &answer["structuredContent"]["groups"][0]["error"];
    for said in [crate::support::text_of(&answer), structured.as_str().unwrap()] {
        assert!(said.contains("login needed: run `dynamic-mcp login g`"), "{said}");
        assert!(said.contains("with `--no-browser` it shows the URL"), "{said}");
    }
    // What it says is so.
    let waiting = world.begin();
    assert!(waiting.url.starts_with(&world.authority.server.origin), "{}", waiting.url);
    waiting.visit();
    assert_eq!(waiting.ends().code, 0);
}

#[test]
fn a_stateless_server_that_wants_a_login_says_so_too() {
    let world = World::new();
    world.authority.state().is_stateless = true;
    let failure = world.proxy().failure("g", "echo", json!({}));
    assert!(failure.contains("dynamic-mcp login g"), "{failure}");
}

#[test]
fn what_is_asked_for_is_what_the_specification_has() {
    let world = World::new();
    let waiting = world.begin();
    let of = |name| waiting.parameter(name).unwrap_or_default();
    assert_eq!((of("response_type"), of("code_challenge_method")), ("code".into(), "S256".into()));
    assert_eq!((of("resource"), of("scope")), (world.authority.url(), "read".into()));
    assert!(of("redirect_uri").starts_with("http://127.0.0.1:") && of("redirect_uri").ends_with("/callback"));
    assert!(of("state").len() >= 22, "128 bits: {}", of("state"));
    assert_eq!(of("code_challenge").len(), 43);
    waiting.visit();
    assert_eq!(waiting.ends().code, 0);
    let register = world.authority.server.requests().into_iter().find(|r| r.path == "/as/register").unwrap();
    assert_eq!(register.body["application_type"], "native");
    assert_eq!(register.body["token_endpoint_auth_method"], "none");
    let token = world.authority.grants("authorization_code").remove(0);
    assert_eq!(token["resource"], world.authority.url());
}

#[test]
fn a_login_is_kept_for_its_owner_alone_with_what_a_refresh_needs() {
    let world = World::new();
    world.authority.state().gives_secret = true;
    world.logged_in();
    let kept = world.kept();
    assert_eq!(kept["url"], json!(world.authority.url()));
    assert_eq!(kept["issuer"], json!(format!("{}/as", world.authority.server.origin)));
    assert!(kept["client_secret"].as_str().unwrap().starts_with("s3cret-secret"));
    assert!(!kept.to_string().contains("s3cret-id"), "what is not needed is not kept");
    let mode = |path: &std::path::Path| {
        std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(path).unwrap().permissions()) & 0o777
    };
    let file = &world.files()[0];
    assert_eq!((mode(file), mode(file.parent().unwrap())), (0o600, 0o700));
}

#[test]
fn a_registered_client_and_its_port_are_used_as_they_are() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let world = World::with(json!({
        "client_id": "me", "client_secret": "s3cret-word", "scopes": ["a", "b"], "redirect_port": free,
    }));
    world.authority.state().metadata =
        json!({"registration_endpoint": null, "scopes_supported": ["a", "offline_access"]});
    let waiting = world.begin();
    assert_eq!(waiting.parameter("client_id").as_deref(), Some("me"));
    assert_eq!(waiting.parameter("scope").as_deref(), Some("a b offline_access"));
    assert_eq!(waiting.parameter("redirect_uri").unwrap(), format!("http://127.0.0.1:{free}/callback"));

    let second = world.run(&["login", "g", "--no-browser"]);
    assert_eq!(second.code, 1);
    assert!(second.said.contains(&format!("{free} (`oauth.redirect_port`)")), "{}", second.said);
    assert!(second.said.contains("if another login waits there"), "{}", second.said);
    waiting.visit();
    assert_eq!(waiting.ends().code, 0);
    let token = world.authority.server.requests().into_iter().find(|r| r.path == "/as/token").unwrap();
    assert!(token.header("authorization").starts_with("Basic "));
}

#[test]
fn a_published_document_is_preferred_to_a_registration() {
    let document = "https://client.example/dynamic-mcp.json";
    let world = World::with(json!({"client_metadata_url": document}));
    world.authority.state().metadata = json!({"client_id_metadata_document_supported": true});
    let waiting = world.begin();
    assert_eq!(waiting.parameter("client_id").as_deref(), Some(document));
    waiting.visit();
    assert_eq!(waiting.ends().code, 0);
    assert!(world.authority.forms("/as/register").is_empty());
}

#[test]
fn without_a_way_to_register_it_says_what_to_do() {
    let world = World::new();
    world.authority.state().metadata = json!({"registration_endpoint": null});
    let outcome = world.login();
    assert_eq!(outcome.code, 1);
    assert!(outcome.said.contains("`oauth.client_id`"), "{}", outcome.said);
}

#[test]
fn a_login_ends_without_the_browser_too() {
    let world = World::new();
    let outcome = world.run(&["login", "g", "--no-browser", "--timeout", "0"]);
    assert_eq!(outcome.code, 3);
    assert!(outcome.said.contains("in time"), "{}", outcome.said);

    let waiting = world.begin();
    waiting.interrupt();
    let outcome = waiting.ends();
    assert_eq!(outcome.code, 3);
    assert!(outcome.said.contains("cancelled"), "{}", outcome.said);
    assert!(world.files().is_empty());
}

#[test]
fn exit_codes_say_what_is_wrong() {
    let mut world = World::new();
    assert_eq!(world.run(&["login", "h"]).code, 2);
    assert!(world.run(&["login", "h"]).said.contains("the config has g"));
    world.set(json!({"headers": {"Authorization": "x"}}));
    assert_eq!(world.run(&["login", "g"]).code, 2);
    world.set(json!({"headers": {}, "url": "http://127.0.0.1:1/mcp"}));
    assert_eq!(world.run(&["login", "g"]).code, 4);
    world.set(json!({"url": "nothing"}));
    assert_eq!(world.run(&["login", "g"]).code, 78);
}

#[test]
fn a_refusal_by_the_person_is_told() {
    let world = World::new();
    world.authority.state().returns =
        json!({"code": null, "error": "access_denied", "error_description": "<b>no</b>\u{1b}[31m"});
    let waiting = world.begin();
    let page = waiting.visit();
    assert!(page.contains("did not work") && !page.contains("access_denied"), "{page}");
    let outcome = waiting.ends();
    assert_eq!(outcome.code, 1);
    assert!(outcome.said.contains("access_denied") && !outcome.said.contains('\u{1b}'), "{}", outcome.said);
    assert!(world.files().is_empty());
}

#[test]
fn a_logout_revokes_and_forgets() {
    let world = World::new();
    world.authority.state().gives_secret = true;
    world.logged_in();
    assert_eq!(world.authority.state().live(), 2);
    let outcome = world.run(&["logout", "g"]);
    assert_eq!(outcome.code, 0);
    assert!(outcome.said.contains("revoked"), "{}", outcome.said);
    assert_eq!(world.authority.state().live(), 0);
    assert!(world.files().is_empty());
    assert!(world.run(&["logout", "g"]).said.contains("there was no login"));

    world.logged_in();
    world.authority.state().metadata = json!({"revocation_endpoint": null});
    let outcome = world.run(&["logout", "g"]);
    assert!(outcome.said.contains("could not be revoked"), "{}", outcome.said);
    assert!(world.files().is_empty());
}

#[test]
fn the_browser_is_started_with_the_url_as_one_argument() {
    let world = World::new();
    let (seen, browser) = (world.home.path().join("seen"), world.home.path().join("browser"));
    let script =
        format!("#!/bin/sh\nprintf '%s\\n' \"$#\" \"$1\" > {}.part\nmv {0}.part {0}\n", seen.display());
    std::fs::write(&browser, script).unwrap();
    std::fs::set_permissions(&browser, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut command = world.command(&["login", "g", "--timeout", "2"]);
    let ends = command.env("BROWSER", &browser).env("PATH", "/usr/bin:/bin").output().unwrap();
    assert_eq!(ends.status.code(), Some(3));
    until("the browser was started", || seen.exists());
    let seen = std::fs::read_to_string(seen).unwrap();
    let (count, url) = seen.trim().split_once('\n').unwrap();
    assert_eq!(count, "1");
    assert!(url.starts_with(&format!("{}/as/authorize?", world.authority.server.origin)), "{url}");
}

#[test]
fn a_server_that_wants_no_login_is_left_alone() {
    let server =
        crate::remote::Server::start(|request| match (request.path.as_str(), request.method.as_str()) {
            ("/mcp", "GET") => Some(crate::remote::Reply::events(|out| {
                out.keep_open();
                true
            })),
            ("/mcp", _) => None,
            _ => Some(crate::remote::Reply::status(404)),
        });
    let mut world = World::new();
    world.set(json!({"url": server.url()}));
    let outcome = world.run(&["login", "g"]);
    assert_eq!(outcome.code, 0);
    assert!(outcome.said.contains("without a login"), "{}", outcome.said);
}

#[test]
fn a_server_of_2025_03_26_without_metadata_is_logged_in_to_at_its_root() {
    let world = World::new();
    {
        let mut state = world.authority.state();
        (state.is_old, state.challenge, state.returns) =
            (true, Some("Bearer".to_owned()), json!({"iss": null}));
    }
    let waiting = world.begin();
    assert!(
        waiting.url.starts_with(&format!("{}/authorize?", world.authority.server.origin)),
        "{}",
        waiting.url
    );
    assert!(waiting.parameter("code_challenge").is_some(), "PKCE is used in any case");
    waiting.visit();
    assert_eq!(waiting.ends().code, 0);
    assert_eq!(world.proxy().text("g", "echo", json!({"text": "in"})), "in");
}
