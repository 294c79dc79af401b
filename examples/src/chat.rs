//! Conversations: the template of a file (`tokenizer.chat_template`), filled in.
//!
//! A template is a program by a stranger. It runs in a thread of its own, with a stack that
//! none of its chains of operators can use up, and what it may take of steps, memory and time
//! is limited.

extern crate std;

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;
use std::sync::mpsc;
use std::thread;

use hk_core::Metadata;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Value;
use minijinja::{Environment, ErrorKind, State};
use minijinja_contrib::pycompat::unknown_method_callback;

use crate::error::{Error, Result, a_value, plain};
use crate::tokenizer::Tokenizer;

const TEMPLATE: &str = "tokenizer.chat_template";

/// Steps that a template may take, and 64 times this many bytes that it may build. Real
/// ones take some dozens a message.
const FUEL: u64 = 1_000_000;

/// Most bytes that a template may have. Real ones have up to 20 thousand.
const LONGEST: usize = 1 << 16;

/// Stack for the engine, which calls itself for each link of a chain such as `a + b + c`: a
/// template of [`LONGEST`] can have that many. Memory that is not used is not taken.
const STACK: usize = 256 << 20;

/// How long a template may take, in all it does that is no step: real ones take under a
/// thousandth of this.
const PATIENCE: Duration = Duration::from_secs(5);

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
    environment: Arc<Environment<'static>>,
}

impl ChatTemplate {
    /// Reads the template of a file.
    ///
    /// # Errors
    /// [`Error::MissingKey`] when it has none, [`Error::Key`] when that is no template.
    pub fn read(metadata: &Metadata<'_>) -> Result<Self> {
        let value = metadata.get(TEMPLATE).ok_or_else(|| Error::MissingKey(TEMPLATE.into()))?;
        let source = value.as_str().ok_or_else(|| {
            Error::key(TEMPLATE, format!("{} where a string is needed", a_value(&value)))
        })?;
        if source.len() > LONGEST {
            let problem = format!("it has {} bytes; up to {LONGEST} are read", source.len());
            return Err(Error::key(TEMPLATE, problem));
        }
        let source = source.to_string();
        let environment = apart(PATIENCE, || environment(source))?;
        Ok(ChatTemplate { environment: Arc::new(environment) })
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
        let (environment, context) = (Arc::clone(&self.environment), Value::from(context));
        apart(PATIENCE, move || environment.get_template(TEMPLATE)?.render(context))
    }
}

/// Has `work` done in a thread of its own with [`STACK`], and waits no longer than `patience`.
fn apart<T: Send + 'static>(
    patience: Duration,
    work: impl FnOnce() -> Result<T, minijinja::Error> + Send + 'static,
) -> Result<T> {
    let (sender, receiver) = mpsc::sync_channel(1);
    // Nobody waits for it any more: that is no failure.
    let work = move || _ = sender.send(work().map_err(broken));
    let thread = thread::Builder::new().name("chat template".into()).stack_size(STACK);
    thread.spawn(work).map_err(|_| Error::Memory(STACK))?;
    receiver.recv_timeout(patience).unwrap_or_else(|_| {
        let problem = format!("it takes longer than {} seconds", patience.as_secs());
        Err(Error::key(TEMPLATE, problem))
    })
}

/// An engine that knows the template `source`.
fn environment(source: String) -> Result<Environment<'static>, minijinja::Error> {
    let mut environment = Environment::new();
    environment.set_syntax(syntax()?);
    environment.set_fuel(Some(FUEL));
    environment.set_unknown_method_callback(method);
    environment.add_function("raise_exception", raise_exception);
    environment.add_function("strftime_now", strftime_now);
    environment.add_template_owned(TEMPLATE, source)?;
    Ok(environment)
}

/// As `transformers` sets it.
fn syntax() -> Result<SyntaxConfig, minijinja::Error> {
    let mut syntax = SyntaxConfig::builder();
    syntax.trim_blocks(true).lstrip_blocks(true).build()
}

/// Methods of Python's types. The width of a field is the one number among their arguments
/// that memory is asked for by without a limit.
fn method(
    state: &mut State<'_, '_>,
    value: &Value,
    method: &str,
    arguments: &[Value],
) -> Result<Value, minijinja::Error> {
    let is_wide = |text: &str| text.split(|c: char| !c.is_ascii_digit()).any(|n| n.len() > 4);
    if method == "format" && value.as_str().is_some_and(is_wide) {
        let problem = "a field of more than 9999 characters";
        return Err(minijinja::Error::new(ErrorKind::InvalidOperation, problem));
    }
    unknown_method_callback(state, value, method, arguments)
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
    if error.kind() == ErrorKind::OutOfFuel {
        return Error::key(TEMPLATE, "it takes more steps or memory than any real one");
    }
    let line = error.line().map(|line| format!(" (line {line} of the template)"));
    let detail = error.detail().map_or_else(|| error.kind().to_string(), plain);
    Error::key(TEMPLATE, format!("{detail}{}", line.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_waits_for_ever() {
        let (sender, receiver) = mpsc::channel::<()>();
        let error = apart(Duration::from_millis(10), move || Ok(receiver.recv().is_ok()));
        assert!(error.is_err_and(|error| error.to_string().contains("longer than")));
        drop(sender);
        assert_eq!(apart(PATIENCE, || Ok(7)), Ok(7));
    }
}
