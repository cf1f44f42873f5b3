//! Tests that need an environment of their own: a variable is read once per process.

use std::process::{Command, Output, exit};

/// Tells a child which test it is to run.
const CHILD: &str = "MLX_TEST_CHILD";

/// Runs the calling test, which the harness knows as `test`, once more in a process of its own
/// with `variables` set, where `body` runs; here, returns what that process printed. In the child
/// it returns `None`.
///
/// # Panics
/// When `body` panics there, or the process dies in another way.
pub fn in_child(test: &str, variables: &[(&str, &str)], body: impl FnOnce()) -> Option<String> {
    if std::env::var(CHILD).is_ok_and(|name| name == test) {
        body();
        return None;
    }
    let output = run(test, variables);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let printed = text(&output.stdout) + &text(&output.stderr);
    assert!(output.status.success(), "{test} with {variables:?}: {}\n{printed}", output.status);
    assert!(printed.contains("1 passed"), "there is no test {test}:\n{printed}");
    Some(printed)
}

/// The same for a `body` that ends the process itself: it may be in the midst of something.
///
/// # Panics
/// When the process dies in another way.
pub fn exit_in_child(test: &str, variables: &[(&str, &str)], body: impl FnOnce()) {
    const CODE: i32 = 23;
    if std::env::var(CHILD).is_ok_and(|name| name == test) {
        body();
        exit(CODE);
    }
    let Output { status, stderr, .. } = run(test, variables);
    let printed = String::from_utf8_lossy(&stderr);
    assert_eq!(status.code(), Some(CODE), "{test} with {variables:?}: {status}\n{printed}");
}

/// Runs `test` in a process of its own.
fn run(test: &str, variables: &[(&str, &str)]) -> Output {
    let program = std::env::current_exe().expect("a test binary knows its path");
    let mut command = Command::new(program);
    command.args([test, "--exact", "--nocapture", "--test-threads=1"]);
    let output = command.env(CHILD, test).envs(variables.iter().copied()).output();
    output.expect("a test binary can run itself")
}
