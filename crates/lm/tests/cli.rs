//! Bad input to the `mlx-vulkan` program: one line that names file and field, exit code 1, no output, and
//! nothing left behind.

mod support;

use std::{
    collections::BTreeSet,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use mlx::{
    Array,
    io::{Arrays, GgufValue},
};
use serde_json::json;
use support::case;
use tempfile::TempDir;

/// A folder that the program works in.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        mlx::init();
        Place(tempfile::tempdir().unwrap())
    }

    /// With a small model in `model`, a tokenizer of single characters and room for 512 tokens.
    fn with_model() -> Self {
        let place = Self::new();
        std::fs::create_dir(place.path("model")).unwrap();
        mlx::with_device(mlx::Device::CPU, || case("qwen3").write(&place.path("model"))).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> &Self {
        std::fs::write(self.path(name), bytes).unwrap();
        self
    }

    /// A GGUF file with one tensor and only this metadata.
    fn write_gguf(&self, name: &str, metadata: &[(&str, GgufValue)]) -> &Self {
        let tensor = Array::from_slice(&[1f32; 100], &[10, 10]).unwrap();
        let tensors = Arrays::from([("token_embd.weight".to_owned(), tensor)]);
        let metadata = metadata.iter().map(|(key, value)| ((*key).to_owned(), value.clone()));
        mlx::with_device(mlx::Device::CPU, || {
            mlx::io::save_gguf(self.path(name), &tensors, &metadata.collect()).unwrap();
        })
        .unwrap();
        self
    }

    /// All files and folders.
    fn contents(&self) -> BTreeSet<PathBuf> {
        let list = |folder: &Path| {
            std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect::<Vec<_>>()
        };
        let top = list(self.0.path());
        let below = top.iter().filter(|p| p.is_dir()).flat_map(|p| list(p)).collect::<Vec<_>>();
        top.into_iter().chain(below).collect()
    }

    /// What the program says when it refuses these arguments, before it prints anything: without
    /// "error: " and with relative paths.
    #[track_caller]
    fn refusal(&self, arguments: &[&str], input: &[u8]) -> String {
        let (stdout, message) = self.failure(arguments, input);
        assert_eq!(stdout, "", "{message}");
        message
    }

    /// Standard output, and the error without "error: ", of a program that fails.
    #[track_caller]
    fn failure(&self, arguments: &[&str], input: &[u8]) -> (String, String) {
        let before = self.contents();
        let mut child = Command::new(env!("CARGO_BIN_EXE_mlx-vulkan"))
            .args(arguments)
            .current_dir(self.0.path())
            .env_remove("MLX_LOG")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // A program that does not read its input closes it.
        let _ = child.stdin.take().unwrap().write_all(input);
        let output = child.wait_with_output().unwrap();
        let [stdout, stderr] =
            [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert_eq!(self.contents(), before, "{stderr}");
        let lines: Vec<_> = stderr.lines().filter(|l| !l.starts_with("Device: ")).collect();
        let [line] = lines[..] else { panic!("not one line: {stderr}") };
        let error = line.strip_prefix("error: ").unwrap_or_else(|| panic!("no error: {line}"));
        (stdout, error.to_owned())
    }

    #[track_caller]
    fn refused_model(&self, model: &str) -> String {
        self.refusal(&["generate", "--device=cpu", "--json", "--prompt=a", "--model", model], b"")
    }

    #[track_caller]
    fn refused_prompt(&self, prompt: &str, input: &[u8]) -> String {
        let arguments = ["generate", "--device=cpu", "--json", "--model=model", "--prompt", prompt];
        self.refusal(&arguments, input)
    }
}

#[test]
fn files_that_are_no_models() {
    let place = Place::with_model();
    assert!(place.refused_model("none.gguf").starts_with("none.gguf: file: "));
    std::fs::create_dir(place.path("empty")).unwrap();
    assert_eq!(
        place.refused_model("empty"),
        "empty: config.json: missing, and there is no .gguf file either"
    );
    place
        .write("nothing.gguf", "")
        .write("text.gguf", "A model? No, only a text that is long enough.");
    for file in ["nothing.gguf", "text.gguf", "model/model.safetensors", "model/config.json"] {
        let message = place.refused_model(file);
        assert!(message.contains(&format!("{file}: magic: ")), "{message}");
    }
}

#[test]
fn exports_that_cannot_be_made() {
    let place = Place::with_model();
    place.write_gguf("bad.gguf", &[("general.architecture", "llama".to_owned().into())]);
    let export = |model, out| place.refusal(&["export-hf", "--model", model, "--out", out], b"");
    let whole = "model: file: is a model folder already: nothing to export";
    assert_eq!(export("model", "out"), whole);
    assert_eq!(export("bad.gguf", "model"), "model: file: exists already: name a new folder");
    assert!(export("bad.gguf", "out").starts_with("bad.gguf: llama."));
    assert!(export("none.gguf", "out").starts_with("none.gguf: file: "));
}

#[test]
fn truncated_gguf_files() {
    let place = Place::new();
    place.write_gguf("whole.gguf", &[("general.architecture", "llama".to_owned().into())]);
    let whole = std::fs::read(place.path("whole.gguf")).unwrap();
    // In the magic, the version, the counts, a key, a value, the directory, and the data.
    for length in [1, 6, 15, 30, 60, 100, whole.len() - 200, whole.len() - 1] {
        place.write("cut.gguf", &whole[..length]);
        let message = place.refused_model("cut.gguf");
        let (_, after) = message.split_once("cut.gguf: ").expect("the file");
        assert!(after.contains(": "), "{length} bytes: no field in {message}");
    }
}

#[test]
fn gguf_files_of_unknown_or_missing_architecture() {
    let place = Place::new();
    place.write_gguf("mamba.gguf", &[("general.architecture", "mamba".to_owned().into())]);
    let message = place.refused_model("mamba.gguf");
    let want = "mamba.gguf: general.architecture: unknown architecture \"mamba\"; supported: llama";
    assert!(message.starts_with(want), "{message}");
    let message = place.write_gguf("bare.gguf", &[]).refused_model("bare.gguf");
    assert_eq!(message, "bare.gguf: general.architecture: missing");
    let number = [("general.architecture", GgufValue::Uint32(1))];
    let message = place.write_gguf("number.gguf", &number).refused_model("number.gguf");
    assert_eq!(message, "number.gguf: general.architecture: expected a string");
}

#[test]
fn configurations_that_contradict_the_weights_or_are_unknown() {
    let place = Place::with_model();
    for (field, value, want) in [
        (
            "intermediate_size",
            json!(128),
            "model/model.safetensors: model.layers.0.mlp.gate_proj.weight: has shape [96, 64] but \
             the configuration asks for [128, 64]",
        ),
        ("vocab_size", json!(97), "model/model.safetensors: model.embed_tokens.weight: has shape"),
        (
            "num_attention_heads",
            json!(8),
            "model/model.safetensors: model.layers.0.self_attn.q_proj",
        ),
        ("num_hidden_layers", json!(1), "model/config.json: num_hidden_layers: says 1 layers but"),
        ("num_hidden_layers", json!(1u64 << 62), "model/config.json: num_hidden_layers: "),
        ("model_type", json!("mamba"), "model/config.json: model_type: unknown architecture"),
        ("head_dim", json!("wide"), "model/config.json: head_dim: expected"),
        ("rope_theta", json!(-1), "model/config.json: rope_theta: "),
    ] {
        let mut config = case("qwen3").config;
        config[field] = value;
        let message = place.write("model/config.json", config.to_string()).refused_model("model");
        assert!(message.starts_with(want), "{message}");
    }
}

#[test]
fn prompts_that_cannot_be_continued() {
    let place = Place::with_model();
    assert!(place.refused_prompt("", b"").starts_with("prompt: is empty"));
    assert!(place.refused_prompt("-", b"").starts_with("prompt: is empty"));
    // The template adds three characters.
    let long = "a".repeat(510);
    let want = "prompt: 513 tokens do not fit into the context of 512 (model/config.json: \
                max_position_embeddings)";
    assert_eq!(place.refused_prompt(&long, b""), want);
    // Also where text comes instead of JSON: not even the line above it is printed.
    let text = ["generate", "--device=cpu", "--model=model", "--prompt", &long];
    assert_eq!(place.refusal(&text, b""), want);
    let message = place.refused_prompt("-", b"good\xC3(bad");
    assert_eq!(message, "prompt: standard input: not valid UTF-8 at byte 4");
}

#[test]
fn messages_that_are_no_text() {
    let place = Place::with_model();
    let chat = ["chat", "--device=cpu", "--max-tokens=1", "--model=model"];
    let (stdout, message) = place.failure(&chat, b"h\nbad \xFFline\n");
    assert_eq!(message, "prompt: standard input: not valid UTF-8 at byte 4");
    assert!(stdout.ends_with(">> "), "{stdout}");
}

#[test]
fn arguments_outside_of_their_range() {
    let place = Place::with_model();
    for (argument, want) in [
        ("--temp=-1", "temp"),
        ("--temp=nan", "temp"),
        ("--chat-template-config=[", "chat-template-config: "),
        ("--kv-bits=7", "kv-bits: 7 bits in groups of 64"),
    ] {
        let command =
            ["generate", "--device=cpu", "--json", "--model=model", "--prompt=a", argument];
        let message = place.refusal(&command, b"");
        assert!(message.starts_with(want), "{message}");
    }
    let message =
        place.refusal(&["bench", "--device=cpu", "--kv-bits=4", "--kv-group-size=48"], b"");
    assert!(message.starts_with("kv-bits: 4 bits in groups of 48"), "{message}");
    let message = place.refusal(&["bench", "--device=cpu", "--batch=1,0"], b"");
    assert!(message.starts_with("batch: "), "{message}");
    let message = place.refusal(&["bench", "--device=cpu", "-d", "40900"], b"");
    assert!(message.starts_with("depth: 41412 tokens do not fit"), "{message}");
}
