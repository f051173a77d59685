//! A real browser, Debian's Chromium, driven over its DevTools protocol through a pair of pipes.

mod visit;

use std::collections::VecDeque;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use serde_json::{Value, json};
use tempfile::TempDir;

pub use self::visit::Visit;

/// Only a browser that hangs needs as long, on however busy a machine.
const LIMIT: Duration = Duration::from_secs(60);

/// A browser with one page. Dropping it ends all its processes.
pub struct Browser {
    child: Child,
    commands: ChildStdin,
    messages: Receiver<Value>,
    events: VecDeque<Value>,
    session: Option<String>,
    next: u64,
    _profile: TempDir,
}

/// Size and colours of a window.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// Width of the window in CSS pixels.
    pub width: u32,
    /// True if the page gets the preference for dark colours.
    pub dark: bool,
}

impl Browser {
    /// A new browser with an empty profile. `rules` maps host names to addresses, as
    /// `--host-resolver-rules` does.
    pub fn start(rules: &str) -> Self {
        let profile =
            tempfile::Builder::new().prefix("levada-browser-").tempdir().expect("a temporary directory");
        // Chromium reads commands from descriptor 3 and writes to descriptor 4.
        let script = "exec chromium \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>/dev/null";
        let mut command = Command::new("sh");
        command.args([
            "-c",
            script,
            "chromium",
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
        ]);
        command.args(["--remote-debugging-pipe", "--disable-extensions", "--disable-background-networking"]);
        command.arg(format!("--host-resolver-rules={rules}"));
        command.arg(format!("--user-data-dir={}", profile.path().display())).arg("about:blank");
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .expect("the browser is there");
        let commands = child.stdin.take().expect("stdin was asked for");
        let mut answers = BufReader::new(child.stdout.take().expect("stdout was asked for"));
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            let mut message = Vec::new();
            while answers.read_until(0, &mut message).is_ok_and(|bytes| bytes > 0) {
                message.pop();
                let decoded = serde_json::from_slice(&message).expect("DevTools speak JSON");
                if sender.send(decoded).is_err() {
                    return;
                }
                message.clear();
            }
        });
        let mut browser = Self {
            child,
            commands,
            messages,
            events: VecDeque::new(),
            session: None,
            next: 0,
            _profile: profile,
        };
        browser.attach();
        browser
    }

    fn attach(&mut self) {
        let target = self.call("Target.createTarget", &json!({ "url": "about:blank" }));
        let attached =
            self.call("Target.attachToTarget", &json!({ "targetId": target["targetId"], "flatten": true }));
        self.session = Some(attached["sessionId"].as_str().expect("a session").to_string());
        for domain in ["Page.enable", "Runtime.enable", "Log.enable"] {
            self.call(domain, &json!({}));
        }
    }

    /// Calls a method and returns its result; fails the test if the browser answers with an error.
    pub fn call(&mut self, method: &str, parameters: &Value) -> Value {
        let answer = self.try_call(method, parameters);
        assert!(answer.get("error").is_none(), "{method} {parameters}: {answer}");
        answer["result"].clone()
    }

    /// Calls a method of the browser as a whole, which is no method of its page.
    pub fn call_browser(&mut self, method: &str, parameters: &Value) -> Value {
        let session = self.session.take();
        let result = self.call(method, parameters);
        self.session = session;
        result
    }

    /// The value of an expression in another target than the page, such as a frame of another site.
    pub fn eval_in(&mut self, target: &Value, expression: &str) -> Value {
        let attached =
            self.call_browser("Target.attachToTarget", &json!({ "targetId": target, "flatten": true }));
        let session = attached["sessionId"].as_str().expect("a session").to_string();
        let page = self.session.replace(session);
        let value = self.eval(expression);
        self.session = page;
        value
    }

    fn try_call(&mut self, method: &str, parameters: &Value) -> Value {
        self.next += 1;
        let mut message = json!({ "id": self.next, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.commands.write_all(&bytes).expect("the browser runs");
        let wanted = json!(self.next);
        loop {
            let message = self.receive(method);
            if message["id"] == wanted {
                return message;
            }
            self.events.push_back(message);
        }
    }

    fn receive(&mut self, what: &str) -> Value {
        match self.messages.recv_timeout(LIMIT) {
            Ok(message) => message,
            Err(RecvTimeoutError::Timeout) => panic!("still waiting for the browser: {what}"),
            Err(RecvTimeoutError::Disconnected) => panic!("the browser has ended: {what}"),
        }
    }

    /// Goes to an address and waits until the page is loaded; the error of the network, if there is
    /// one.
    pub fn open(&mut self, url: &str) -> Option<String> {
        self.forget_loads();
        let answer = self.call("Page.navigate", &json!({ "url": url }));
        if let Some(error) = answer["errorText"].as_str() {
            return Some(error.to_string());
        }
        self.await_load(url);
        None
    }

    fn forget_loads(&mut self) {
        self.events.retain(|event| event["method"] != "Page.loadEventFired");
    }

    fn await_load(&mut self, what: &str) {
        loop {
            let at = self.events.iter().position(|event| event["method"] == "Page.loadEventFired");
            if let Some(at) = at {
                self.events.remove(at);
                return;
            }
            let message = self.receive(what);
            self.events.push_back(message);
        }
    }

    /// The value of a JavaScript expression, which may be a promise.
    pub fn eval(&mut self, expression: &str) -> Value {
        let parameters = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let answer = self.call("Runtime.evaluate", &parameters);
        assert!(answer.get("exceptionDetails").is_none(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// Evaluates an expression until it is true. The page may be replaced in between.
    pub fn await_true(&mut self, expression: &str) {
        let start = Instant::now();
        let parameters = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        while self.try_call("Runtime.evaluate", &parameters)["result"]["result"]["value"] != json!(true) {
            if start.elapsed() > LIMIT {
                panic!("never true: {expression}\n{}", self.text());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Text of the page.
    pub fn text(&mut self) -> String {
        self.eval("document.body ? document.body.innerText : ''").as_str().unwrap_or_default().to_string()
    }

    /// Clicks the middle of the first element that matches, with the mouse.
    pub fn click(&mut self, selector: &str) {
        let place = self.eval(&format!(
            "(() => {{ const one = document.querySelector({selector:?}); if (!one) return null; \
             one.scrollIntoView({{ block: 'center' }}); const box = one.getBoundingClientRect(); \
             return [box.x + box.width / 2, box.y + box.height / 2]; }})()"
        ));
        assert!(place.is_array(), "nothing to click: {selector}\n{}", self.text());
        for kind in ["mousePressed", "mouseReleased"] {
            let event =
                json!({ "type": kind, "x": place[0], "y": place[1], "button": "left", "clickCount": 1 });
            self.call("Input.dispatchMouseEvent", &event);
        }
    }

    /// Clicks an element that leads to another page, and waits until that page is loaded. The page
    /// that is left is marked, because its own load may be reported only after the click.
    pub fn follow(&mut self, selector: &str) {
        self.eval("window.levadaLeft = true");
        self.click(selector);
        self.await_true("window.levadaLeft !== true && document.readyState === 'complete'");
    }

    /// Types text into the first element that matches, in place of its text.
    pub fn fill(&mut self, selector: &str, text: &str) {
        let found = self.eval(&format!(
            "(() => {{ const one = document.querySelector({selector:?}); if (!one) return false; \
             one.focus(); if (one.select) one.select(); return document.activeElement === one; }})()"
        ));
        assert_eq!(found, json!(true), "nothing to type into: {selector}\n{}", self.text());
        self.call("Input.insertText", &json!({ "text": text }));
    }

    /// Chooses an option of a list.
    pub fn choose(&mut self, selector: &str, value: &str) {
        self.eval(&format!("document.querySelector({selector:?}).value = {value:?}"));
    }

    /// Presses a key, by its name in the DOM.
    pub fn press(&mut self, key: &str, code: u32) {
        let text = if key == "Enter" { "\r" } else { "" };
        for kind in ["keyDown", "keyUp"] {
            let event =
                json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text });
            self.call("Input.dispatchKeyEvent", &event);
        }
    }

    /// Shows pages in this size and these colours from now on.
    pub fn look(&mut self, look: Look) {
        let size = json!({ "width": look.width, "height": 900, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", &size);
        let scheme = if look.dark { "dark" } else { "light" };
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.call("Emulation.setEmulatedMedia", &json!({ "features": features }));
    }

    /// Complaints about the looks of the page: contrast below AA, letters of pictures too small to
    /// read, content wider than the window, below its cell, or hidden without a sign, controls
    /// without a name.
    pub fn inspect(&mut self) -> Value {
        self.eval(include_str!("browser/inspect.js"))
    }

    /// Writes a picture of the whole page to a file.
    pub fn picture(&mut self, path: &Path) {
        let shot = self.call("Page.captureScreenshot", &json!({ "captureBeyondViewport": true }));
        let bytes = base64(shot["data"].as_str().expect("a picture"));
        fs::write(path, bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }

    /// Exceptions of scripts and errors that pages have logged since the last call.
    pub fn complaints(&mut self) -> Vec<String> {
        self.eval("0");
        let events = std::mem::take(&mut self.events);
        let told = events.iter().filter_map(|event| match event["method"].as_str()? {
            "Runtime.exceptionThrown" => Some(event["params"]["exceptionDetails"].to_string()),
            "Log.entryAdded" if event["params"]["entry"]["level"] == "error" => {
                Some(event["params"]["entry"].to_string())
            }
            _ => None,
        });
        told.collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Its helpers are in the group of the process that was started.
        if let Some(group) = Pid::from_raw(self.child.id().cast_signed()) {
            let _ = rustix::process::kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

/// Bytes of a text in Base64.
fn base64(text: &str) -> Vec<u8> {
    let digit = |letter: u8| match letter {
        b'A'..=b'Z' => letter - b'A',
        b'a'..=b'z' => letter - b'a' + 26,
        b'0'..=b'9' => letter - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let digits: Vec<u8> = text.bytes().filter(|letter| *letter != b'=').map(digit).collect();
    let group = |four: &[u8]| {
        let bits =
            four.iter().fold(0_u32, |bits, digit| bits << 6 | u32::from(*digit)) << (6 * (4 - four.len()));
        bits.to_be_bytes()[1..four.len()].to_vec()
    };
    digits.chunks(4).flat_map(group).collect()
}
