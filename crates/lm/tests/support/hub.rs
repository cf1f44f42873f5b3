//! A hub on this machine: a model's files, the answers that the Hugging Face hub gives about them, and beside
//! it the server that stores large files.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

/// The commit of the model `org/tiny`.
pub(crate) const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
/// The name of the content of its weights.
pub(crate) const WEIGHTS: &str = "5a3e";

/// A running hub; its threads end with the process.
pub(crate) struct Hub {
    pub(crate) endpoint: String,
    shared: Arc<Shared>,
}

/// A request that came.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    /// Whether the server of large files got it.
    pub(crate) stored: bool,
    /// Method and path.
    pub(crate) line: String,
    /// Headers by their names in lower case.
    pub(crate) headers: BTreeMap<String, String>,
}

struct Shared {
    files: BTreeMap<String, Vec<u8>>,
    /// Address of the server of large files.
    store: String,
    requests: Mutex<Vec<Request>>,
    limits: Mutex<Limits>,
}

/// Bytes of large files after which connections are cut.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) in_a_connection: usize,
    pub(crate) in_all: usize,
}

impl Limits {
    pub(crate) const NONE: Self = Self { in_a_connection: usize::MAX, in_all: usize::MAX };
}

impl Hub {
    /// Serves these files as `org/tiny`; `model.safetensors` is a large one.
    pub(crate) fn start(files: BTreeMap<String, Vec<u8>>) -> Self {
        let listen = || TcpListener::bind("127.0.0.1:0").unwrap();
        let address = |l: &TcpListener| format!("http://{}", l.local_addr().unwrap());
        let (hub, store) = (listen(), listen());
        let endpoint = address(&hub);
        let shared = Arc::new(Shared {
            files,
            store: address(&store),
            requests: Mutex::default(),
            limits: Mutex::new(Limits::NONE),
        });
        for (listener, stored) in [(hub, false), (store, true)] {
            let shared = shared.clone();
            thread::spawn(move || {
                for stream in listener.incoming() {
                    // Who stops listening in the middle is no matter of the server's.
                    let _ = shared.serve(stream.unwrap(), stored);
                }
            });
        }
        Self { endpoint, shared }
    }

    /// Cuts connections from now on.
    pub(crate) fn limit(&self, limits: Limits) {
        *self.shared.limits.lock().unwrap() = limits;
    }

    /// The requests since the last call.
    pub(crate) fn requests(&self) -> Vec<Request> {
        std::mem::take(&mut *self.shared.requests.lock().unwrap())
    }
}

impl Shared {
    fn serve(&self, stream: TcpStream, stored: bool) -> std::io::Result<()> {
        let mut lines = BufReader::new(stream.try_clone()?).lines();
        let line = lines.next().unwrap_or_else(|| Ok(String::new()))?;
        let mut headers = BTreeMap::new();
        for line in lines {
            let line = line?;
            let Some((name, value)) = line.split_once(": ") else { break };
            headers.insert(name.to_lowercase(), value.to_owned());
        }
        let line = line.trim_end_matches(" HTTP/1.1").to_owned();
        let request = Request { stored, line, headers };
        self.requests.lock().unwrap().push(request.clone());
        let (method, path) = request.line.split_once(' ').unwrap_or_default();
        match stored {
            true => self.large(stream, path, request.headers.get("range")),
            false => self.answer(stream, method, path),
        }
    }

    /// What the hub says.
    fn answer(&self, stream: TcpStream, method: &str, path: &str) -> std::io::Result<()> {
        let none =
            |status, code: &str| (status, vec![("X-Error-Code", code.to_owned())], Vec::new());
        let files = format!("/org/tiny/resolve/{COMMIT}/");
        let (status, headers, body) = if path == "/api/models/org/tiny/revision/main" {
            ("200 OK", vec![], self.listing())
        } else if path.starts_with("/api/models/org/tiny/") {
            none("404 Not Found", "RevisionNotFound")
        } else if path.starts_with("/api/models/org/gated/") {
            none("403 Forbidden", "GatedRepo")
        } else if path.starts_with("/api/models/org/broken/") {
            none("503 Service Unavailable", "")
        } else if path == format!("{files}model.safetensors") {
            let size = self.files["model.safetensors"].len();
            let headers = vec![
                ("Location", format!("{}/model.safetensors?signature=1", self.store)),
                ("X-Repo-Commit", COMMIT.to_owned()),
                ("X-Linked-Etag", format!("\"{WEIGHTS}\"")),
                ("X-Linked-Size", size.to_string()),
                ("ETag", "\"of the pointer\"".to_owned()),
            ];
            ("302 Found", headers, b"see there".to_vec())
        } else if let Some(file) = path.strip_prefix(&files) {
            let location = format!("/cached/{file}?etag=1");
            ("307 Temporary Redirect", vec![("Location", location)], b"see there".to_vec())
        } else if let Some(file) = path.strip_prefix("/cached/") {
            let file = file.trim_end_matches("?etag=1");
            let etag = format!("W/\"of-{file}\"");
            let headers = vec![("X-Repo-Commit", COMMIT.to_owned()), ("ETag", etag)];
            ("200 OK", headers, self.files[file].clone())
        } else {
            // So the hub answers about models that it does not have.
            none("401 Unauthorized", "RepoNotFound")
        };
        write_head(&stream, status, &headers, body.len())?;
        if method == "HEAD" { Ok(()) } else { (&stream).write_all(&body) }
    }

    fn listing(&self) -> Vec<u8> {
        let siblings: Vec<_> =
            self.files.keys().map(|file| serde_json::json!({"rfilename": file})).collect();
        serde_json::json!({"id": "org/tiny", "sha": COMMIT, "siblings": siblings})
            .to_string()
            .into()
    }

    /// A large file, up to the limits.
    fn large(&self, stream: TcpStream, path: &str, range: Option<&String>) -> std::io::Result<()> {
        let name = path.trim_start_matches('/').trim_end_matches("?signature=1");
        let file = &self.files[name];
        let start =
            range.and_then(|range| range.strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok());
        let rest = &file[start.unwrap_or(0)..];
        let count = {
            let mut limits = self.limits.lock().unwrap();
            let count = rest.len().min(limits.in_a_connection).min(limits.in_all);
            limits.in_all -= count;
            count
        };
        let (status, headers) = match start {
            None => ("200 OK", vec![]),
            Some(start) => {
                let range = format!("bytes {start}-{}/{}", file.len() - 1, file.len());
                ("206 Partial Content", vec![("Content-Range", range)])
            }
        };
        write_head(&stream, status, &headers, rest.len())?;
        (&stream).write_all(&rest[..count])
    }
}

fn write_head(
    mut stream: &TcpStream,
    status: &str,
    headers: &[(&str, String)],
    length: usize,
) -> std::io::Result<()> {
    let headers: String =
        headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let head = format!(
        "HTTP/1.1 {status}\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes())
}
