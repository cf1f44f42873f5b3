//! Models by name: fetched from a hub on this machine by the `mlx-vulkan` program.

mod support;

use std::{
    collections::BTreeMap,
    fs,
    path::PathBuf,
    process::{Command, Output},
};

use serde_json::Value;
use support::{
    case,
    hub::{COMMIT, Hub, Limits, WEIGHTS},
};
use tempfile::TempDir;

/// A hub, a user's folder, and the hub's model in a folder of its own.
struct Place {
    hub: Hub,
    folder: TempDir,
    files: BTreeMap<String, Vec<u8>>,
}

impl Place {
    fn new() -> Self {
        mlx::init();
        let folder = tempfile::tempdir().unwrap();
        let model = folder.path().join("model");
        fs::create_dir(&model).unwrap();
        mlx::with_device(mlx::Device::CPU, || case("qwen3").write(&model)).unwrap();
        let read = |entry: fs::DirEntry| {
            (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())
        };
        let files: BTreeMap<_, _> =
            fs::read_dir(&model).unwrap().map(|entry| read(entry.unwrap())).collect();
        let mut served = files.clone();
        for other in ["README.md", ".gitattributes", "pytorch_model.bin", "onnx/config.json"] {
            served.insert(other.to_owned(), b"of no use".to_vec());
        }
        Self { hub: Hub::start(served), folder, files }
    }

    /// The model's part of the cache.
    fn cache(&self, part: &str) -> PathBuf {
        self.folder.path().join("hf/hub/models--org--tiny").join(part)
    }

    fn run(&self, model: &str, variables: &[(&str, &str)]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mlx-vulkan"));
        command.args(["generate", "--device=cpu", "--json", "--prompt=a", "--max-tokens=4"]);
        command.args(["--model", model]).current_dir(self.folder.path());
        let names = std::env::vars_os().map(|(name, _)| name);
        let foreign = |name: &str| {
            name.starts_with("HF_")
                || name.starts_with("HUGG")
                || name.to_lowercase().ends_with("_proxy")
        };
        for name in names.filter(|name| name.to_str().is_some_and(foreign)) {
            command.env_remove(name);
        }
        command
            .env_remove("MLX_LOG")
            .env("HF_ENDPOINT", &self.hub.endpoint)
            .env("HF_TOKEN", "secret");
        command.env("HF_HOME", self.folder.path().join("hf"));
        command.envs(variables.iter().copied()).output().unwrap()
    }

    /// The generated ids.
    #[track_caller]
    fn ids(&self, model: &str, variables: &[(&str, &str)]) -> Value {
        let output = self.run(model, variables);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{stderr}");
        serde_json::from_slice::<Value>(&output.stdout).unwrap()["ids"].take()
    }

    /// The one line of a refusal.
    #[track_caller]
    fn refusal(&self, model: &str, variables: &[(&str, &str)]) -> String {
        let output = self.run(model, variables);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(
            (output.status.code(), output.stdout.as_slice()),
            (Some(1), &b""[..]),
            "{stderr}"
        );
        let lines: Vec<_> = stderr.lines().filter(|line| !line.starts_with("Device: ")).collect();
        let [line] = lines[..] else { panic!("not one line: {stderr}") };
        line.strip_prefix("error: ").unwrap_or_else(|| panic!("no error: {line}")).to_owned()
    }
}

/// An address where nobody listens.
fn nobody() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

#[test]
fn a_model_is_fetched_once() {
    let place = Place::new();
    let want = place.ids("model", &[]);
    assert_eq!(place.hub.requests().len(), 0, "a path that exists is no name");
    assert_eq!(place.ids("org/tiny", &[]), want);

    let snapshot = place.cache("snapshots").join(COMMIT);
    assert_eq!(fs::read_to_string(place.cache("refs/main")).unwrap(), COMMIT);
    let names =
        fs::read_dir(&snapshot).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    let found: BTreeMap<_, _> =
        names.map(|n| (n.clone(), fs::read(snapshot.join(n)).unwrap())).collect();
    assert_eq!(found, place.files, "what the model needs and nothing else");
    #[cfg(unix)]
    {
        let link = fs::read_link(snapshot.join("model.safetensors")).unwrap();
        assert_eq!(link, PathBuf::from("../../blobs").join(WEIGHTS));
        let blobs = fs::read_dir(place.cache("blobs")).unwrap().map(|e| e.unwrap().file_name());
        assert!(blobs.count() == place.files.len(), "nothing incomplete");
        assert!(place.cache("blobs/of-config.json").exists());
    }

    // The token goes to the hub, and not to where it redirects.
    let requests = place.hub.requests();
    let token = |stored| -> Vec<_> {
        let from = requests.iter().filter(|request| request.stored == stored);
        from.map(|request| request.headers.get("authorization").map(String::as_str)).collect()
    };
    assert_eq!(token(true), [None]);
    assert!(token(false).len() > 4 && token(false).iter().all(|t| *t == Some("Bearer secret")));

    // The second time only the commit is asked for; without network, not even that.
    assert_eq!(place.ids("org/tiny", &[]), want);
    let lines: Vec<_> = place.hub.requests().into_iter().map(|request| request.line).collect();
    assert_eq!(lines, ["GET /api/models/org/tiny/revision/main"]);
    assert_eq!(place.ids("org/tiny", &[("HF_ENDPOINT", &nobody())]), want);
    assert_eq!(place.ids("org/tiny", &[("HF_HUB_OFFLINE", "1")]), want);
    assert_eq!(place.ids(&format!("org/tiny@{COMMIT}"), &[]), want);
    assert_eq!(place.hub.requests().len(), 0);
}

#[test]
fn what_broke_off_is_resumed() {
    let place = Place::new();
    let size = place.files["model.safetensors"].len();
    let (first, piece) = (size / 3, size / 4);
    place.hub.limit(Limits { in_all: first, ..Limits::NONE });
    let message = place.refusal("org/tiny", &[]);
    assert!(
        message.starts_with("org/tiny: model.safetensors: the connection broke ("),
        "{message}"
    );
    assert!(message.ends_with("run it again, which goes on from there"), "{message}");

    // Nobody takes it for whole.
    let part = place.cache("blobs").join(format!("{WEIGHTS}.incomplete"));
    assert_eq!(fs::metadata(&part).unwrap().len() as usize, first);
    assert!(!place.cache("refs/main").exists());
    let message = place.refusal("org/tiny", &[("HF_HUB_OFFLINE", "1")]);
    assert!(message.contains("HF_HUB_OFFLINE is set and "), "{message}");
    place.hub.requests();

    // Connections that break bring it piece by piece.
    place.hub.limit(Limits { in_a_connection: piece, ..Limits::NONE });
    assert_eq!(place.ids("org/tiny", &[]), place.ids("model", &[]));
    let requests = place.hub.requests();
    let stored = requests.iter().filter(|request| request.stored);
    let ranges: Vec<_> = stored.map(|request| request.headers["range"].clone()).collect();
    let want: Vec<_> =
        (first..size).step_by(piece).map(|start| format!("bytes={start}-")).collect();
    assert_eq!(ranges, want);
    assert!(!part.exists());
}

/// A file of another length than the server says, as a crash or another program may leave it.
#[test]
fn a_wrong_beginning_is_thrown_away() {
    let place = Place::new();
    fs::create_dir_all(place.cache("blobs")).unwrap();
    let size = place.files["model.safetensors"].len();
    let part = place.cache("blobs").join(format!("{WEIGHTS}.incomplete"));
    fs::write(part, vec![7; size + 1]).unwrap();
    assert_eq!(place.ids("org/tiny", &[]), place.ids("model", &[]));
}

#[test]
fn refusals_are_one_line_and_leave_nothing() {
    let place = Place::new();
    let (hub, nobody) = (place.hub.endpoint.clone(), nobody());
    let refused = |model: &str, variables: &[_], parts: &[&str]| {
        let message = place.refusal(model, variables);
        for part in parts {
            assert!(message.contains(part), "{part:?} is not in {message:?}");
        }
    };
    let unknown = format!("there is no such path, and {hub} knows no such model");
    refused("org/none", &[], &["org/none: ", &unknown, "not this token"]);
    refused("org/none", &[("HF_TOKEN", "")], &[&unknown, "set HF_TOKEN if it is private"]);
    refused("org/tiny@v2", &[], &[&hub, "knows no revision \"v2\""]);
    refused("org/gated", &[], &["access is restricted: ask for it at ", "/org/gated"]);
    refused("org/broken", &[], &["status 503"]);
    refused("org/tiny", &[("HF_ENDPOINT", &nobody)], &["cannot be reached (", "go online once"]);
    refused("org/tiny", &[("HF_HUB_OFFLINE", "1")], &["HF_HUB_OFFLINE is set", "unset it once"]);
    refused(
        "org/tiny",
        &[("HF_ENDPOINT", "nonsense")],
        &["HF_ENDPOINT: \"nonsense\" is no address"],
    );
    refused("org/tiny.gguf", &[], &["org/tiny.gguf: file: "]);
    assert!(!place.folder.path().join("hf").exists());
}
