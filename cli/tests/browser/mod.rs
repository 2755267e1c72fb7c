//! A real browser without a window, driven as WebDriver says: JSON over HTTP to a chromedriver on this machine. The
//! whole of it that is needed here is shorter than what a client crate would add to every build.
#![allow(clippy::print_stdout, reason = "tests say what they skip")]

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// How long a command may take; a machine may be busy with other tests.
const PATIENCE: Duration = Duration::from_secs(180);

/// A browser with one page; ended when it is dropped.
pub struct Browser {
    driver: Child,
    port: u16,
    session: String,
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
        let mut driver = Command::new("chromedriver")
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let port = port_of(&mut driver);
        let profile = tempfile::tempdir().unwrap();
        let mut browser = Browser { driver, port, session: String::new(), _profile: profile };
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
        args.push(format!("--user-data-dir={}", browser._profile.path().display()));
        let capabilities = json!({
            "browserName": "chrome",
            "goog:chromeOptions": {"args": args},
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        });
        let made = browser.send("POST", "/session", &json!({"capabilities": {"alwaysMatch": capabilities}}));
        browser.session = made["sessionId"].as_str().unwrap().to_owned();
        Some(browser)
    }

    /// Opens a file.
    pub fn open(&self, file: &Path) {
        self.to("url", json!({"url": url(file)}));
    }

    /// What a function body gives.
    pub fn js(&self, body: &str) -> Value {
        self.js_with(body, json!([]))
    }

    /// The same, with arguments.
    pub fn js_with(&self, body: &str, args: Value) -> Value {
        self.to("execute/sync", json!({"script": body, "args": args}))
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
        let found = self.to("element", json!({"using": "css selector", "value": selector}));
        let id = found.as_object().unwrap().values().next().unwrap().as_str().unwrap().to_owned();
        // What a page keeps at its top would lie over what is brought just into view.
        self.js_with("arguments[0].scrollIntoView({block: 'center'})", json!([found]));
        self.to(&format!("element/{id}/click"), json!({}));
    }

    /// Presses keys, one after the other, wherever the focus is.
    pub fn keys(&self, keys: &str) {
        let press =
            |key: char| [json!({"type": "keyDown", "value": key}), json!({"type": "keyUp", "value": key})];
        let actions: Vec<Value> = keys.chars().flat_map(press).collect();
        self.to("actions", json!({"actions": [{"type": "key", "id": "keys", "actions": actions}]}));
    }

    /// A command of the browser's own.
    pub fn devtools(&self, command: &str, params: Value) -> Value {
        self.to("goog/cdp/execute", json!({"cmd": command, "params": params}))
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
        let log = self.to("se/log", json!({"type": "browser"}));
        log.as_array().unwrap().iter().map(|entry| entry["message"].to_string()).collect()
    }

    /// What was asked for over any network, or from the disk, since it was last asked.
    pub fn requests(&self) -> Vec<String> {
        let log = self.to("se/log", json!({"type": "performance"}));
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

    fn to(&self, command: &str, body: Value) -> Value {
        self.send("POST", &format!("/session/{}/{command}", self.session), &body)
    }

    fn send(&self, method: &str, path: &str, body: &Value) -> Value {
        self.try_send(method, path, body).unwrap_or_else(|fault| panic!("{method} {path}: {fault}"))
    }

    fn try_send(&self, method: &str, path: &str, body: &Value) -> Result<Value, String> {
        let fault = |error: std::io::Error| error.to_string();
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).map_err(fault)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(fault)?;
        let body = body.to_string();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n",
            self.port,
            body.len()
        );
        stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes())).map_err(fault)?;
        let body = answer_of(&mut BufReader::new(stream)).map_err(fault)?;
        let mut answer: Value = serde_json::from_str(&body).map_err(|error| format!("{error}: {body}"))?;
        let value = answer["value"].take();
        match value["error"].as_str() {
            Some(error) => Err(format!("{error}: {}", value["message"])),
            None => Ok(value),
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Ends the browser, then what drives it.
        let _ = self.try_send("DELETE", &format!("/session/{}", self.session), &json!({}));
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

/// The body of an answer: the driver tells its length, and leaves the connection open.
fn answer_of(from: &mut impl BufRead) -> std::io::Result<String> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        from.read_line(&mut line)?;
        match line.trim_end().split_once(':') {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.trim().parse().map_err(std::io::Error::other)?;
            }
            None if line.trim_end().is_empty() => break,
            _ => {}
        }
    }
    let mut body = vec![0; length];
    from.read_exact(&mut body)?;
    String::from_utf8(body).map_err(std::io::Error::other)
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
