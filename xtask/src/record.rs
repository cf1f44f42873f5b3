//! `cargo xtask record`: a picture of the terminal while text is generated, at the speed at which it
//! came.

mod screen;
mod svg;

use crate::error::{Context, Error, Result};
use crate::generate;
use crate::paths;
use crate::process;
use screen::Piece;
use std::fs;
use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Instant;

/// Where the picture goes.
const PICTURE: &str = "docs/generate.svg";

/// `cargo xtask record [ARGUMENT…]`: the arguments are those of `cargo xtask generate`.
pub(crate) fn main(args: &[String]) -> Result<()> {
    let mut command = generate::ready(args)?;
    let typed = format!("$ cargo xtask {}\n", typed(args));
    let pieces = watch(&mut command)?;
    let path = paths::root().join(PICTURE);
    let text = svg::animation(&screen::lines(&typed, &pieces));
    fs::write(&path, text).context(|| format!("cannot write {}", path.display()))?;
    println!("{}", paths::shown(&path));
    Ok(())
}

/// The command that a person would type for this text.
fn typed(args: &[String]) -> String {
    let mut command = Command::new("generate");
    process::shown(command.args(args))
}

/// Runs a command to its end; returns what it wrote to both outputs and when, in seconds since the
/// first of it.
fn watch(command: &mut Command) -> Result<Vec<Piece>> {
    process::announce(command);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn();
    let mut child = child.context(|| format!("cannot start `{}`", process::shown(command)))?;
    let (sender, receiver) = channel();
    if let Some(out) = child.stdout.take() {
        follow(out, sender.clone());
    }
    if let Some(err) = child.stderr.take() {
        follow(err, sender);
    }
    let arrived: Vec<(Instant, Vec<u8>)> = receiver.iter().collect();
    let status = child.wait().context(|| "cannot wait for mlx-vulkan".to_owned())?;
    process::check(command, status)?;
    let Some(&(first, _)) = arrived.first() else {
        return Err(Error::new("record: mlx-vulkan printed nothing"));
    };
    let piece = |(at, bytes): &(Instant, Vec<u8>)| Piece {
        seconds: at.saturating_duration_since(first).as_secs_f64(),
        text: String::from_utf8_lossy(bytes).into_owned(),
    };
    Ok(arrived.iter().map(piece).collect())
}

/// Sends what comes out of a pipe with the time it came, until it is closed. What is written is whole
/// characters, at once.
fn follow(mut pipe: impl Read + Send + 'static, sender: Sender<(Instant, Vec<u8>)>) {
    thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = pipe.read(&mut buffer) {
            if sender.send((Instant::now(), buffer[..count].to_vec())).is_err() {
                return;
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_outputs_are_watched() {
        let mut command = Command::new(std::env::var("CARGO").unwrap());
        let pieces = watch(command.arg("--version")).unwrap();
        let text: String = pieces.iter().map(|piece| piece.text.as_str()).collect();
        assert!(text.starts_with("cargo "), "{text}");
        assert_eq!(pieces[0].seconds, 0.0);
    }

    #[test]
    fn a_command_that_fails_is_an_error() {
        let mut command = Command::new(std::env::var("CARGO").unwrap());
        assert!(watch(command.arg("no-such-command")).is_err());
    }
}
