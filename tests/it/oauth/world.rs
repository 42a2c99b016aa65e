//! A user with a config, a place for logins, and a browser.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::authority::Authority;
use crate::remote::tls;
use crate::support::{NO_BUS, Proxy, Setup, servers, with};

pub(crate) struct World {
    pub(crate) authority: Authority,
    pub(crate) home: TempDir,
    config: Value,
    /// Variables of whatever is started.
    pub(crate) env: Vec<(&'static str, String)>,
    /// What the browser trusts.
    trusted: rustls::RootCertStore,
}

pub(crate) struct Outcome {
    pub(crate) code: i32,
    pub(crate) said: String,
}

/// A login that waits for the browser.
pub(crate) struct Waiting {
    child: Child,
    stdout: BufReader<std::process::ChildStdout>,
    pub(crate) url: String,
    said: String,
    trusted: rustls::RootCertStore,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(json!({}))
    }

    /// With this in the server's `oauth`.
    pub(crate) fn with(oauth: Value) -> Self {
        let authority = Authority::start();
        let server = json!({"url": authority.url(), "oauth": oauth});
        Self::of(authority, TempDir::new().unwrap(), server, rustls::RootCertStore::empty())
    }

    fn of(authority: Authority, home: TempDir, server: Value, trusted: rustls::RootCertStore) -> Self {
        let config = servers([("g", server)]);
        let mut world = Self { authority, home, config, env: Vec::new(), trusted };
        // Without a bus there is none on Linux; on macOS everybody has one.
        world.settings(json!({"keyring": cfg!(not(target_os = "macos"))}));
        world
    }

    /// By TLS, with a certificate that `ca_file` and the browser trust.
    pub(crate) fn tls() -> Self {
        let (certificate, pem) = tls::private_ca();
        let authority = Authority::on(Some(Arc::new(certificate)));
        let home = TempDir::new().unwrap();
        let file = home.path().join("ca.pem");
        std::fs::write(&file, &pem).unwrap();
        let mut trusted = rustls::RootCertStore::empty();
        trusted.add(CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()).unwrap();
        let server = json!({"url": authority.url(), "ca_file": file});
        Self::of(authority, home, server, trusted)
    }

    pub(crate) fn set(&mut self, more: Value) {
        let entry = self.config["mcpServers"]["g"].take();
        self.config["mcpServers"]["g"] = with(entry, more);
    }

    pub(crate) fn settings(&mut self, more: Value) {
        let settings = self.config["settings"].take();
        self.config["settings"] = with(settings, more);
    }

    pub(crate) fn config(&self) -> &Value {
        &self.config
    }

    fn setup(&self) -> Setup {
        let home = self.home.path().to_str().unwrap();
        let setup = self.env.iter().fold(Setup::new(), |setup, (name, value)| setup.env(name, value));
        setup.env("XDG_DATA_HOME", home).args(&["--log-level", "trace"]).config(&self.config)
    }

    pub(crate) fn proxy(&self) -> Proxy {
        self.setup().ready()
    }

    /// For a client that makes no handshake.
    pub(crate) fn stateless_proxy(&self) -> Proxy {
        self.setup().start()
    }

    /// For a client that has this capability of elicitation.
    pub(crate) fn asking_proxy(&self, elicitation: Value) -> Proxy {
        let mut proxy = self.setup().start();
        proxy.handshake_with(json!({"elicitation": elicitation}));
        proxy
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let config = self.home.path().join("servers.json");
        std::fs::write(&config, self.config.to_string()).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_dynamic-mcp"));
        command.env_clear().env("DBUS_SESSION_BUS_ADDRESS", NO_BUS).envs(self.env.iter().cloned());
        command.env("HOME", self.home.path()).env("XDG_DATA_HOME", self.home.path());
        command.env("DYNAMIC_MCP_LOG", "trace,rmcp=trace,rmcp::transport::auth=trace").args(args);
        command.arg("--config").arg(config);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// A browser that writes down what it is given, and where.
    pub(crate) fn browser(&self) -> (PathBuf, PathBuf) {
        let (seen, browser) = (self.home.path().join("seen"), self.home.path().join("browser"));
        let script =
            format!("#!/bin/sh\nprintf '%s\\n' \"$#\" \"$1\" > {}.part\nmv {0}.part {0}\n", seen.display());
        std::fs::write(&browser, script).unwrap();
        std::fs::set_permissions(&browser, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        (seen, browser)
    }

    pub(crate) fn run(&self, args: &[&str]) -> Outcome {
        let output = self.command(args).output().unwrap();
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        shows_no_secret(&said);
        Outcome { code: output.status.code().unwrap(), said }
    }

    /// Begins a login, up to the URL.
    pub(crate) fn begin(&self) -> Waiting {
        let mut child = self.command(&["login", "g", "--no-browser"]).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let (mut said, mut url) = (String::new(), String::new());
        while url.is_empty() && stdout.read_line(&mut said).unwrap() > 0 {
            url = said.lines().last().filter(|line| line.starts_with("http")).unwrap_or_default().to_owned();
        }
        Waiting { child, stdout, url, said, trusted: self.trusted.clone() }
    }

    /// Logs in, as a person does.
    pub(crate) fn login(&self) -> Outcome {
        let waiting = self.begin();
        if !waiting.url.is_empty() {
            waiting.visit();
        }
        waiting.ends()
    }

    pub(crate) fn logged_in(&self) {
        let outcome = self.login();
        assert_eq!(outcome.code, 0, "{}", outcome.said);
    }

    /// The files of logins.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let dir = self.home.path().join("dynamic-mcp/logins");
        let files =
            std::fs::read_dir(dir).map(|dir| dir.map(|entry| entry.unwrap().path()).collect::<Vec<_>>());
        files
            .unwrap_or_default()
            .into_iter()
            .filter(|path| path.extension().is_some_and(|e| e == "json"))
            .collect()
    }

    /// The one login that is kept.
    pub(crate) fn kept(&self) -> Value {
        let files = self.files();
        assert_eq!(files.len(), 1);
        serde_json::from_slice(&std::fs::read(&files[0]).unwrap()).unwrap()
    }
}

impl Waiting {
    /// The browser follows the URL, and what it is sent on to. Returns what it shows.
    pub(crate) fn visit(&self) -> String {
        let back = self.back();
        get(&back).1
    }

    /// Where the authorization server sends the browser.
    pub(crate) fn back(&self) -> String {
        match self.url.strip_prefix("https://") {
            Some(url) => location(&get_securely(url, &self.trusted).0),
            None => back(&self.url),
        }
    }

    pub(crate) fn parameter(&self, name: &str) -> Option<String> {
        super::authority::parameters(self.url.split_once('?')?.1).remove(name)
    }

    pub(crate) fn interrupt(&self) {
        let pid = nix::unistd::Pid::from_raw(self.child.id().cast_signed());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
    }

    pub(crate) fn ends(mut self) -> Outcome {
        self.stdout.read_to_string(&mut self.said).unwrap();
        self.child.stderr.take().unwrap().read_to_string(&mut self.said).unwrap();
        let code = self.child.wait().unwrap().code().unwrap();
        let secrets =
            ["access", "refresh", "code", "secret", "id", "word"].map(|kind| format!("s3cret-{kind}"));
        assert!(!secrets.iter().any(|secret| self.said.contains(secret)), "{}", self.said);
        Outcome { code, said: self.said }
    }
}

/// The client's id is none, and is in the URL that is to be opened.
fn shows_no_secret(said: &str) {
    let secrets = ["access", "refresh", "code", "secret", "id", "word"].map(|kind| format!("s3cret-{kind}"));
    assert!(!secrets.iter().any(|secret| said.contains(secret)), "{said}");
}

/// The browser opens a login's URL and follows it back to us. What it then shows.
pub(crate) fn visit(url: &str) -> String {
    get(&back(url)).1
}

/// Where the authorization server sends a browser that opens this.
pub(crate) fn back(url: &str) -> String {
    location(&get(url).0)
}

fn location(head: &str) -> String {
    let location = head.lines().find_map(|line| line.strip_prefix("Location: "));
    location.unwrap_or_else(|| panic!("no redirect: {head}")).to_owned()
}

/// What a browser gets: head and body.
pub(crate) fn get(url: &str) -> (String, String) {
    let (host, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    get_as(host, host, path)
}

fn get_securely(url: &str, trusted: &rustls::RootCertStore) -> (String, String) {
    let (address, path) = url.split_once('/').unwrap();
    let stream = TcpStream::connect(address).unwrap();
    let host = stream.peer_addr().unwrap().ip().into();
    let config =
        rustls::ClientConfig::builder().with_root_certificates(trusted.clone()).with_no_client_auth();
    let connection = rustls::ClientConnection::new(Arc::new(config), host).unwrap();
    ask(rustls::StreamOwned::new(connection, stream), address, path)
}

/// The same of a page that has another name for the host.
pub(crate) fn get_as(address: &str, host: &str, path: &str) -> (String, String) {
    ask(TcpStream::connect(address).unwrap(), host, path)
}

fn ask(mut stream: impl Read + Write, host: &str, path: &str) -> (String, String) {
    write!(stream, "GET /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    let mut stream = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0);
    while stream.read_line(&mut head).unwrap_or_default() > 2 {
        let line = head.lines().last().unwrap_or_default().to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    (head, String::from_utf8(body).unwrap())
}
