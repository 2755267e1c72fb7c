//! A real browser without a window, driven through chromedriver on this machine.
#![allow(clippy::print_stdout, reason = "tests say what they skip")]
#![allow(dead_code)] // not each program of tests does everything

use fantoccini::actions::{InputSource, KeyAction, KeyActions};
use fantoccini::error::CmdError;
use fantoccini::wd::WebDriverCompatibleCommand;
use fantoccini::{Client, ClientBuilder, Locator};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// How long a command may take; a machine may be busy with other tests.
const PATIENCE: Duration = Duration::from_secs(180);

/// A browser with one page; ended when it is dropped.
pub struct Browser {
    client: Option<Client>,
    runtime: Runtime,
    _driver: Driver,
    _profile: TempDir,
}

impl Browser {
    /// A browser, or `None` where there is none, which is told.
    pub fn start() -> Option<Browser> {
        let there = |program: &str| {
            let run = Command::new(program).arg("--version").output();
            run.is_ok_and(|run| run.status.success())
        };
        for program in ["chromedriver", "chromium"] {
            if !there(program) {
                println!("skipped: there is no {program} to open the page with");
                return None;
            }
        }
        let driver = Driver::start();
        let profile = tempfile::tempdir().unwrap();
        let mut args: Vec<String> = [
            "headless",
            "no-sandbox",
            "disable-gpu",
            "disable-quic",
            "no-first-run",
            "disable-background-networking",
            "disable-component-update",
            "disable-sync",
            "disable-dev-shm-usage",
            "hide-scrollbars",
        ]
        .map(|arg| format!("--{arg}"))
        .to_vec();
        args.push(format!("--user-data-dir={}", profile.path().display()));
        let capabilities = json!({
            "browserName": "chrome",
            "goog:chromeOptions": {"args": args},
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let client = runtime.block_on(async {
            let mut builder = ClientBuilder::new(HttpConnector::new());
            builder.capabilities(capabilities.as_object().unwrap().clone());
            builder.connect(&format!("http://127.0.0.1:{}", driver.port)).await.unwrap()
        });
        Some(Browser { client: Some(client), runtime, _driver: driver, _profile: profile })
    }

    /// Opens a file.
    pub fn open(&self, file: &Path) {
        let url = url(file);
        self.run(|client| async move { client.goto(&url).await });
    }

    /// What a function body gives.
    pub fn js(&self, body: &str) -> Value {
        self.js_with(body, json!([]))
    }

    /// The same, with arguments.
    pub fn js_with(&self, body: &str, args: Value) -> Value {
        let Value::Array(args) = args else { panic!("{args}") };
        let body = body.to_owned();
        self.run(|client| async move { client.execute(&body, args).await })
    }

    /// Text that a function body gives.
    pub fn text(&self, body: &str) -> String {
        let value = self.js(body);
        value.as_str().unwrap_or_else(|| panic!("{body}: {value}")).to_owned()
    }

    /// Texts that a function body gives.
    pub fn texts(&self, body: &str) -> Vec<String> {
        let value = self.js(body);
        let all = value.as_array().unwrap_or_else(|| panic!("{body}: {value}"));
        all.iter().map(|v| v.as_str().unwrap().to_owned()).collect()
    }

    /// Clicks what a selector finds, as a pointer does: what lies under something else cannot be clicked.
    pub fn click(&self, selector: &str) {
        let selector = selector.to_owned();
        self.run(|client| async move {
            let found = client.find(Locator::Css(&selector)).await?;
            // What a page keeps at its top would lie over what is brought just into view.
            let centre = "arguments[0].scrollIntoView({block: 'center'})";
            client.execute(centre, vec![serde_json::to_value(&found)?]).await?;
            found.click().await
        });
    }

    /// Presses keys, one after the other, wherever the focus is.
    pub fn keys(&self, keys: &str) {
        let press = |value| [KeyAction::Down { value }, KeyAction::Up { value }];
        let actions = keys.chars().flat_map(press).fold(KeyActions::new("keys".into()), InputSource::then);
        self.run(|client| async move { client.perform_actions(actions).await });
    }

    /// A command of the browser's own.
    pub fn devtools(&self, command: &str, params: Value) -> Value {
        self.issue("goog/cdp/execute", json!({"cmd": command, "params": params}))
    }

    /// So wide a page, as one who prefers light or dark sees it, on a screen or on paper.
    pub fn look(&self, width: u32, dark: bool, media: &str) {
        let metrics = json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false});
        self.devtools("Emulation.setDeviceMetricsOverride", metrics);
        let scheme = if dark { "dark" } else { "light" };
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.devtools("Emulation.setEmulatedMedia", json!({"media": media, "features": features}));
    }

    /// What the console was told since it was last asked.
    pub fn console(&self) -> Vec<String> {
        let log = self.issue("se/log", json!({"type": "browser"}));
        log.as_array().unwrap().iter().map(|entry| entry["message"].to_string()).collect()
    }

    /// What was asked for over any network, or from the disk, since it was last asked.
    pub fn requests(&self) -> Vec<String> {
        let log = self.issue("se/log", json!({"type": "performance"}));
        let events = log.as_array().unwrap().iter().map(|entry| {
            let event: Value = serde_json::from_str(entry["message"].as_str().unwrap()).unwrap();
            event["message"].clone()
        });
        let sent = events.filter(|event| event["method"] == "Network.requestWillBeSent");
        // The page that a browser starts with is its own.
        let own =
            |event: &Value| event["params"]["documentURL"].as_str().is_some_and(|u| u.starts_with("chrome:"));
        let sent = sent.filter(|event| !own(event));
        sent.map(|event| event["params"]["request"]["url"].as_str().unwrap().to_owned()).collect()
    }

    /// A command of chromedriver's own.
    fn issue(&self, endpoint: &'static str, body: Value) -> Value {
        self.run(|client| async move { client.issue_cmd(Own { endpoint, body }).await })
    }

    #[track_caller]
    fn run<T, F: Future<Output = Result<T, CmdError>>>(&self, command: impl FnOnce(Client) -> F) -> T {
        let client = self.client.clone().unwrap();
        let answer = async { tokio::time::timeout(PATIENCE, command(client)).await };
        self.runtime.block_on(answer).expect("the browser answers in time").unwrap()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Ends the browser; what drives it ends with its own drop.
        if let Some(client) = self.client.take() {
            let _ = self.runtime.block_on(client.close());
        }
    }
}

/// A command that is in no standard.
#[derive(Debug)]
struct Own {
    endpoint: &'static str,
    body: Value,
}

impl WebDriverCompatibleCommand for Own {
    fn endpoint(&self, base: &url::Url, session: Option<&str>) -> Result<url::Url, url::ParseError> {
        base.join(&format!("session/{}/{}", session.unwrap_or_default(), self.endpoint))
    }

    fn method_and_body(&self, _: &url::Url) -> (http::Method, Option<String>) {
        (http::Method::POST, Some(self.body.to_string()))
    }
}

/// A chromedriver that is ready; ended when it is dropped.
struct Driver {
    process: Child,
    port: u16,
}

impl Driver {
    fn start() -> Driver {
        let mut process = Command::new("chromedriver")
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let port = port_of(&mut process);
        Driver { process, port }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The address of a file.
pub fn url(file: &Path) -> String {
    format!("file://{}", file.canonicalize().unwrap().display())
}

/// The port that the driver chose, which it tells when it is ready.
fn port_of(driver: &mut Child) -> u16 {
    let told = BufReader::new(driver.stdout.take().unwrap());
    for line in told.lines() {
        let line = line.unwrap();
        if let Some((_, port)) = line.split_once("started successfully on port ") {
            return port.trim_end_matches('.').parse().unwrap();
        }
    }
    panic!("chromedriver ended before it was ready");
}
