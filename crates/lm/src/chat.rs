//! A conversation that keeps its cache from turn to turn.

use crate::{
    Error, Result,
    generate::{GenerateOptions, Generation, generate},
    load::LoadedModel,
    models::Cache,
    template::Message,
};

/// A conversation with a model.
///
/// Every turn renders the whole conversation, and only what differs from the tokens in the cache
/// is processed: templates may rewrite earlier turns, as Qwen's do with thoughts.
pub struct Chat<'m> {
    loaded: &'m LoadedModel,
    cache: Cache,
    /// The tokens whose keys and values are in the cache.
    cached: Vec<u32>,
    messages: Vec<Message>,
    system: Option<String>,
}

impl<'m> Chat<'m> {
    /// An empty conversation, with a system message if there is one.
    pub fn new(loaded: &'m LoadedModel, system: Option<String>) -> Self {
        let mut chat = Self {
            cache: loaded.model.new_cache(),
            loaded,
            cached: Vec::new(),
            messages: Vec::new(),
            system,
        };
        chat.reset();
        chat
    }

    /// Forgets the conversation, but not the system message.
    pub fn reset(&mut self) {
        self.messages.clear();
        self.messages.extend(self.system.as_ref().map(|text| Message::new("system", text)));
    }

    /// The conversation so far.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Sends a message and returns the answer, which `show` receives as it comes. After an error
    /// the conversation is as it was before.
    ///
    /// # Errors
    /// When the model has no chat template, or as [`generate`].
    pub fn send(
        &mut self,
        text: &str,
        options: &GenerateOptions,
        show: impl FnMut(&str) -> bool,
    ) -> Result<Generation> {
        self.messages.push(Message::user(text));
        let answer = self.answer(options, show);
        match &answer {
            Ok(generation) => self.messages.push(Message::new("assistant", &generation.text)),
            Err(_) => drop(self.messages.pop()),
        }
        answer
    }

    fn answer(
        &mut self,
        options: &GenerateOptions,
        show: impl FnMut(&str) -> bool,
    ) -> Result<Generation> {
        let prompt = prompt_ids(self.loaded, &self.messages)?;
        let common = self.cache.truncate(common_prefix(&self.cached, &prompt));
        self.cached.truncate(common);
        let generation = generate(self.loaded, &mut self.cache, &prompt[common..], options, show);
        match &generation {
            Ok(generation) => {
                // The token ahead may have put the ending token into the cache as well.
                self.cached = [prompt.as_slice(), &generation.ids].concat();
                self.cached.truncate(self.cache.len());
                let left = self.cache.truncate(self.cached.len());
                self.cached.truncate(left);
            }
            Err(_) => {
                self.cached.clear();
                self.cache = self.loaded.model.new_cache();
            }
        }
        generation
    }
}

/// The tokens of a conversation, up to where the answer begins.
///
/// # Errors
/// When the model has no chat template or it refuses the conversation.
pub fn prompt_ids(loaded: &LoadedModel, messages: &[Message]) -> Result<Vec<u32>> {
    let template = loaded.template.as_ref().ok_or_else(|| {
        Error::Template("the model has none: use its tokens directly (--raw)".into())
    })?;
    loaded.tokenizer.encode(&template.render(messages)?, false)
}

/// How many tokens need not be processed again: at least the last one of the prompt must be.
fn common_prefix(cached: &[u32], prompt: &[u32]) -> usize {
    let same = cached.iter().zip(prompt).take_while(|(a, b)| a == b).count();
    same.min(prompt.len().saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_token_is_always_processed() {
        assert_eq!(common_prefix(&[1, 2, 3], &[1, 2, 4]), 2);
        assert_eq!(common_prefix(&[1, 2, 3], &[1, 2, 3]), 2);
        assert_eq!(common_prefix(&[1, 2, 3], &[1, 2]), 1);
        assert_eq!(common_prefix(&[], &[]), 0);
    }
}
