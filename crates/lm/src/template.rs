//! Chat templates: Jinja as Hugging Face's tokenizers use it, rendered by minijinja.

use jiff::Timestamp;
use jiff::fmt::strtime::{self, BrokenDownTime};
use minijinja::{
    Environment, ErrorKind, UndefinedBehavior, Value, context, syntax::SyntaxConfig, value::Serde,
};
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// `system`, `user` or `assistant`.
    pub role: String,
    /// The text.
    pub content: String,
}

impl Message {
    /// A message of `role`.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Self {
        Self { role: role.into(), content: content.into() }
    }

    /// A message of the user.
    pub fn user(content: impl Into<String>) -> Self {
        Self::new("user", content)
    }
}

/// A compiled chat template.
#[derive(Debug, Clone)]
pub struct ChatTemplate {
    env: Environment<'static>,
    bos: String,
    eos: String,
}

const NAME: &str = "chat";

impl ChatTemplate {
    /// Compiles `source`. `bos` and `eos` are the texts of the special tokens, empty if unknown.
    ///
    /// # Errors
    /// When the template is not valid Jinja.
    pub fn new(source: &str, bos: &str, eos: &str) -> Result<Self> {
        let mut env = Environment::new();
        // As transformers sets up Jinja.
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        env.set_syntax(syntax.map_err(|e| Error::template(&e))?);
        env.set_undefined_behavior(UndefinedBehavior::Lenient);
        env.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        env.add_function("raise_exception", raise_exception);
        env.add_function("strftime_now", strftime_now);
        env.add_filter("tojson", tojson);
        env.add_template_owned(NAME, source.to_owned()).map_err(|e| Error::template(&e))?;
        Ok(Self { env, bos: bos.to_owned(), eos: eos.to_owned() })
    }

    /// Sets a variable that the template may look at, such as Qwen's `enable_thinking`.
    pub fn set_variable(&mut self, name: &str, value: &serde_json::Value) {
        self.env.add_global(name.to_owned(), Value::from(Serde(value)));
    }

    /// The prompt for `messages`, ending where the assistant's answer begins.
    ///
    /// # Errors
    /// When the template raises, for example on roles that it does not know.
    pub fn render(&self, messages: &[Message]) -> Result<String> {
        self.render_with(messages, true)
    }

    /// As [`ChatTemplate::render`]; without `generation` the prompt ends after the last message.
    ///
    /// # Errors
    /// As [`ChatTemplate::render`].
    pub fn render_with(&self, messages: &[Message], generation: bool) -> Result<String> {
        let template = self.env.get_template(NAME).map_err(|e| Error::template(&e))?;
        template
            .render(context! {
                messages => Value::from(Serde(messages)),
                add_generation_prompt => generation,
                bos_token => self.bos.clone(),
                eos_token => self.eos.clone(),
            })
            .map_err(|e| Error::template(&e))
    }
}

/// `raise_exception(text)`: how templates refuse a conversation.
fn raise_exception(text: String) -> Result<String, minijinja::Error> {
    Err(minijinja::Error::new(ErrorKind::InvalidOperation, text))
}

/// `value | tojson(indent=n)`, in Python's spelling: a space after `,` and `:`, no HTML escapes.
fn tojson(value: Value, args: minijinja::value::Kwargs) -> Result<Value, minijinja::Error> {
    let bad = |e: serde_json::Error| {
        minijinja::Error::new(ErrorKind::BadSerialization, "cannot serialize to JSON")
            .with_source(e)
    };
    let indent: Option<usize> = args.get("indent")?;
    // Accepted for compatibility: JSON here is never escaped to ASCII and keeps its order.
    let _: Option<bool> = args.get("ensure_ascii")?;
    let _: Option<bool> = args.get("sort_keys")?;
    args.assert_all_used()?;
    let json = serde_json::to_value(&value).map_err(bad)?;
    let mut text = String::new();
    write_json(&mut text, &json, indent, 0);
    Ok(Value::from_safe_string(text))
}

/// Writes JSON as Python's `json.dumps` does.
fn write_json(out: &mut String, json: &serde_json::Value, indent: Option<usize>, depth: usize) {
    use serde_json::Value as J;
    let line = |out: &mut String, depth: usize| {
        if let Some(n) = indent {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', n * depth));
        }
    };
    let comma = if indent.is_some() { "," } else { ", " };
    match json {
        J::Array(items) if !items.is_empty() => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                out.push_str(if i > 0 { comma } else { "" });
                line(out, depth + 1);
                write_json(out, item, indent, depth + 1);
            }
            line(out, depth);
            out.push(']');
        }
        J::Object(entries) if !entries.is_empty() => {
            out.push('{');
            for (i, (key, item)) in entries.iter().enumerate() {
                out.push_str(if i > 0 { comma } else { "" });
                line(out, depth + 1);
                out.push_str(&J::from(key.as_str()).to_string());
                out.push_str(": ");
                write_json(out, item, indent, depth + 1);
            }
            line(out, depth);
            out.push('}');
        }
        other => out.push_str(&other.to_string()),
    }
}

/// `strftime_now(format)`: the time in UTC, by the fields of C's `strftime`.
fn strftime_now(format: String) -> String {
    strftime(&format, Timestamp::now())
}

/// What is no field of `strftime` stays as it is, as in Python.
fn strftime(format: &str, time: Timestamp) -> String {
    let lenient = strtime::Config::new().lenient(true);
    let text = BrokenDownTime::from(time).to_string_with_config(&lenient, format);
    text.unwrap_or_else(|_| format.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render(source: &str) -> Result<String> {
        ChatTemplate::new(source, "<s>", "</s>")?.render(&[Message::user("hi")])
    }

    #[test]
    fn chatml_with_default_system_message() {
        let source = "{% for message in messages %}{% if loop.first and messages[0]['role'] != \
            'system' %}{{ '<|im_start|>system\nS<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + \
            message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}\
            {% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";
        let want = "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n\
            <|im_start|>assistant\n";
        assert_eq!(render(source).unwrap(), want);
    }

    #[test]
    fn python_methods_and_special_tokens() {
        let source = "{{ bos_token }}{{ messages[0].content.strip().upper() }}{{ eos_token }}\
            {{ messages[0].content.startswith('h') }}{{ messages[::-1][0]['role'] }}\
            {% if tools is not defined %}!{% endif %}";
        assert_eq!(render(source).unwrap(), "<s>HI</s>Trueuser!");
    }

    #[test]
    fn variables_reach_the_template() {
        let source = "{% if enable_thinking is defined and not enable_thinking %}no{% endif %}";
        let mut template = ChatTemplate::new(source, "", "").unwrap();
        assert_eq!(template.render(&[]).unwrap(), "");
        template.set_variable("enable_thinking", &false.into());
        assert_eq!(template.render(&[]).unwrap(), "no");
    }

    #[test]
    fn exceptions_reach_the_user_in_one_line() {
        let error = render("{{ raise_exception('only system first') }}").unwrap_err().to_string();
        assert!(error.contains("only system first") && !error.contains('\n'), "{error}");
        assert!(render("{% if %}").is_err());
    }

    #[test]
    fn json_is_spelled_as_python_does() {
        assert_eq!(
            render("{{ {'a': [1, 'é<'], 'b': {}} | tojson }}").unwrap(),
            r#"{"a": [1, "é<"], "b": {}}"#
        );
        assert_eq!(render("{{ [1] | tojson(indent=2) }}").unwrap(), "[\n  1\n]");
    }

    #[test]
    fn dates() {
        let at = |unix, format: &str| strftime(format, Timestamp::from_second(unix).unwrap());
        assert_eq!(at(951_782_400, "%d %b %Y %A %H:%M %%"), "29 Feb 2000 Tuesday 00:00 %");
        assert_eq!(at(1_767_225_599, "%Y-%m-%d %-d %I %p %j"), "2025-12-31 31 11 PM 365");
        assert_eq!(at(0, "%Y %&"), "1970 %&");
    }
}
