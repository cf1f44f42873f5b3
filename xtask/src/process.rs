//! Running other programs.

use crate::error::{Context, Error, Result};
use crate::paths;
use std::env;
use std::ffi::OsStr;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Output, Stdio};
use std::thread::ScopedJoinHandle;

/// The cargo that runs this task, at the root of the workspace.
///
/// Variables that cargo set for xtask alone are taken away: with them in place the inner cargo would rebuild
/// crates whose build scripts watch them.
pub(crate) fn cargo<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Command {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(args).current_dir(paths::root());
    for (name, _) in env::vars_os() {
        if name.to_string_lossy().starts_with("CARGO_PKG_") {
            command.env_remove(name);
        }
    }
    command.env_remove("CARGO_MANIFEST_DIR").env_remove("CARGO_MANIFEST_PATH");
    command
}

/// Sets variables of a command that the caller has not set.
pub(crate) fn default_envs(command: &mut Command, variables: &[(&str, &str)]) {
    command.envs(variables.iter().copied().filter(|(name, _)| env::var_os(name).is_none()));
}

/// A command as one would type it.
pub(crate) fn shown(command: &Command) -> String {
    let program = PathBuf::from(command.get_program());
    let name = program.file_name().unwrap_or(program.as_os_str()).to_string_lossy().into_owned();
    let args = command.get_args().map(|arg| quoted(&arg.to_string_lossy()));
    std::iter::once(name).chain(args).collect::<Vec<_>>().join(" ")
}

/// Runs a step to its end; anything but success is an error.
///
/// What the step prints goes to standard error, so that standard output carries
/// nothing but the task's own result.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    announce(command);
    let status = command.stdout(io::stderr()).status();
    check(command, status.context(|| format!("cannot start `{}`", shown(command)))?)
}

/// Hands the terminal over to the program that the task is about; it reports its failures itself.
pub(crate) fn hand_over(command: &mut Command) -> Result<()> {
    announce(command);
    let status = command.status().context(|| format!("cannot start `{}`", shown(command)))?;
    if status.success() { Ok(()) } else { Err(Error::reported()) }
}

/// Runs a program beside others: what it prints is passed on when it has ended, so that it stays together.
pub(crate) fn run_beside(command: &mut Command) -> Result<ExitStatus> {
    let output = output(command)?;
    // The lock of standard output keeps both together.
    let mut out = io::stdout().lock();
    let written = out.write_all(&output.stdout).and_then(|()| out.flush());
    written
        .and_then(|()| io::stderr().write_all(&output.stderr))
        .context(|| format!("cannot pass on what `{}` printed", shown(command)))?;
    Ok(output.status)
}

/// What a thread of a scope came to.
pub(crate) fn joined<T>(thread: ScopedJoinHandle<'_, Result<T>>) -> Result<T> {
    thread.join().unwrap_or_else(|_| Err(Error::new("a run's thread panicked")))
}

/// Prints what is about to run, as cargo's own steps look.
pub(crate) fn announce(command: &Command) {
    eprintln!("     Running {}", shown(command));
}

/// Runs quietly and returns what was written to standard output; the error carries standard error.
pub(crate) fn capture(command: &mut Command) -> Result<Vec<u8>> {
    let output = output(command)?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(Error::new(format!("`{}` failed: {said}", shown(command))))
}

/// Whether the command starts and succeeds; nothing is printed.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    output(command).is_ok_and(|output| output.status.success())
}

/// Success, or an error that names the command and how it ended.
pub(crate) fn check(command: &Command, status: ExitStatus) -> Result<()> {
    match status.success() {
        true => Ok(()),
        false => Err(Error::new(format!("`{}` failed ({status})", shown(command)))),
    }
}

/// The file that a bare program name stands for on `PATH`.
pub(crate) fn on_path(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let file = format!("{program}{}", env::consts::EXE_SUFFIX);
    env::split_paths(&path).map(|dir| dir.join(&file)).find(|candidate| candidate.is_file())
}

/// Runs a program without input, and keeps what it prints.
pub(crate) fn output(command: &mut Command) -> Result<Output> {
    command.stdin(Stdio::null()).output().context(|| format!("cannot start `{}`", shown(command)))
}

fn quoted(arg: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=+./:,@%".contains(c);
    match !arg.is_empty() && arg.chars().all(plain) {
        true => arg.to_owned(),
        false => format!("'{}'", arg.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_shown_as_one_would_type_them() {
        let mut command = Command::new("/usr/bin/mlx-vulkan");
        command.args(["--prompt", "it's time", ""]);
        assert_eq!(shown(&command), r"mlx-vulkan --prompt 'it'\''s time' ''");
    }

    #[test]
    fn a_program_that_does_not_exist_is_an_error() {
        let error = capture(&mut Command::new("no-such-program-here")).unwrap_err();
        assert!(error.to_string().starts_with("cannot start `no-such-program-here`"));
    }
}
