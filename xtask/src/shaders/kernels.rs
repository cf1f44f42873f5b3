//! The list of kernels, read from the Rust source that declares them.
//!
//! The list is one macro invocation, `kernels! { … }`, whose expansion embeds the SPIR-V; it is read here
//! with a strict parser of its own, so that xtask needs neither the library nor a Rust parser.

use crate::error::{Error, Result};
use std::collections::HashSet;

/// One kernel: a GLSL source and the macros it is compiled with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Kernel {
    /// The kernel's name, which is also that of its SPIR-V file.
    pub(crate) name: String,
    /// The source, relative to the folder of shaders.
    pub(crate) source: String,
    /// Names and values of macros, in the order of the list.
    pub(crate) defines: Vec<(String, String)>,
    /// Marked `committed`: compiled by a newer glslc, and not by `shader!`.
    pub(crate) committed: bool,
}

/// Parses the text of the file `file`, which is named in errors.
///
/// # Errors
/// When there is no list or it does not end, a line is not of the form, or a name comes twice.
pub(crate) fn parse(file: &str, text: &str) -> Result<Vec<Kernel>> {
    let kernels = entries(file, text)?.into_iter().map(|(number, line)| {
        parse_line(line).map_err(|why| Error::new(format!("{file}:{number}: {why}: {line}")))
    });
    let kernels = kernels.collect::<Result<Vec<_>>>()?;
    match repeated(&kernels) {
        None => Ok(kernels),
        Some(name) => Err(Error::new(format!("{file}: the kernel {name} is listed twice"))),
    }
}

/// The lines of the list with their numbers, comments and empty lines left out.
fn entries<'a>(file: &str, text: &'a str) -> Result<Vec<(usize, &'a str)>> {
    let mut lines = text.lines().map(str::trim).enumerate().map(|(index, line)| (index + 1, line));
    if !lines.by_ref().any(|(_, line)| is_opening(line)) {
        return Err(Error::new(format!("{file}: no line `kernels! {{`")));
    }
    let mut entries = Vec::new();
    for (number, line) in lines {
        match line {
            "}" => return Ok(entries),
            line if line.is_empty() || line.starts_with("//") => {}
            line => entries.push((number, line)),
        }
    }
    Err(Error::new(format!(
        "{file}: the list `kernels! {{` does not end with `}}` on a line of its own"
    )))
}

fn is_opening(line: &str) -> bool {
    line.strip_suffix("kernels! {")
        .is_some_and(|before| before.is_empty() || before.ends_with("::"))
}

fn repeated(kernels: &[Kernel]) -> Option<&str> {
    let mut seen = HashSet::new();
    kernels.iter().map(|kernel| kernel.name.as_str()).find(|name| !seen.insert(*name))
}

/// Why a line is not of the form.
type Reason = &'static str;

/// Parses `name => "folder/file.comp" { NAME: "VALUE", … },`, perhaps with `committed` before the last comma.
fn parse_line(line: &str) -> std::result::Result<Kernel, Reason> {
    let mut rest = Rest(line);
    let name = rest.identifier().ok_or("expected a kernel's name")?;
    rest.symbol("=>").ok_or("expected `=>` after the name")?;
    let source = rest.quoted().ok_or("expected the source in quotes after `=>`")?;
    check_source(source)?;
    let defines = parse_defines(&mut rest)?;
    let committed = rest.symbol("committed").is_some();
    rest.symbol(",").ok_or("expected `,` after `}`")?;
    match rest.0 {
        "" => Ok(Kernel { name: name.to_owned(), source: source.to_owned(), defines, committed }),
        _ => Err("expected nothing after `},`"),
    }
}

fn check_source(source: &str) -> std::result::Result<(), Reason> {
    let inside = source.split('/').all(|part| !part.is_empty() && part != "..");
    match inside && source.ends_with(".comp") {
        true => Ok(()),
        false => Err("expected the source as a path below shaders/ that ends in `.comp`"),
    }
}

fn parse_defines(rest: &mut Rest<'_>) -> std::result::Result<Vec<(String, String)>, Reason> {
    let mut defines = Vec::new();
    rest.symbol("{").ok_or("expected `{` after the source")?;
    while rest.symbol("}").is_none() {
        let name = rest.identifier().ok_or("expected a macro's name or `}`")?;
        rest.symbol(":").ok_or("expected `:` after the macro's name")?;
        let value = rest.quoted().ok_or("expected the macro's value in quotes")?;
        defines.push((name.to_owned(), value.to_owned()));
        if rest.symbol(",").is_none() {
            rest.symbol("}").ok_or("expected `,` or `}` after the macro's value")?;
            break;
        }
    }
    Ok(defines)
}

/// What is left of a line; every method takes one token off its front, if it is there.
struct Rest<'a>(&'a str);

impl<'a> Rest<'a> {
    fn symbol(&mut self, symbol: &str) -> Option<()> {
        self.0 = self.0.strip_prefix(symbol)?.trim_start();
        Some(())
    }

    fn identifier(&mut self) -> Option<&'a str> {
        let end =
            self.0.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(self.0.len());
        let (name, rest) = self.0.split_at(end);
        if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        self.0 = rest.trim_start();
        Some(name)
    }

    /// Text in quotes, without escapes: none is needed, and Rust and the shell would read them differently.
    fn quoted(&mut self) -> Option<&'a str> {
        let (text, rest) = self.0.strip_prefix('"')?.split_once('"')?;
        if text.contains('\\') {
            return None;
        }
        self.0 = rest.trim_start();
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(name: &str, source: &str, defines: &[(&str, &str)]) -> Kernel {
        let defines =
            defines.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Kernel { name: name.to_owned(), source: source.to_owned(), defines, committed: false }
    }

    fn error(line: &str) -> String {
        parse("registry.rs", &format!("kernels! {{\n{line}\n}}\n")).unwrap_err().to_string()
    }

    #[test]
    fn the_list_is_found_and_read() {
        let text = "macro_rules! kernels {\n    ($x:tt) => {};\n}\n\nkernels! {\n    // a comment\n\n    \
                    fill => \"copy/fill.comp\" {},\n    \
                    unary_float => \"unary/unary.comp\" { CLASS: \"0\", TYPE: \"float\" },\n\
                    }\n\nfn other() {}\n";
        let expected = [
            kernel("fill", "copy/fill.comp", &[]),
            kernel("unary_float", "unary/unary.comp", &[("CLASS", "0"), ("TYPE", "float")]),
        ];
        assert_eq!(parse("registry.rs", text).unwrap(), expected);
    }

    #[test]
    fn spaces_and_a_trailing_comma_do_not_matter() {
        let expected = kernel("a", "b/c.comp", &[("X", "1")]);
        assert_eq!(parse_line("a=>\"b/c.comp\"{X:\"1\",},").unwrap(), expected);
    }

    #[test]
    fn the_mark_of_committed_kernels_is_read() {
        let found = parse_line("a => \"b/c.comp\" { X: \"1\" } committed,").unwrap();
        assert!(found.committed && found.defines.len() == 1);
        assert!(parse_line("a => \"b/c.comp\" { } commit,").is_err());
    }

    #[test]
    fn bad_lines_are_reported_with_their_number() {
        assert!(error("a -> \"b.comp\" {},").starts_with("registry.rs:2: expected `=>`"));
        assert!(error("a => b.comp {},").contains("in quotes"));
        assert!(error("a => \"b.comp\" {}").contains("expected `,` after `}`"));
        assert!(error("a => \"b.comp\" { X },").contains("expected `:`"));
        assert!(error("a => \"b.comp\" { X: \"1\" Y: \"2\" },").contains("expected `,` or `}`"));
        assert!(error("a => \"../b.comp\" {},").contains("below shaders/"));
        assert!(error("a => \"b.glsl\" {},").contains(".comp"));
        assert!(error("1a => \"b.comp\" {},").contains("kernel's name"));
        assert!(error("a => \"b.comp\" {}, c => \"d.comp\" {},").contains("nothing after"));
    }

    #[test]
    fn repeated_names_and_missing_ends_are_errors() {
        let twice = "kernels! {\na => \"b.comp\" {},\na => \"c.comp\" {},\n}\n";
        assert!(parse("r.rs", twice).unwrap_err().to_string().contains("a is listed twice"));
        assert!(parse("r.rs", "kernels! {\n").unwrap_err().to_string().contains("does not end"));
        assert!(
            parse("r.rs", "macro_rules! kernels {\n}\n")
                .unwrap_err()
                .to_string()
                .contains("no line")
        );
    }
}
