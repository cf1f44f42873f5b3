//! Graphs as pictures.

use std::{fmt::Write, sync::Arc};

use crate::{
    Array,
    primitives::Primitive,
    transforms::walk::{Graph, Step},
};

/// What `outputs` are computed from, in the language of Graphviz: primitives as boxes, arrays by letters or
/// by the names that they are given.
pub fn export_to_dot(outputs: &[Array], names: &[(&str, &Array)]) -> String {
    let graph = Graph::between(&[], outputs);
    let names = Names { graph: &graph, given: names };
    let (is_read, is_made) = (graph.read(), graph.made());
    let mut dot = String::from("digraph {\n");
    for value in (0..graph.values.len()).filter(|&value| !is_made[value]) {
        let _ = writeln!(dot, "{{ rank=source; \"{}\"; }}", names.of(value));
    }
    for (number, step) in graph.steps.iter().enumerate() {
        write_step(&mut dot, number, step, &names, &is_read);
    }
    dot.push('}');
    dot
}

fn write_step(dot: &mut String, number: usize, step: &Step, names: &Names<'_>, is_read: &[bool]) {
    let Step { node, inputs, outputs } = step;
    let _ =
        writeln!(dot, "{{ {number} [label =\"{}\", shape=rectangle]; }}", label(&node.primitive));
    for &input in inputs {
        let _ = writeln!(dot, "\"{}\" -> {number}", names.of(input));
    }
    for &output in outputs {
        let rank = if is_read[output] { "" } else { "rank=sink; " };
        let name = names.of(output);
        let _ = writeln!(dot, "{{ {rank}\"{name}\"; }}\n{number} -> \"{name}\"");
    }
}

/// The name of a primitive, and for a program those of its steps.
fn label(primitive: &Primitive) -> String {
    match primitive {
        Primitive::Compiled(program) => program.label(),
        other => other.name().into(),
    }
}

/// Names of arrays.
struct Names<'a> {
    graph: &'a Graph,
    given: &'a [(&'a str, &'a Array)],
}

impl Names<'_> {
    /// The name that an array was given, or letters.
    fn of(&self, value: usize) -> String {
        let array = &self.graph.values[value];
        match self.given.iter().find(|(_, given)| Arc::ptr_eq(&given.0, &array.0)) {
            Some((name, _)) => (*name).into(),
            None => letters(value),
        }
    }
}

/// A to Z, then AA and so on.
pub(crate) fn letters(mut number: usize) -> String {
    let mut letters = Vec::new();
    loop {
        letters.push(char::from(b'A' + (number % 26) as u8));
        match (number / 26).checked_sub(1) {
            Some(rest) => number = rest,
            None => return letters.iter().rev().collect(),
        }
    }
}
