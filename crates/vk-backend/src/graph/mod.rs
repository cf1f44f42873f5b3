//! What several operations become together: groups of nodes that kernels do at once (`fusion`), and runs of
//! steps in one dispatch (`interpreter`).

pub(crate) mod fusion;
pub(crate) mod interpreter;
