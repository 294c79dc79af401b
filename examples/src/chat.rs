//! Conversations: the template of a file (`tokenizer.chat_template`), filled in.

extern crate std;

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use hk_core::Metadata;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Value;
use minijinja::{Environment, ErrorKind};
use minijinja_contrib::pycompat::unknown_method_callback;

use crate::error::{Error, Result};
use crate::tokenizer::Tokenizer;

const TEMPLATE: &str = "tokenizer.chat_template";

/// Steps that a template may take, and 64 times this many bytes that it may build. Real
/// ones take some dozens a message.
const FUEL: u64 = 1_000_000;

/// Who says something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Whoever set the conversation up.
    System,
    /// The person.
    User,
    /// The model.
    Assistant,
}

impl Role {
    /// What templates call it.
    const fn name(self) -> &'static str {
        match self {
            Role::System => "system",
            Role::User => "user",
            Role::Assistant => "assistant",
        }
    }
}

/// Something said.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Message {
    /// By whom.
    pub role: Role,
    /// What.
    pub content: String,
}

impl Message {
    /// What `role` says.
    pub fn new(role: Role, content: impl Into<String>) -> Self {
        Message { role, content: content.into() }
    }
}

/// How a model wants conversations written: a Jinja template, as the `transformers` package
/// would run it.
#[derive(Debug)]
pub struct ChatTemplate {
    environment: Environment<'static>,
}

impl ChatTemplate {
    /// Reads the template of a file.
    ///
    /// # Errors
    /// [`Error::MissingKey`] when it has none, [`Error::Key`] when that is no template.
    pub fn read(metadata: &Metadata<'_>) -> Result<Self> {
        let value = metadata.get(TEMPLATE).ok_or_else(|| Error::MissingKey(TEMPLATE.into()))?;
        let source = value.as_str().ok_or_else(|| {
            Error::key(TEMPLATE, format!("a {} value where a string is needed", value.tag()))
        })?;
        let mut environment = Environment::new();
        environment.set_syntax(syntax()?);
        environment.set_fuel(Some(FUEL));
        environment.set_unknown_method_callback(unknown_method_callback);
        environment.add_function("raise_exception", raise_exception);
        environment.add_function("strftime_now", strftime_now);
        environment.add_template_owned(TEMPLATE, source.to_string()).map_err(broken)?;
        Ok(ChatTemplate { environment })
    }

    /// The tokens of a conversation, up to where the model is to answer. What is said in it
    /// stays text, whatever it looks like.
    ///
    /// # Errors
    /// [`Error::Key`] when the template fails, or refuses such a conversation;
    /// [`Error::NoTokenForByte`].
    pub fn tokens(&self, tokenizer: &Tokenizer<'_>, messages: &[Message]) -> Result<Vec<u32>> {
        tokenizer.encode_chat(&self.render(tokenizer, messages)?)
    }

    /// The text of a conversation, for [`Tokenizer::encode_chat`].
    fn render(&self, tokenizer: &Tokenizer<'_>, messages: &[Message]) -> Result<String> {
        let special = |token: Option<u32>| {
            Value::from(token.and_then(|token| tokenizer.spelling(token)).unwrap_or(""))
        };
        let message = |message: &Message| {
            Value::from(BTreeMap::from([
                ("role", Value::from(message.role.name())),
                ("content", Value::from(tokenizer.guard(&message.content))),
            ]))
        };
        let context = BTreeMap::from([
            ("messages", messages.iter().map(message).collect()),
            ("add_generation_prompt", Value::from(true)),
            ("bos_token", special(tokenizer.begin())),
            ("eos_token", special(tokenizer.end())),
            ("tools", Value::from(())),
            ("documents", Value::from(())),
        ]);
        let template = self.environment.get_template(TEMPLATE).map_err(broken)?;
        template.render(Value::from(context)).map_err(broken)
    }
}

/// As `transformers` sets it.
fn syntax() -> Result<SyntaxConfig> {
    let mut syntax = SyntaxConfig::builder();
    syntax.trim_blocks(true).lstrip_blocks(true).build().map_err(broken)
}

/// Lets a template refuse a conversation.
fn raise_exception(message: String) -> Result<Value, minijinja::Error> {
    Err(minijinja::Error::new(ErrorKind::InvalidOperation, message))
}

/// The date and time (UTC) in a format of the C function `strftime`.
fn strftime_now(format: &str) -> Result<String, minijinja::Error> {
    jiff::fmt::strtime::format(format, jiff::Timestamp::now())
        .map_err(|error| minijinja::Error::new(ErrorKind::InvalidOperation, error.to_string()))
}

fn broken(error: minijinja::Error) -> Error {
    let line = error.line().map(|line| format!(" (line {line} of the template)"));
    let detail = error.detail().map_or_else(|| error.kind().to_string(), ToString::to_string);
    Error::key(TEMPLATE, format!("{detail}{}", line.unwrap_or_default()))
}
