//! Requests to the HTTP address of a broker (`levada.http.listen`), with its token.

use std::env;
use std::fs;
use std::path::Path;

use levada_terminal::failure::Failure;

/// Environment variable of the token; the broker reads the same one.
const TOKEN: &str = "LEVADA_HTTP_TOKEN";

/// Longest wait for a response, in seconds.
const TIMEOUT_SECONDS: u64 = 5;

const UNAUTHORIZED: u16 = 401;

/// HTTP address of a broker, and its `levada.http.token` if it requires one.
pub(crate) struct Address<'a> {
    address: &'a str,
    token: Option<String>,
}

/// Response of a broker.
pub(crate) struct Answer {
    pub(crate) url: String,
    pub(crate) status: u16,
    pub(crate) text: String,
}

impl<'a> Address<'a> {
    /// The address with the token of this file, or otherwise of the environment.
    pub(crate) fn new(address: &'a str, token_file: Option<&Path>) -> Result<Self, Failure> {
        let given = env::var(TOKEN).ok().filter(|token| !token.is_empty());
        Ok(Self { address, token: token_file.map(read).transpose()?.or(given) })
    }

    /// `HOST:PORT`.
    pub(crate) fn shown(&self) -> &str {
        self.address
    }

    /// Requests a page. Fails if the broker does not respond, or refuses the token.
    pub(crate) fn get(&self, path: &str) -> Result<Answer, Failure> {
        let url = format!("http://{}{path}", self.address);
        let mut request = minreq::get(&url).with_timeout(TIMEOUT_SECONDS);
        if let Some(token) = &self.token {
            request = request.with_header("Authorization", format!("Bearer {token}"));
        }
        let failed = |why: String| {
            let next = "start a broker, or name its levada.http.listen with --http";
            Failure::with_next(format!("cannot read {url}: {why}"), next)
        };
        let answer = request.send().map_err(|error| failed(error.to_string()))?;
        if answer.status_code == UNAUTHORIZED {
            return Err(self.refused(&url));
        }
        let text = answer.as_str().map_err(|error| failed(error.to_string()))?.to_owned();
        Ok(Answer { url, status: answer.status_code, text })
    }

    fn refused(&self, url: &str) -> Failure {
        let what = match self.token {
            Some(_) => "the broker does not accept this token",
            None => "the broker requires its levada.http.token",
        };
        let next = format!("--http-token-file FILE, or {TOKEN} in the environment");
        Failure::with_next(format!("cannot read {url}: {what} (status {UNAUTHORIZED})"), next)
    }
}

fn read(path: &Path) -> Result<String, Failure> {
    let wrong = |what: String| Failure::Usage(format!("--http-token-file {}: {what}", path.display()));
    let text = fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    match text.trim() {
        "" => Err(wrong("the file is empty".to_owned())),
        // A header has one line.
        token if token.contains(char::is_control) => Err(wrong("expected a token on one line".to_owned())),
        token => Ok(token.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::io::Write as _;
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    /// Answers one request as a broker with the token `s3cret`; returns its address.
    fn guarded() -> (String, thread::JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let served = thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                socket.read_exact(&mut byte).unwrap();
                request.push(byte[0]);
            }
            let status = if String::from_utf8(request).unwrap().contains("Bearer s3cret\r\n") {
                "200 OK"
            } else {
                "401 Unauthorized"
            };
            write!(socket, "HTTP/1.1 {status}\r\nContent-Length: 3\r\n\r\nok\n").unwrap();
        });
        (address, served)
    }

    #[test]
    fn http_request_sends_token_or_explains_option() {
        fn check(token: Option<&str>, expected: Result<&str, &str>) {
            let (address, served) = guarded();
            let target = Address { address: &address, token: token.map(str::to_owned) };
            match (target.get("/healthz"), expected) {
                (Ok(answer), Ok(text)) => assert_eq!((answer.status, answer.text.as_str()), (200, text)),
                (Err(failure), Err(what)) => {
                    let shown = format!("{failure:?}");
                    assert!(shown.contains(what) && shown.contains("--http-token-file"), "{shown}");
                    assert!(!shown.contains("planted"), "{shown}");
                }
                (found, expected) => panic!("{:?} instead of {expected:?}", found.map(|one| one.text)),
            }
            served.join().unwrap();
        }
        check(Some("s3cret"), Ok("ok\n"));
        check(None, Err("requires its levada.http.token (status 401)"));
        check(Some("planted"), Err("does not accept this token (status 401)"));
    }

    #[test]
    fn a_token_file_holds_one_line() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        let check = |text: &str, expected: Option<&str>| {
            fs::write(&path, text).unwrap();
            assert_eq!(read(&path).ok().as_deref(), expected, "{text:?}");
        };
        check("s3cret\n", Some("s3cret"));
        check("\n", None);
        check("a\nb\n", None);
        read(Path::new("/nowhere")).unwrap_err();
    }
}
